//! The inbox: inserted rows become jobs, each once.

use super::SharedSubject;
use super::fixture::*;
use crate::Job;
use crate::limits::DAY_MS;
use crate::ports::{Admitted, INBOX_BYTES_MAX, INBOX_TEXT_MAX, Inbox, InboxRow, Queues, Recorded, Verdict};
use async_trait::async_trait;

const CREATED: Admitted = Admitted::Recorded(Recorded::Created);

/// An application that inserts rows, with the SQL from the docs.
#[async_trait]
pub trait Application: Send + Sync {
    /// Inserts one row and commits. Its number and age are set by the database; columns that are `None` are not named.
    async fn insert(&self, row: InboxRow);
    /// The rows in order: payloads, each with the reason of its refusal.
    async fn rows(&self) -> Vec<(Vec<u8>, Option<String>)>;
}

/// A row with nothing but a payload.
fn plain(payload: &str) -> InboxRow {
    InboxRow {
        queue: "default".into(),
        kind: "default".into(),
        payload: payload.as_bytes().into(),
        ..Default::default()
    }
}

/// The numbers of the rows that wait.
async fn waiting(inbox: &dyn Inbox) -> Vec<i64> {
    inbox.waiting(i64::MIN, 1_000).await.unwrap().into_iter().map(|row| row.number).collect()
}

fn recorded(job: &Job) -> Verdict {
    Verdict::Record(Box::new(job.clone()))
}

async fn admit(inbox: &dyn Inbox, number: i64, verdict: Verdict) -> Admitted {
    inbox.admit(vec![(number, verdict)]).await.unwrap().remove(0)
}

/// With all its columns, or with none but the payload.
pub async fn a_row_is_read_as_it_was_inserted(subject: SharedSubject) {
    let full = InboxRow {
        queue: "orders".into(),
        kind: "order.cancel".into(),
        payload: [0, 255, b'\\'].as_slice().into(),
        due_at: Some(-1),
        delay_ms: Some(i64::MAX),
        key: Some("ключ 🔑".into()),
        tags: Some(r#"["a","é"]"#.into()),
        priority: Some(7),
        options: Some(r#"{"lease":"5m"}"#.into()),
        ..Default::default()
    };
    subject.application.insert(full.clone()).await;
    subject.application.insert(plain("{\"text\": \"ü \\\\ \\n\"}")).await;
    let rows = subject.inbox.waiting(i64::MIN, 10).await.unwrap();
    assert!(rows.iter().all(|row| row.age_ms < DAY_MS), "{rows:?}");
    assert!(rows[0].number < rows[1].number);
    let bare = |row: &InboxRow| InboxRow { number: 0, age_ms: 0, ..row.clone() };
    assert_eq!(rows.iter().map(bare).collect::<Vec<_>>(), [full, plain("{\"text\": \"ü \\\\ \\n\"}")]);
}

/// And no more of them than requested.
pub async fn the_oldest_come_first(subject: SharedSubject) {
    for n in 1..=5 {
        subject.application.insert(plain(&format!("{n}"))).await;
    }
    let rows = subject.inbox.waiting(i64::MIN, 3).await.unwrap();
    let payloads: Vec<&[u8]> = rows.iter().map(|row| &*row.payload).collect();
    assert_eq!(payloads, [b"1", b"2", b"3"]);
    let rest = subject.inbox.waiting(rows[2].number, 3).await.unwrap();
    assert_eq!(rest.iter().map(|row| &*row.payload).collect::<Vec<_>>(), [b"4", b"5"]);
    assert_eq!(waiting(&*subject.inbox).await.len(), 5);
}

/// But always one. Of values that are too long in other columns only enough is read to tell that.
pub async fn large_rows_make_short_pages(subject: SharedSubject) {
    let blanks = Some(" ".repeat(INBOX_BYTES_MAX / 2 - 1));
    for row in [
        InboxRow { payload: vec![7; INBOX_BYTES_MAX / 2].into(), ..plain("") },
        InboxRow { options: blanks.clone(), ..plain("1") },
        InboxRow { tags: blanks, ..plain("1") },
    ] {
        subject.application.insert(row).await;
    }
    let rows = subject.inbox.waiting(i64::MIN, 10).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].options.as_ref().unwrap().len(), INBOX_TEXT_MAX + 1);
    for number in waiting(&*subject.inbox).await {
        assert_eq!(admit(&*subject.inbox, number, Verdict::Remove).await, Admitted::Done);
    }
    assert_eq!(waiting(&*subject.inbox).await.len(), 1);
}

/// The row is gone, and the job is marked as not loaded, however soon it is due.
pub async fn a_recorded_row_is_a_job(subject: SharedSubject) {
    let (ledger, inbox) = (&*subject.ledger, &*subject.inbox);
    subject.application.insert(plain("1")).await;
    let number = waiting(inbox).await[0];
    let new = job_with(1, |job| job.tags = [text("t")].into());
    assert_eq!(admit(inbox, number, recorded(&new)).await, CREATED);
    assert_eq!(row(ledger, id(1)).await, Some(new));
    assert_eq!(found(ledger, all(crate::ports::Selector::Tag(text("t")))).await, [1]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 1);
    assert_eq!(pending(ledger, 1, 10).await, [0; 0], "not near");
    assert_eq!(pending(ledger, WATERMARK, 10).await, [1]);
    assert!(subject.application.rows().await.is_empty());
}

/// The second mover records nothing.
pub async fn a_row_is_moved_once(subject: SharedSubject) {
    let (ledger, inbox) = (&*subject.ledger, &*subject.inbox);
    subject.application.insert(plain("1")).await;
    let number = waiting(inbox).await[0];
    assert_eq!(admit(inbox, number, recorded(&job(1))).await, CREATED);
    for verdict in [recorded(&job(2)), Verdict::Remove, Verdict::Refuse("late".into())] {
        assert_eq!(admit(inbox, number, verdict).await, Admitted::Gone);
    }
    assert_eq!(row(ledger, id(2)).await, None);
}

/// Each row becomes one job, whichever mover gets it.
pub async fn many_movers_at_once(subject: SharedSubject) {
    for n in 1..=40 {
        subject.application.insert(plain(&format!("{n}"))).await;
    }
    let movers = (0..4_u64).map(|mover| {
        let inbox = subject.inbox.clone();
        tokio::spawn(async move {
            let mut moved = 0;
            loop {
                let numbers = waiting(&*inbox).await;
                if numbers.is_empty() {
                    return moved;
                }
                let verdict = |number: i64| (number, recorded(&job(number.unsigned_abs() * 10 + mover)));
                let answers = inbox.admit(numbers.into_iter().map(verdict).collect()).await.unwrap();
                moved += answers.iter().filter(|answer| answer.is_done()).count();
            }
        })
    });
    let mut moved = 0;
    for mover in movers.collect::<Vec<_>>() {
        moved += mover.await.unwrap();
    }
    assert_eq!(moved, 40);
    assert_eq!(subject.ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 40);
}

/// It stays, marked, and others are found behind it.
pub async fn a_refused_row_is_kept_and_passed_over(subject: SharedSubject) {
    let inbox = &*subject.inbox;
    for payload in ["bad", "good"] {
        subject.application.insert(plain(payload)).await;
    }
    let numbers = waiting(inbox).await;
    let refusal = Verdict::Refuse("invalid: expected ü, got 🔑".into());
    assert_eq!(admit(inbox, numbers[0], refusal).await, Admitted::Done);
    assert_eq!(waiting(inbox).await, numbers[1..]);
    assert_eq!(admit(inbox, numbers[0], recorded(&job(1))).await, Admitted::Gone);
    let rows = subject.application.rows().await;
    assert_eq!(rows[0], (b"bad".to_vec(), Some("invalid: expected ü, got 🔑".into())));
    assert_eq!(rows[1], (b"good".to_vec(), None));
}

/// The longest reason that the engine gives.
pub async fn a_long_reason_is_kept(subject: SharedSubject) {
    subject.application.insert(plain("bad")).await;
    let reason = "🔑".repeat(500);
    let number = waiting(&*subject.inbox).await[0];
    assert_eq!(admit(&*subject.inbox, number, Verdict::Refuse(reason.clone())).await, Admitted::Done);
    assert_eq!(subject.application.rows().await[0].1, Some(reason));
}

/// Nothing is recorded, and the row waits; also if the key was just taken in the same batch.
pub async fn a_held_key_names_its_holder(subject: SharedSubject) {
    let (ledger, inbox) = (&*subject.ledger, &*subject.inbox);
    record(ledger, &[keyed(1, "a")]).await;
    for payload in ["a", "b", "b again", "c"] {
        subject.application.insert(plain(payload)).await;
    }
    let numbers = waiting(inbox).await;
    let jobs = [keyed(2, "a"), keyed(3, "b"), keyed(4, "b"), job(5)];
    let verdicts = numbers.iter().copied().zip(jobs.iter().map(recorded)).collect();
    let answers = inbox.admit(verdicts).await.unwrap();
    let held = |n| Admitted::Recorded(Recorded::KeyHeld(id(n)));
    assert_eq!(answers, [held(1), CREATED, held(3), CREATED]);
    assert_eq!(waiting(inbox).await, [numbers[0], numbers[2]]);
    assert_eq!(row(ledger, id(2)).await, None);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 3);
}

/// An id that another job has, such as an imported one, costs no row: the row waits for another id.
pub async fn a_taken_id_keeps_the_row(subject: SharedSubject) {
    let (ledger, inbox) = (&*subject.ledger, &*subject.inbox);
    record(ledger, &[job(1), keyed(2, "k")]).await;
    for payload in ["plain", "keyed", "good"] {
        subject.application.insert(plain(payload)).await;
    }
    let numbers = waiting(inbox).await;
    let jobs = [job(1), keyed(2, "k"), job(3)];
    let answers = inbox.admit(numbers.iter().copied().zip(jobs.iter().map(recorded)).collect()).await.unwrap();
    let taken = Admitted::Recorded(Recorded::Repeat);
    assert_eq!(answers, [taken, taken, CREATED]);
    assert_eq!(waiting(inbox).await, numbers[..2]);
    assert_eq!(admit(inbox, numbers[0], recorded(&job(4))).await, CREATED);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 4);
}

/// Verdicts of all kinds in one transaction.
pub async fn verdicts_go_together(subject: SharedSubject) {
    let (ledger, inbox) = (&*subject.ledger, &*subject.inbox);
    for payload in ["job", "bad", "kept"] {
        subject.application.insert(plain(payload)).await;
    }
    let numbers = waiting(inbox).await;
    let verdicts = vec![
        (numbers[2], Verdict::Remove),
        (numbers[1], Verdict::Refuse("no".into())),
        (numbers[0], recorded(&job(1))),
        (numbers[2] + 1_000, recorded(&job(2))),
    ];
    let answers = inbox.admit(verdicts).await.unwrap();
    assert_eq!(answers, [Admitted::Done, Admitted::Done, CREATED, Admitted::Gone]);
    assert_eq!(subject.application.rows().await, [(b"bad".to_vec(), Some("no".into()))]);
    assert_eq!(found(ledger, all(crate::ports::Selector::All)).await, [1]);
    assert!(inbox.admit(Vec::new()).await.unwrap().is_empty());
}

/// A thousand, each with tags.
pub async fn rows_move_in_bulk(subject: SharedSubject) {
    let (ledger, inbox) = (&*subject.ledger, &*subject.inbox);
    for n in 1..=1_000 {
        subject.application.insert(plain(&format!("{n}"))).await;
    }
    let numbers = waiting(inbox).await;
    let verdict = |(n, number)| (number, recorded(&tagged(n, &["t", "u"])));
    let answers = inbox.admit((1..).zip(numbers).map(verdict).collect()).await.unwrap();
    assert_eq!(answers, vec![CREATED; 1_000]);
    assert!(waiting(inbox).await.is_empty());
    assert_eq!(found(ledger, all(crate::ports::Selector::Tag(text("u")))).await.len(), 1_000);
}
