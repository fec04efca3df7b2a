//! Rows by a selector.

use super::Subject;
use super::fixture::*;
use crate::json::Timestamp;
use crate::limits::MINUTE_MS;
use crate::model::id::JobId;
use crate::model::job::{Job, Stage, State};
use crate::ports::{Change, Edit, Edited, Find, Ledger, OVERFLOW, OutboxEntry, Place, Selector, Window};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

const STAGES: [Stage; 4] = [Stage::Pending, Stage::Succeeded, Stage::Failed, Stage::Cancelled];

/// Jobs 1 to 24 in two queues, their states in turn.
async fn mixed(ledger: &dyn Ledger) {
    let jobs: Vec<Job> = (1..=24)
        .map(|n| {
            job_with(n, |job| {
                job.queue = text(if n % 3 == 0 { "other" } else { "default" });
                job.kind = text(if n % 2 == 0 { "even" } else { "odd" });
                job.due_at = Timestamp(NOW + n);
            })
        })
        .collect();
    record(ledger, &jobs).await;
    let ends = jobs.iter().zip(STAGES.iter().cycle()).filter(|&(_, &stage)| stage != Stage::Pending);
    apply(ledger, &ends.map(|(job, &stage)| ended(job, stage)).collect::<Vec<_>>()).await;
}

fn queue(name: &str) -> Find {
    Find { queue: Some(text(name)), ..all(Selector::State) }
}

/// Whatever is asked first, or is not there.
pub async fn versions_are_those_of_the_rows(subject: Subject) {
    mixed(&*subject.ledger).await;
    let ids: Vec<JobId> = [7, 900, 6, 5, 6].map(id).to_vec();
    let rows = subject.ledger.get(&ids).await.unwrap().into_iter();
    let rows: Vec<_> = rows.map(|row| row.map(|row| (row.version, row.stage))).collect();
    assert_eq!(subject.ledger.versions(&ids).await.unwrap(), rows);
    let stages = rows.iter().map(|row| row.map(|(_, stage)| stage));
    let expected = [Some(Stage::Failed), None, Some(Stage::Succeeded), Some(Stage::Pending), Some(Stage::Succeeded)];
    assert_eq!(stages.collect::<Vec<_>>(), expected);
    assert_eq!(subject.ledger.versions(&[]).await.unwrap(), []);
}

/// Of all states, live jobs by their ids, then those that have ended.
pub async fn by_queue_live_jobs_first(subject: Subject) {
    mixed(&*subject.ledger).await;
    assert_eq!(found(&*subject.ledger, queue("other")).await, [9, 21, 24, 18, 15, 12, 6, 3]);
    assert_eq!(found(&*subject.ledger, queue("none")).await, [0; 0]);
}

/// Scheduled, ready and running count as one state.
pub async fn by_states_merged_in_order(subject: Subject) {
    mixed(&*subject.ledger).await;
    let of = |states: &[State]| Find { states: states.to_vec(), ..queue("default") };
    let ledger = &*subject.ledger;
    assert_eq!(found(ledger, of(&[State::Failed])).await, [23, 19, 11, 7]);
    assert_eq!(found(ledger, of(&[State::Succeeded, State::Failed])).await, [23, 22, 19, 14, 11, 10, 7, 2]);
    assert_eq!(found(ledger, of(&[State::Ready, State::Failed])).await, [1, 5, 13, 17, 23, 19, 11, 7]);
    for live in [State::Scheduled, State::Ready, State::Running] {
        assert_eq!(found(ledger, of(&[live])).await, [1, 5, 13, 17]);
    }
    assert_eq!(found(ledger, of(&[State::Ready, State::Running])).await, [1, 5, 13, 17]);
}

/// However many had it.
pub async fn by_key_live_and_finished(subject: Subject) {
    let ledger = &*subject.ledger;
    record_ended(ledger, &[keyed(1, "k")], Stage::Succeeded).await;
    record_ended(ledger, &[keyed(2, "k")], Stage::Failed).await;
    let elsewhere = Job { queue: text("other"), ..keyed(5, "k") };
    record(ledger, &[keyed(3, "k"), keyed(4, "l"), elsewhere]).await;
    let key = |key: &str| all(Selector::Key(text("default"), text(key)));
    assert_eq!(found(ledger, key("k")).await, [1, 2, 3]);
    assert_eq!(found(ledger, Find { states: vec![State::Ready], ..key("k") }).await, [3]);
    assert_eq!(found(ledger, key("m")).await, [0; 0]);
    // The holder need not be the last one.
    apply(ledger, &[ended(&keyed(3, "k"), Stage::Succeeded)]).await;
    assert!(matches!(edit(ledger, Edit { id: id(2), version: None, change: Change::RETRY }).await, Edited::Changed(_)));
    for limit in [1, 2, 1_000] {
        assert_eq!(found(ledger, Find { limit, ..key("k") }).await, [1, 2, 3], "pages of {limit}");
    }
}

/// A row moves between the holder of a key and those that had it, and between states.
pub async fn a_row_that_moves_is_not_missed(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[keyed(1, "k")]).await;
    let is_over = AtomicBool::new(false);
    let moves = async {
        while !is_over.load(Ordering::Relaxed) {
            for change in [Change::cancel(None), Change::RETRY] {
                let edited = edit(ledger, Edit { id: id(1), version: None, change }).await;
                assert!(matches!(edited, Edited::Changed(_)), "{edited:?}");
            }
            // A ledger in memory never waits.
            tokio::task::yield_now().await;
        }
    };
    let searches = async {
        for _ in 0..400 {
            assert_eq!(found(ledger, all(Selector::Key(text("default"), text("k")))).await, [1]);
            assert_eq!(found(ledger, queue("default")).await, [1]);
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(moves, searches);
}

/// Over queues and states.
pub async fn by_tag(subject: Subject) {
    let ledger = &*subject.ledger;
    let elsewhere = Job { queue: text("other"), ..tagged(3, &["t"]) };
    record(ledger, &[tagged(1, &["s", "t"]), job(2), elsewhere]).await;
    record_ended(ledger, &[tagged(4, &["t"])], Stage::Failed).await;
    let tag = |tag: &str| all(Selector::Tag(text(tag)));
    assert_eq!(found(ledger, tag("t")).await, [1, 3, 4]);
    assert_eq!(found(ledger, tag("s")).await, [1]);
    assert_eq!(found(ledger, Find { queue: Some(text("other")), ..tag("t") }).await, [3]);
    assert_eq!(found(ledger, Find { states: vec![State::Failed], ..tag("t") }).await, [4]);
}

/// In the order of ids.
pub async fn everything(subject: Subject) {
    mixed(&*subject.ledger).await;
    assert_eq!(found(&*subject.ledger, all(Selector::All)).await, (1..=24).collect::<Vec<_>>());
}

/// Over many queues, also more than are merged at once.
pub async fn everything_in_a_state(subject: Subject) {
    let ledger = &*subject.ledger;
    mixed(ledger).await;
    let failed = || Find { states: vec![State::Failed], ..all(Selector::State) };
    let live_or_failed = || Find { states: vec![State::Failed, State::Running], ..all(Selector::State) };
    assert_eq!(found(ledger, failed()).await, [23, 19, 15, 11, 7, 3]);
    assert_eq!(found(ledger, live_or_failed()).await, [1, 5, 9, 13, 17, 21, 23, 19, 15, 11, 7, 3]);
    let jobs: Vec<Job> = (100..300).map(|n| job_with(n, |job| job.queue = text(&format!("q{n}")))).collect();
    record(ledger, &jobs).await;
    let (fail, parked) = jobs.split_at(100);
    apply(ledger, &fail[..50].iter().map(|job| ended(job, Stage::Failed)).collect::<Vec<_>>()).await;
    let park = |job: &Job| Job { finished_at: None, ..ended(job, Stage::Failed) };
    apply(ledger, &parked[..10].iter().map(park).collect::<Vec<_>>()).await;
    let ended: Vec<u64> = (100..150).rev().chain([23, 19, 15, 11, 7, 3]).collect();
    let expected: Vec<u64> = (200..210).chain(ended.iter().copied()).collect();
    let all: Vec<u64> = [1, 5, 9, 13, 17, 21].into_iter().chain(150..300).chain(ended).collect();
    for limit in [7, 1_000] {
        assert_eq!(found(ledger, Find { limit, ..failed() }).await, expected, "{limit} at a time");
        assert_eq!(found(ledger, Find { limit, ..live_or_failed() }).await, all, "{limit} at a time");
    }
}

/// Kind, due time and queue, over each selector.
pub async fn filters_narrow(subject: Subject) {
    let ledger = &*subject.ledger;
    mixed(ledger).await;
    let by_id = Find { queue: Some(text("other")), ..all(Selector::All) };
    for (find, [even, due]) in
        [(queue("other"), [vec![24, 18, 12, 6], vec![9, 15, 12]]), (by_id, [vec![6, 12, 18, 24], vec![9, 12, 15]])]
    {
        assert_eq!(found(ledger, Find { kind: Some(text("even")), ..find.clone() }).await, even);
        let window = Window { from: NOW + 9, to: NOW + 15 };
        assert_eq!(found(ledger, Find { due: window, ..find.clone() }).await, due);
        assert_eq!(found(ledger, Find { kind: Some(text("Even")), ..find }).await, [0; 0]);
    }
}

/// Of all queues, few buckets or many, wherever the rows are.
pub async fn by_due_time_over_all_queues(subject: Subject) {
    let ledger = &*subject.ledger;
    let due = |n: u64| NOW + n * MINUTE_MS;
    let at = |n: u64| job_with(n, |job| (job.queue, job.due_at.0) = (text(&format!("q{}", n % 100)), due(n)));
    let jobs: Vec<Job> = (1..=360).map(at).collect();
    record(ledger, &jobs[..350]).await;
    ledger.record(jobs[350..].to_vec(), OVERFLOW).await.unwrap();
    // Every seventh has ended, and every fifth runs, early.
    let sevenths = jobs[..350].iter().filter(|job| number(job.id).is_multiple_of(7));
    apply(ledger, &sevenths.map(|job| ended(job, Stage::Cancelled)).collect::<Vec<_>>()).await;
    let fifths = jobs[..350].iter().filter(|job| !number(job.id).is_multiple_of(7) && number(job.id).is_multiple_of(5));
    apply(ledger, &fifths.map(leased).collect::<Vec<_>>()).await;
    for (from, to) in [(1, 1), (4, 9), (10, 100), (100, 101), (340, 355), (345, 400), (1, 360), (200, 100), (500, 600)]
    {
        let find =
            Find { states: vec![State::Ready], due: Window { from: due(from), to: due(to) }, ..all(Selector::State) };
        let expected: Vec<u64> = (from..=to.min(360)).filter(|n| !n.is_multiple_of(7) || *n > 350).collect();
        for limit in [3, 1_000] {
            assert_eq!(found(ledger, Find { limit, ..find.clone() }).await, expected, "{from} to {to}");
        }
    }
}

/// Jobs 1 to 40 in three queues, their final states in turn, which ended in another order than that of their ids, seven at an
/// instant. The last two are parked. Returns them in the order of their places.
async fn ends(ledger: &dyn Ledger) -> Vec<Job> {
    let at = |n: u64| NOW + 10 + n * 11 % 37 / 7;
    let jobs: Vec<Job> = (1..=40).map(|n| job_with(n, |job| job.queue = text(&format!("q{}", n % 3)))).collect();
    record(ledger, &jobs).await;
    let end = |(job, &stage): (&Job, &Stage)| match number(job.id) {
        39 | 40 => Job { finished_at: None, ..ended(job, Stage::Failed) },
        n => Job { finished_at: Some(Timestamp(at(n))), ..ended(job, stage) },
    };
    let mut jobs: Vec<Job> = jobs.iter().zip(STAGES[1..].iter().cycle()).map(end).collect();
    apply(ledger, &jobs).await;
    record(ledger, &(101..120).map(job).collect::<Vec<_>>()).await;
    jobs.sort_by_key(|job| Place::by_state(job.id, job.finished_at.map(|at| at.0)));
    jobs
}

fn by_end(states: &[State]) -> Find {
    Find { states: states.to_vec(), ..all(Selector::State) }
}

/// Of all queues or one, of one state or several, in pages of any size; parked ones first.
pub async fn by_end_the_latest_first(subject: Subject) {
    let ledger = &*subject.ledger;
    let jobs = ends(ledger).await;
    for states in [&[State::Failed][..], &[State::Succeeded], &[State::Succeeded, State::Failed, State::Cancelled]] {
        for queue in [None, Some(text("q1")), Some(text("none"))] {
            let is_asked = |job: &&Job| {
                let in_states = job.stage.end_state().is_some_and(|state| states.contains(&state));
                in_states && queue.as_ref().is_none_or(|queue| *queue == job.queue)
            };
            let expected: Vec<u64> = jobs.iter().filter(is_asked).map(|job| number(job.id)).collect();
            for limit in [1, 2, 7, 1_000] {
                let find = Find { limit, queue: queue.clone(), ..by_end(states) };
                assert_eq!(found(ledger, find).await, expected, "{states:?} of {queue:?}, {limit} at a time");
            }
        }
    }
    let failed = found(ledger, by_end(&[State::Failed])).await;
    assert_eq!(failed[..2], [39, 40], "those without an end");
    assert_eq!(found(ledger, Find { kind: Some(text("none")), ..by_end(&[State::Failed]) }).await, [0; 0]);
    for wrong in ["x", "5.x", "5.5.5", "-1.5", "5.99999999999999999999"] {
        let find = Find { after: Some(wrong.to_owned()), ..by_end(&[State::Failed]) };
        assert!(ledger.find(find).await.is_err(), "{wrong}");
    }
}

/// Whatever stays is in exactly one page.
pub async fn by_end_while_jobs_come_and_go(subject: Subject) {
    let ledger = &*subject.ledger;
    let failed: Vec<u64> =
        ends(ledger).await.iter().filter(|job| job.stage == Stage::Failed).map(|job| number(job.id)).collect();
    let (mut shown, mut after, mut next) = (Vec::new(), None, 1_000);
    loop {
        let page = ledger.find(Find { limit: 3, after, ..by_end(&[State::Failed]) }).await.unwrap();
        shown.extend(page.jobs.iter().map(|job| number(job.id)));
        // The last one on the page, after which the next one begins, leaves; so does one that is to come; one ends.
        let gone = page.jobs.last().map_or(0, |job| number(job.id));
        let to_come = failed.iter().position(|&n| n == gone).and_then(|place| failed.get(place + 2)).copied();
        for n in [Some(gone), to_come].into_iter().flatten() {
            edit(ledger, Edit { id: id(n), version: None, change: Change::Delete }).await;
        }
        record(ledger, &[job(next)]).await;
        apply(ledger, &[Job { finished_at: Some(Timestamp(LATER)), ..ended(&job(next), Stage::Failed) }]).await;
        next += 1;
        match page.next {
            Some(cursor) => after = Some(cursor),
            None => break,
        }
    }
    let left: Vec<u64> = found(ledger, by_end(&[State::Failed])).await.into_iter().filter(|&n| n < 1_000).collect();
    assert!(shown.iter().collect::<BTreeSet<_>>().len() == shown.len(), "each once: {shown:?}");
    assert!(left.len() > 3 && left.iter().all(|n| shown.contains(n)), "{left:?} of {shown:?}");
    assert!(shown.iter().all(|&n| n < 1_000), "what ended meanwhile belongs before the first page: {shown:?}");
}

/// Without gaps or repeats, each from the end of the last one.
pub async fn pages_continue(subject: Subject) {
    let ledger = &*subject.ledger;
    mixed(ledger).await;
    for limit in [1, 2, 3, 100] {
        assert_eq!(found(ledger, Find { limit, ..all(Selector::All) }).await, (1..=24).collect::<Vec<_>>());
        assert_eq!(found(ledger, Find { limit, ..queue("other") }).await.len(), 8);
        let states = vec![State::Failed, State::Cancelled];
        assert_eq!(found(ledger, Find { limit, states, ..queue("default") }).await, [23, 20, 19, 16, 11, 8, 7, 4]);
    }
    let page = ledger.find(Find { limit: 2, after: Some(id(10).to_string()), ..queue("other") }).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| number(job.id)).collect::<Vec<_>>(), [21, 24]);
    let place = Place::by_state(id(24), page.jobs[1].finished_at.map(|at| at.0));
    assert_eq!(page.next, Some(place.to_string()));
    let by_id = Find { after: page.next, ..all(Selector::All) };
    assert_eq!(ledger.find(by_id).await.unwrap_err().code(), "invalid", "a cursor of another order");
    assert_eq!(ledger.find(Find { limit: 9, ..queue("other") }).await.unwrap().next, None, "it was the last");
    // What ends comes after live jobs, and nothing after them if only those are asked for.
    let live = Find { after: Some(place.to_string()), states: vec![State::Ready], ..queue("other") };
    let ids = ledger.find(live).await.map(|page| page.jobs.iter().map(|job| number(job.id)).collect::<Vec<_>>());
    assert_eq!(ids.unwrap_or_default(), [0; 0]);
}

/// A page reads a bounded number of rows; the pages together read all.
pub async fn rare_rows_are_found_among_many(subject: Subject) {
    let ledger = &*subject.ledger;
    for batch in 0..3 {
        record(ledger, &(batch * 10_000 + 1..=(batch + 1) * 10_000).map(job).collect::<Vec<_>>()).await;
    }
    record(ledger, &[job_with(30_001, |job| job.kind = text("rare"))]).await;
    let rare = Find { kind: Some(text("rare")), ..queue("default") };
    assert_eq!(found(ledger, rare).await, [30_001]);
}

/// Case, trailing spaces and accents make a difference.
pub async fn names_compare_byte_by_byte(subject: Subject) {
    let ledger = &*subject.ledger;
    let names = ["Order-1", "order-1", "order-1 ", "order-1\0", "órder-1"];
    let jobs: Vec<Job> =
        (1..).zip(names).map(|(n, name)| Job { tags: [text(name)].into(), ..keyed(n, name) }).collect();
    record(ledger, &jobs).await;
    for (n, name) in (1..).zip(names) {
        assert_eq!(found(ledger, all(Selector::Key(text("default"), text(name)))).await, [n], "{name:?}");
        assert_eq!(found(ledger, all(Selector::Tag(text(name)))).await, [n], "{name:?}");
    }
    ledger.apply(vec![OutboxEntry::Removed(jobs[0].clone())], WATERMARK).await.unwrap();
    assert_eq!(found(ledger, all(Selector::Tag(text("order-1")))).await, [2]);
}

/// One answer for each id in the request, also for duplicates.
pub async fn get_answers_in_order(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    let rows = ledger.get(&[id(2), id(3), id(1), id(2)]).await.unwrap();
    assert_eq!(rows, [Some(job(2)), None, Some(job(1)), Some(job(2))]);
}
