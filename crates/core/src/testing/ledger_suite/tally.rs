//! Rows by queue and state, and the end.

use super::Subject;
use super::fixture::*;
use crate::json::{Span, Timestamp};
use crate::model::id::JobId;
use crate::model::job::{Job, Stage};
use crate::ports::{Change, Edited, Ledger, OutboxEntry, Queues, Recorded, Retention, Selector, Tally, Totals};
use crate::testing::Random;
use crate::testing::model_totals::ModelTotals;
use std::collections::BTreeMap;
use std::sync::Arc;

/// However many there are, some are counted at a time, in the order of their names. Remains of queues without rows do not
/// end a page.
pub async fn queues_are_tallied_in_steps(subject: Subject) {
    let ledger = &*subject.ledger;
    let of = |n: u64| job_with(n, move |job| job.queue = text(&format!("q{n}")));
    record(ledger, &(1..=9).map(of).collect::<Vec<_>>()).await;
    for gone in [3, 4, 6] {
        edit(ledger, change(&of(gone), Change::Delete)).await;
    }
    let totals = Totals { pushed: 1, ..Totals::default() };
    let tally = Tally { pending: 1, totals, ..Tally::default() };
    let (mut asked, mut seen) = (Some(Queues::From("q2".into(), 2)), Vec::new());
    while let Some(queues) = asked.take() {
        let tallies = ledger.tallies(queues.clone()).await.unwrap();
        assert!(tallies.len() <= 2 && tallies.iter().all(|(_, other)| *other == tally), "{tallies:?}");
        asked = queues.next(tallies.iter().map(|(queue, _)| queue));
        seen.extend(tallies.into_iter().map(|(queue, _)| queue));
    }
    assert_eq!(seen, ["q2", "q5", "q7", "q8", "q9"].map(text));
    let named = Queues::Named(["q7", "none", "q4", "q1"].map(text).to_vec());
    assert_eq!(ledger.tallies(named).await.unwrap(), [(text("q1"), tally), (text("q7"), tally)]);
}

/// Queues without rows are not named.
pub async fn rows_are_counted_by_queue(subject: Subject) {
    let ledger = &*subject.ledger;
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), []);
    let other = |n| job_with(n, |job| job.queue = text("other"));
    record(ledger, &[job(1), job(2), job(3), other(4)]).await;
    apply(ledger, &[ended(&job(1), Stage::Succeeded), ended(&job(2), Stage::Failed), leased(&job(3))]).await;
    edit(ledger, change(&other(4), Change::cancel(None))).await;
    let totals = Totals { pushed: 3, succeeded: 1, failed: 1, cancelled: 0 };
    let default = Tally { pending: 1, succeeded: 1, failed: 1, cancelled: 0, totals };
    let totals = Totals { pushed: 1, cancelled: 1, ..Totals::default() };
    let cancelled = Tally { cancelled: 1, totals, ..Tally::default() };
    assert_eq!(
        ledger.tallies(Queues::first()).await.unwrap(),
        [(text("default"), default), (text("other"), cancelled)]
    );
    edit(ledger, change(&other(4), Change::Delete)).await;
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), [(text("default"), default)]);
}

/// Nor does a refused record.
pub async fn a_refused_entry_counts_nothing(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[keyed(1, "k")]).await;
    ledger.record(vec![keyed(1, "k"), keyed(2, "k")], WATERMARK).await.unwrap();
    let done = ended(&keyed(1, "k"), Stage::Succeeded);
    apply(ledger, &[done.clone(), done, ended(&job(9), Stage::Failed)]).await;
    let totals = Totals { pushed: 1, succeeded: 1, ..Totals::default() };
    let tally = Tally { succeeded: 1, totals, ..Tally::default() };
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), [(text("default"), tally)]);
}

/// The totals of the queue `default`.
async fn totals(ledger: &dyn Ledger) -> [u64; 4] {
    let tallies = ledger.tallies(Queues::first()).await.unwrap();
    let tally = tallies.iter().find(|(queue, _)| **queue == *"default").map(|(_, tally)| tally.totals);
    let Totals { pushed, succeeded, failed, cancelled } = tally.unwrap_or_default();
    [pushed, succeeded, failed, cancelled]
}

/// They count each job once: repeats, leases and changes of values add nothing, and removals subtract nothing.
pub async fn totals_only_grow(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2), job(3), job(4), job(5)]).await;
    ledger.record(vec![job(1), job(2)], WATERMARK).await.unwrap();
    apply(ledger, &[leased(&job(1)), again(&job(2), NOW + 5)]).await;
    assert_eq!(totals(ledger).await, [5, 0, 0, 0]);
    let first = ended(&job(1), Stage::Succeeded);
    for _ in 0..2 {
        apply(ledger, std::slice::from_ref(&first)).await;
        edit(ledger, change(&job(2), Change::cancel(None))).await;
    }
    assert_eq!(totals(ledger).await, [5, 1, 0, 1]);

    // Once failed, and once succeeded.
    apply(ledger, &[ended(&job(3), Stage::Failed)]).await;
    let Edited::Changed(retried) = edit(ledger, change(&job(3), Change::RETRY)).await else { panic!("it had failed") };
    assert_eq!(totals(ledger).await, [5, 1, 1, 1]);
    apply(ledger, &[ended(&retried, Stage::Succeeded)]).await;
    assert_eq!(totals(ledger).await, [5, 2, 1, 1]);

    // Dropped instead of becoming a dead letter; deleted while it waited; pruned.
    let dropped = ended(&job(4), Stage::Failed);
    for _ in 0..2 {
        ledger.apply(vec![OutboxEntry::Removed(dropped.clone())], WATERMARK).await.unwrap();
    }
    ledger.apply(vec![OutboxEntry::Removed(job(5))], WATERMARK).await.unwrap();
    record(ledger, &[job(6)]).await;
    assert_eq!(totals(ledger).await, [6, 2, 2, 1]);
    let all = Retention { succeeded: Span(0), failed: Span(0) };
    assert!(ledger.prune(all, LATER + 1_000, 1_000).await.unwrap() > 0);
    assert_eq!(totals(ledger).await, [6, 2, 2, 1]);

    // Of an import, twice; and a copy that a rule has moved here.
    let imported = ended(&job(7), Stage::Failed);
    for _ in 0..2 {
        ledger.record(vec![imported.clone()], WATERMARK).await.unwrap();
    }
    assert_eq!(totals(ledger).await, [7, 2, 3, 1]);
    let elsewhere = job_with(8, |job| job.queue = text("elsewhere"));
    record(ledger, std::slice::from_ref(&elsewhere)).await;
    for _ in 0..2 {
        let moved = OutboxEntry::Changed(ended(&elsewhere, Stage::Failed)).followed_by(vec![job(9)]);
        ledger.apply(vec![moved], WATERMARK).await.unwrap();
    }
    assert_eq!(totals(ledger).await, [8, 2, 3, 1]);
}

/// A queue that has rows keeps them.
pub async fn a_removed_queue_begins_with_no_totals(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    apply(ledger, &[ended(&job(1), Stage::Succeeded)]).await;
    ledger.remove_queue(&text("default")).await.unwrap();
    assert_eq!(totals(ledger).await, [2, 1, 0, 0]);
    for n in [1, 2] {
        edit(ledger, change(&job(n), Change::Delete)).await;
    }
    for queue in ["default", "unknown"] {
        ledger.remove_queue(&text(queue)).await.unwrap();
    }
    record(ledger, &[job(3)]).await;
    assert_eq!(totals(ledger).await, [1, 0, 0, 0]);
}

/// However many count at once.
pub async fn totals_are_exact_under_load(subject: Subject) {
    let ledger = &subject.ledger;
    let work = |batch: u64| {
        let ledger = ledger.clone();
        async move {
            let jobs: Vec<Job> = (0..50).map(|n| job(batch * 50 + n + 1)).collect();
            record(&*ledger, &jobs).await;
            apply(&*ledger, &jobs.iter().map(|job| ended(job, Stage::Succeeded)).collect::<Vec<_>>()).await;
        }
    };
    let works: Vec<_> = (0..20).map(|batch| tokio::spawn(work(batch))).collect();
    for work in works {
        work.await.unwrap();
    }
    assert_eq!(totals(&**ledger).await, [1_000, 1_000, 0, 0]);
}

/// Every verb of a closed store fails, also a second close.
pub async fn a_closed_store_says_so(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    ledger.close().await.unwrap();
    ledger.close().await.unwrap();
    assert_eq!(ledger.record(vec![job(2)], WATERMARK).await.unwrap_err().code(), "stopping");
    assert_eq!(ledger.get(&[id(1)]).await.unwrap_err().code(), "stopping");
}

/// Steps of the random walk.
const STEPS: usize = 3_000;
/// Jobs that it is about.
const JOBS: u64 = 60;
/// Their queues.
const QUEUES: [&str; 3] = ["q0", "q1", "q2"];

/// After any operations the rows and counts are those of a plain map. Set `DUETIME_SEED` to replay.
pub async fn counts_match_a_model(subject: Subject) {
    let seed = std::env::var("DUETIME_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("random bytes");
        u64::from_le_bytes(bytes)
    });
    println!("DUETIME_SEED={seed}");
    let mut random = Random::new(seed);
    let mut model: BTreeMap<JobId, Job> = BTreeMap::new();
    let mut totals = ModelTotals::default();
    // A queue without rows would lose its totals.
    for (n, queue) in (JOBS + 1..).zip(QUEUES) {
        let anchor = job_with(n, |job| (job.queue, job.due_at.0) = (text(queue), NOW + 1_000_000));
        record(&*subject.ledger, std::slice::from_ref(&anchor)).await;
        totals.count_new(&anchor);
        model.insert(anchor.id, anchor);
    }
    for _ in 0..STEPS {
        let before = model.clone();
        if let Some(gone) = step(&subject, &mut model, &mut random).await {
            totals.count_end(&gone, before.get(&gone.id).map_or(gone.stage, |job| job.stage));
        }
        for job in model.values() {
            match before.get(&job.id) {
                Some(before) => totals.count_end(job, before.stage),
                None => totals.count_new(job),
            }
        }
    }
    assert_eq!(subject.ledger.tallies(Queues::first()).await.unwrap(), totals.tallies(model.values()));
    let rows = subject.ledger.get(&model.keys().copied().collect::<Vec<_>>()).await.unwrap();
    assert_eq!(rows.into_iter().map(Option::unwrap).collect::<Vec<_>>(), model.values().cloned().collect::<Vec<_>>());
    assert_eq!(found(&*subject.ledger, all(Selector::All)).await.len(), model.len());
    for tag in ["t0", "t1", "t2"] {
        let tagged = model.values().filter(|job| job.tags.contains(&text(tag)));
        let numbers: Vec<u64> = tagged.map(|job| number(job.id)).collect();
        assert_eq!(found(&*subject.ledger, all(Selector::Tag(text(tag)))).await, numbers);
    }
    let waiting = model.values().filter(|job| job.is_pending() && job.lease_until.is_none());
    let mut waiting: Vec<u64> = waiting.map(|job| number(job.id)).collect();
    waiting.sort_unstable();
    let mut pending = pending(&*subject.ledger, u64::MAX, 7).await;
    pending.sort_unstable();
    assert_eq!(pending, waiting);
}

/// Returns a removed job in the last state that its entry has.
async fn step(subject: &Subject, model: &mut BTreeMap<JobId, Job>, random: &mut Random) -> Option<Job> {
    let ledger = &*subject.ledger;
    let mut below = |end: u64| random.within(0..end);
    let n = below(JOBS) + 1;
    let now = NOW + below(100);
    let known = model.get(&id(n)).cloned();
    let holder = |model: &BTreeMap<JobId, Job>, queue: &Arc<str>, key: Option<&Arc<str>>| {
        let key = key?;
        model.values().find(|job| job.queue == *queue && job.live_key() == Some(key)).map(|job| job.id)
    };
    match (below(8), known) {
        (0..=2, known) => {
            let job = job_with(n, |job| {
                job.queue = text(QUEUES[below(3) as usize]);
                job.key = (below(2) == 0).then(|| text(&format!("k{}", below(8))));
                job.tags = (0..below(3)).map(|n| text(&format!("t{n}"))).collect();
                job.due_at = Timestamp(NOW + below(3) * crate::limits::HOUR_MS);
            });
            let held = holder(model, &job.queue, job.key.as_ref());
            let expected = match (known, held) {
                (Some(_), _) => Recorded::Repeat,
                (None, Some(holder)) => Recorded::KeyHeld(holder),
                (None, None) => Recorded::Created,
            };
            assert_eq!(ledger.record(vec![job.clone()], WATERMARK).await.unwrap(), [expected]);
            if expected == Recorded::Created {
                model.insert(job.id, job);
            }
        }
        (3..=5, Some(job)) if job.is_pending() => {
            // From one below the stored version to two above.
            let version = job.version + below(4) - 1;
            let stage = [Stage::Pending, Stage::Pending, Stage::Succeeded, Stage::Failed][below(4) as usize];
            let lease_until = (stage == Stage::Pending && below(2) == 0).then_some(now + 9);
            let mut new = Job { version, lease_until: lease_until.map(Timestamp), ..ended(&job, stage) };
            new.version = version;
            new.finished_at = new.finished_at.filter(|_| stage != Stage::Pending);
            let is_newer = version > job.version;
            let entry = match below(4) {
                0 => {
                    new.tags = [text("t2")].into();
                    OutboxEntry::Rewritten(new.clone())
                }
                1 if version >= job.version => {
                    ledger.apply(vec![OutboxEntry::Removed(new.clone())], WATERMARK).await.unwrap();
                    model.remove(&job.id);
                    return Some(new);
                }
                _ => OutboxEntry::Changed(new.clone()),
            };
            ledger.apply(vec![entry], WATERMARK).await.unwrap();
            if is_newer {
                model.insert(job.id, new);
            }
        }
        (6, Some(job)) => {
            let change = match below(3) {
                0 => Change::cancel(None),
                1 => Change::RETRY,
                _ => Change::Delete,
            };
            let fits = match change {
                Change::Delete => true,
                Change::Retry { .. } => !job.is_pending(),
                _ => job.is_pending(),
            };
            let held = holder(model, &job.queue, job.key.as_ref()).filter(|&holder| holder != job.id);
            let edited = ledger.edit(vec![self::change(&job, change.clone())], now, WATERMARK).await.unwrap().remove(0);
            match edited {
                Edited::Changed(_) if matches!(change, Change::Delete) => {
                    model.remove(&job.id);
                }
                Edited::Changed(new) => {
                    assert!(fits && new.version > job.version);
                    model.insert(job.id, new);
                }
                Edited::KeyHeld(holder, ..) => assert_eq!(Some(holder), held),
                Edited::Unfit { state, .. } => assert!(!fits && (state.is_live() || state == job.state(now))),
                other => panic!("{other:?}"),
            }
        }
        (7, _) => {
            let retention = Retention { succeeded: Span(20), failed: Span(40) };
            let is_past = |job: &&Job| {
                let kept_ms = if job.stage == Stage::Failed { retention.failed.0 } else { retention.succeeded.0 };
                job.finished_at.is_some_and(|finished_at| finished_at.0 + kept_ms <= now)
            };
            let past: Vec<JobId> = model.values().filter(is_past).map(|job| job.id).collect();
            assert_eq!(ledger.prune(retention, now, 1_000).await.unwrap(), past.len());
            model.retain(|id, _| !past.contains(id));
        }
        _ => {}
    }
    None
}
