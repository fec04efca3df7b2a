//! Reads without changes.

use super::Subject;
use crate::clock::Millis;
use crate::json::{Span, Timestamp};
use crate::limits::BATCH_JOBS_MAX;
use crate::model::follow_up::{FollowUp, Previous};
use crate::model::id::JobId;
use crate::model::job::{Job, NewJob, State};
use crate::model::marks::Marks;
use crate::model::meta::Meta;
use crate::ports::{Counts, Detail, Limits, Listing, Queues, Tally, Window};
use crate::testing::fixtures::{QUEUE, T0, again, cancel, due, id, job, listing, reserve, success};
use std::sync::Arc;

async fn listed(s: &Subject, listing: Listing) -> Vec<JobId> {
    s.broker.list(listing).await.unwrap().into_iter().map(|job| job.id).collect()
}

/// The tallies of a broker that is its own ledger are tested with ledgers.
fn live(counted: Vec<(Arc<str>, Counts, Option<Tally>)>) -> Vec<(Arc<str>, Counts)> {
    counted.into_iter().map(|(queue, counts, _)| (queue, counts)).collect()
}

async fn counted(s: &Subject, queue: &str) -> Counts {
    let counts = s.broker.counts(Queues::Named(vec![queue.into()])).await.unwrap();
    assert_eq!((counts.len(), &*counts[0].0), (1, queue));
    counts[0].1
}

/// Waiting and running, with all its fields.
pub async fn a_live_job_is_seen_as_it_is(s: Subject) {
    use crate::model::job::{AttemptError, KeyUntil};
    use crate::model::options::JobOptions;
    use crate::model::progress::Progress;
    use crate::model::retry::Retry;
    use crate::model::target::Target;
    let rich = Job {
        kind: "mail".into(),
        first_due_at: Timestamp(T0 - 77),
        priority: 3,
        attempt: 4,
        crashes: 2,
        lease: Some(Span(30_000)),
        expires: Some(Span(1_000)),
        key: Some("k".into()),
        key_until: KeyUntil::Started,
        tags: ["a".into(), "b".into()].into(),
        options: JobOptions {
            retry: Retry { max_attempts: Some(9), ..Retry::default() },
            target: Some(Target::Queue("mail".into()).into()),
            trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
            meta: Some(Meta::from_iter([("tenant", "7"), ("user", "ä b")]).into()),
            then: Some([FollowUp::from(&NewJob::new(*b"{}")), FollowUp::from(&NewJob::new(*b"\xff"))].into()),
            otherwise: Some([FollowUp::from(&NewJob::new(*b"1"))].into()),
            previous: Some(Previous::new(&job(2), State::Succeeded, Some(&b"[ 1 ]"[..].into()), None).into()),
            moves: 3,
            releases: 4,
            marks: Marks::from_iter([("parks", 2), ("hold_s", 50_000)]).shared(),
            imported: true,
            sent: Some(NewJob::new(*b"sent").sent()),
        }
        .shared(),
        origin: Some("of its push".into()),
        progress: Some(Progress { percent: 40, note: Some("half".into()), at: Timestamp(T0 - 6) }.into()),
        message: Some("last".into()),
        errors: vec![AttemptError { attempt: 3, at: Timestamp(T0 - 5), message: "last".into(), crashed: true }],
        version: T0 + 9,
        epoch: T0 - 50,
        created_at: Timestamp(T0 - 99),
        updated_at: Timestamp(T0 - 5),
        started_at: Some(Timestamp(T0 - 50)),
        ..due(1, T0 + 10)
    };
    let empty = Job { payload: (*b"").into(), ..due(2, T0 + 20) };
    s.hold(&[rich.clone(), empty.clone()]).await;
    assert_eq!(
        s.broker.get(&[id(1), id(3), id(2)], Detail::Whole).await.unwrap(),
        [Some(rich.clone()), None, Some(empty)]
    );
    let head = s.broker.get(&[id(1)], Detail::Head).await.unwrap().remove(0).unwrap();
    assert!(head.payload.is_empty() || head.payload == rich.payload);
    assert_eq!(Job { payload: rich.payload.clone(), ..head }, rich, "only the payload may be missing");
    s.pass(10);
    let running = s.one().await;
    let expected = Job {
        attempt: 5,
        version: running.version,
        epoch: running.epoch,
        lease_until: Some(Timestamp(T0 + 30_010)),
        started_at: Some(Timestamp(T0 + 10)),
        updated_at: Timestamp(T0 + 10),
        // A new attempt has no progress.
        progress: None,
        ..rich.clone()
    };
    assert!(running.version > rich.version && running.epoch > rich.epoch);
    assert_eq!(running, expected);
    assert_eq!(s.get(id(1)).await, Some(expected));
}

/// From then on the ledger knows.
pub async fn an_ended_job_is_seen_until_it_is_noted(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    s.settle(s.one().await.receipt(), success()).await;
    s.edit(id(2), cancel()).await;
    assert_eq!(s.get(id(2)).await.map(|job| job.state(T0)), Some(State::Cancelled));
    let ended = s.get(id(1)).await.unwrap();
    assert_eq!(ended.state(T0), State::Succeeded);
    s.forget(id(1), ended.version).await;
    assert_eq!(s.get(id(1)).await, None);
}

/// In any state and priority, and only of one queue.
pub async fn a_listing_goes_by_due_time(s: Subject) {
    let jobs = [
        due(5, T0 - 20),
        Job { priority: 0, ..due(4, T0 - 10) },
        due(3, T0 + 10),
        due(2, T0 + 10),
        due(1, T0 + 90_000_000),
        Job { queue: "other".into(), ..job(6) },
    ];
    s.hold(&jobs).await;
    s.pass(10);
    assert_eq!(s.one().await.id, id(4), "one runs");
    assert_eq!(listed(&s, listing(QUEUE)).await, [5, 4, 2, 3, 1].map(id));
    assert_eq!(listed(&s, listing("none")).await, []);
}

/// Pages of any size make the whole, also of more jobs than one step may touch.
pub async fn a_listing_is_paged(s: Subject) {
    let many = 25_000;
    let at = |n: u64| T0 - 1_000 + n * 31 % 2_000;
    let jobs = (1..=many).map(|n| Job { priority: (n % 4) as u32, ..due(n, at(n)) });
    for batch in jobs.collect::<Vec<_>>().chunks(BATCH_JOBS_MAX) {
        s.hold(batch).await;
    }
    assert_eq!(s.handed_out(1_000).await.len(), 1_000);
    let mut places: Vec<(Millis, JobId)> = (1..=many).map(|n| (at(n), id(n))).collect();
    places.sort();
    let mut after = None;
    for expected in places.chunks(1_000) {
        let page = s.broker.list(Listing { after, ..listing(QUEUE) }).await.unwrap();
        let page: Vec<_> = page.iter().map(|job| (job.due_at.0, job.id)).collect();
        assert!(page == expected, "the page after {after:?} is {} jobs, or others", page.len());
        after = page.last().copied();
    }
    assert_eq!(listed(&s, Listing { after, ..listing(QUEUE) }).await, []);
    assert_eq!(listed(&s, Listing { limit: 3, ..listing(QUEUE) }).await.len(), 3);
}

/// Only those; a window is inclusive.
pub async fn a_listing_has_states_and_a_window(s: Subject) {
    s.hold(&[due(1, T0 - 3), due(2, T0 - 2), due(3, T0), due(4, T0 + 1), due(5, T0 + 2)]).await;
    assert_eq!(s.handed_out(1).await, [id(1)]);
    let of = |states: &[State]| Listing { states: states.to_vec(), ..listing(QUEUE) };
    assert_eq!(listed(&s, of(&[State::Running])).await, [id(1)]);
    assert_eq!(listed(&s, of(&[State::Ready])).await, [2, 3].map(id));
    assert_eq!(listed(&s, of(&[State::Scheduled])).await, [4, 5].map(id));
    assert_eq!(listed(&s, of(&[State::Scheduled, State::Running])).await, [1, 4, 5].map(id));
    assert_eq!(listed(&s, of(&[])).await, []);
    let window = Window { from: T0 - 2, to: T0 + 1 };
    assert_eq!(listed(&s, Listing { window, ..listing(QUEUE) }).await, [2, 3, 4].map(id));
    let after = Some((T0 - 2, id(2)));
    assert_eq!(listed(&s, Listing { window, after, ..listing(QUEUE) }).await, [3, 4].map(id));
    assert_eq!(listed(&s, Listing { detail: Detail::Head, ..listing(QUEUE) }).await, [1, 2, 3, 4, 5].map(id));
}

/// It is live all the time, whenever a listing that goes in steps looks where.
pub async fn a_job_that_is_given_back_meanwhile_is_listed(s: Subject) {
    s.hold(&[job(1), job(2), job(3)]).await;
    for steps in 0..8 {
        let lease = s.leases(reserve(QUEUE, 1)).await.remove(0);
        let listing = Listing { states: vec![State::Ready, State::Running], ..listing(QUEUE) };
        let give_back = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            s.settle(lease.job.receipt(), again(&lease.job, T0)).await
        };
        let (listed, state) = tokio::join!(listed(&s, listing), give_back);
        assert_eq!((listed, state), ([1, 2, 3].map(id).to_vec(), Some(State::Ready)), "after {steps} steps");
    }
}

/// By their current state.
pub async fn jobs_are_counted(s: Subject) {
    assert_eq!(counted(&s, "none").await, Counts::default());
    let urgent = Job { priority: 1, ..due(2, T0 + 5) };
    s.hold(&[due(1, T0 - 5), urgent, due(3, T0 - 9), due(4, T0 + 50), Job { queue: "other".into(), ..job(5) }]).await;
    let counts = Counts { scheduled: 2, ready: 2, running: 0, oldest_due: Some(Timestamp(T0)), paused: false };
    assert_eq!(counted(&s, QUEUE).await, counts);
    s.pass(5);
    assert_eq!(s.handed_out(2).await, [2, 3].map(id));
    let counts = Counts { scheduled: 1, ready: 1, running: 2, oldest_due: Some(Timestamp(T0)), paused: false };
    assert_eq!(counted(&s, QUEUE).await, counts);
    let mut all = live(s.broker.counts(Queues::first()).await.unwrap());
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let other = Counts { ready: 1, oldest_due: Some(Timestamp(T0)), ..Counts::default() };
    assert_eq!(all, [(QUEUE.into(), counts), ("other".into(), other)]);
    s.edit(id(1), cancel()).await;
    assert_eq!((counted(&s, QUEUE).await.ready, counted(&s, QUEUE).await.oldest_due), (0, None));
}

/// Otherwise a job that was due years ago would seem to have waited for years.
pub async fn a_job_waits_since_it_was_made_if_it_was_due_before(s: Subject) {
    s.hold(&[due(1, T0 - 900_000_000), due(2, T0 - 800_000_000)]).await;
    assert_eq!(counted(&s, QUEUE).await.oldest_due, Some(Timestamp(T0)), "all were made now");
    let older = Job { created_at: Timestamp(T0 - 60_000), ..due(3, T0 - 30_000) };
    s.hold(&[older, Job { priority: 1, ..due(4, T0 - 500_000) }]).await;
    assert_eq!(counted(&s, QUEUE).await.oldest_due, Some(Timestamp(T0 - 30_000)), "the others are only due earlier");
}

/// However many there are, some are counted at a time, in the order of their names.
pub async fn queues_are_counted_in_steps(s: Subject) {
    let queues: Vec<Arc<str>> = (1..=7).map(|n| Arc::from(format!("q{n}"))).collect();
    s.hold(&(1..=7).map(|n| Job { queue: queues[n as usize - 1].clone(), ..job(n) }).collect::<Vec<_>>()).await;
    let counts = Counts { ready: 1, oldest_due: Some(Timestamp(T0)), ..Counts::default() };
    let (mut asked, mut seen) = (Some(Queues::From("q2".into(), 3)), Vec::new());
    while let Some(queues) = asked.take() {
        let counted = live(s.broker.counts(queues.clone()).await.unwrap());
        assert!(counted.len() <= 3 && counted.iter().all(|(_, other)| *other == counts), "{counted:?}");
        asked = queues.next(counted.iter().map(|(queue, _)| queue));
        seen.extend(counted.into_iter().map(|(queue, _)| queue));
    }
    assert_eq!(seen, queues[1..]);
    let named = Queues::Named(vec!["q5".into(), "none".into()]);
    let none = ("none".into(), Counts::default());
    let mut counted = live(s.broker.counts(named).await.unwrap());
    counted.sort_by(|a, b| b.0.cmp(&a.0));
    assert_eq!(counted, [("q5".into(), counts), none]);
}

/// Also of an empty queue.
pub async fn pausing_is_counted(s: Subject) {
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    assert!(counted(&s, QUEUE).await.paused);
    s.limit(Limits { paused: false, ..Limits::default() }).await;
    assert!(!counted(&s, QUEUE).await.paused);
}
