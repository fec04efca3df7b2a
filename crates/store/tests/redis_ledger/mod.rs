//! Redis as its own ledger.

mod hops;
mod keys;
mod many_queues;
mod reports;
mod totals;

use duetime_core::engine::Export;
use duetime_core::json::{Span, Timestamp};
use duetime_core::limits::DAY_MS;
use duetime_core::model::id as ids;
use duetime_core::model::job::{Job, NewJob, Stage, State};
use duetime_core::model::retry::{Retry, WhenExhausted};
use duetime_core::ports::{
    Broker, BrokerClock, Change, Edit, Edited, Find, Ledger, Outbox, OutboxEntry, PutIf, Queues, Recorded, Registry,
    Retention, Selector, Settle, Source, Take, Update, Window,
};
use duetime_core::rules::{self, Decision, Failure, Finish};
use duetime_core::testing::ManualClock;
use duetime_core::testing::fixtures::{FixedHost, QUEUE, T0, cancel, due, id, job, reserve, success, take};
use duetime_core::{Clock, JobId, JobOptions, JobRef};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::cmp::Reverse;
use std::sync::Arc;

struct Bench {
    redis: Redis,
    clock: Arc<ManualClock>,
}

impl Bench {
    async fn new(name: &str) -> Self {
        Self::with(name, Options::default()).await
    }

    async fn with(name: &str, options: Options) -> Self {
        let clock = Arc::new(ManualClock::new());
        let options = Options { clock: Some(clock.clone()), ..options };
        let url = format!("{}?namespace={name}", shared_redis().url());
        let redis = Redis::connect(&url, options).await.unwrap();
        redis.begin(Arc::new(FixedHost::default())).await.unwrap();
        Self { redis, clock }
    }

    async fn record(&self, jobs: &[Job]) -> Vec<Recorded> {
        self.redis.record(jobs.to_vec(), 0).await.unwrap()
    }

    async fn one(&self) -> Job {
        self.redis.reserve(reserve(QUEUE, 1)).await.unwrap().leases.remove(0).job
    }

    async fn complete_one(&self) -> Job {
        let job = self.one().await;
        let settled = self.redis.settle(vec![Settle::new(job.receipt(), success())]).await.unwrap();
        assert_eq!(settled.states, [Some(State::Succeeded)]);
        assert!(settled.entries.is_empty());
        job
    }

    async fn row(&self, n: u64) -> Option<Job> {
        self.redis.get_row(id(n)).await
    }

    async fn found(&self, find: Find) -> Vec<u64> {
        let (mut find, mut ids) = (find, Vec::new());
        loop {
            let found = self.redis.find(find.clone()).await.unwrap();
            assert!(found.jobs.len() <= find.limit);
            ids.extend(found.jobs.iter().map(|job| job.id.sequence()));
            match found.next {
                Some(next) => find.after = Some(next),
                None => return ids,
            }
        }
    }
}

trait Row {
    async fn get_row(&self, id: JobId) -> Option<Job>;
}

impl Row for Redis {
    async fn get_row(&self, id: JobId) -> Option<Job> {
        Ledger::get(self, &[id]).await.unwrap().remove(0)
    }
}

fn of_queue() -> Find {
    Find { queue: Some(QUEUE.into()), ..all(Selector::State) }
}

fn all(selector: Selector) -> Find {
    Find { selector, queue: None, states: Vec::new(), kind: None, due: Window::ALL, after: None, limit: 3 }
}

#[tokio::test]
async fn a_push_is_recorded_once_and_handed_out() {
    let bench = Bench::new("push").await;
    assert_eq!(bench.record(&[job(1), due(2, T0 + 500)]).await, [Recorded::Created; 2]);
    assert_eq!(bench.record(&[job(1)]).await, [Recorded::Repeat]);
    let done = bench.complete_one().await;
    assert_eq!(bench.record(&[job(1)]).await, [Recorded::Repeat], "a push that is sent again raises nobody");
    assert!(bench.redis.reserve(reserve(QUEUE, 1)).await.unwrap().leases.is_empty());
    let row = bench.row(1).await.unwrap();
    assert_eq!((row.stage, row.epoch, row.attempt), (Stage::Succeeded, done.epoch, 1));
    assert_eq!(row.finished_at, Some(Timestamp(T0)));
}

trait EditInLedger {
    async fn edit_in_ledger(&self, id: JobId, change: Change) -> Edited;
}

impl EditInLedger for Redis {
    async fn edit_in_ledger(&self, id: JobId, change: Change) -> Edited {
        let edit = Edit { id, version: None, change };
        Ledger::edit(self, vec![edit], T0, 0).await.unwrap().remove(0)
    }
}

#[tokio::test]
async fn what_has_ended_is_kept_within_bounds() {
    let bench = Bench::with("bounds", Options { ended_max: 5, dead_max: 2, ..Options::default() }).await;
    bench.record(&(1..=20).map(job).collect::<Vec<_>>()).await;
    for _ in 0..8 {
        bench.complete_one().await;
    }
    assert!(bench.row(1).await.is_some(), "the youngest stay, so that a repeat is answered");
    bench.clock.advance(20_000);
    for _ in 0..3 {
        bench.complete_one().await;
    }
    let (_, tally) = bench.redis.tallies(Queues::first()).await.unwrap().remove(0);
    assert_eq!((tally.pending, tally.succeeded), (9, 5));
    assert!(bench.row(6).await.is_none() && bench.row(7).await.is_some());
    for _ in 0..4 {
        let job = bench.one().await;
        let failed = Decision::Finish(Finish::new(Stage::Failed));
        bench.redis.settle(vec![Settle::new(job.receipt(), failed)]).await.unwrap();
        bench.clock.advance(20_000);
    }
    assert_eq!(bench.redis.tallies(Queues::first()).await.unwrap()[0].1.failed, 2);
    assert_eq!(bench.redis.prune(Retention::default(), bench.clock.wall(), 1_000).await.unwrap(), 0);
    bench.clock.advance(DAY_MS);
    assert_eq!(bench.redis.prune(Retention::default(), bench.clock.wall(), 1_000).await.unwrap(), 5);
    let tally = bench.redis.tallies(Queues::first()).await.unwrap()[0].1;
    assert_eq!((tally.pending, tally.succeeded, tally.failed), (5, 0, 2));
}

#[tokio::test]
async fn dead_letters_are_retried_and_deleted() {
    let bench = Bench::new("dead").await;
    bench.record(&[job(1), job(2)]).await;
    for _ in 0..2 {
        let job = bench.one().await;
        let failure = Failure { message: "no".into(), is_final: true, retry_after: None };
        let decision = rules::after_failure(&job, &Retry::default(), &failure, T0, None);
        assert_eq!(
            bench.redis.settle(vec![Settle::new(job.receipt(), decision)]).await.unwrap().states,
            [Some(State::Failed)]
        );
    }
    let unfit =
        Broker::edit(&bench.redis, vec![Edit { id: id(1), version: None, change: Change::RETRY }]).await.unwrap();
    assert_eq!(unfit.0, [Edited::Unfit { id: id(1), state: State::Failed }]);
    assert!(matches!(bench.redis.edit_in_ledger(id(1), Change::RETRY).await, Edited::Changed(_)));
    assert!(matches!(bench.redis.edit_in_ledger(id(2), Change::Delete).await, Edited::Changed(_)));
    assert_eq!(bench.redis.edit_in_ledger(id(2), Change::Delete).await, Edited::Unknown);
    let retried = bench.one().await;
    assert_eq!((retried.id, retried.attempt, retried.errors.len()), (id(1), 1, 1));
    let counted = bench.redis.tallies(Queues::first()).await.unwrap();
    assert_eq!((counted[0].1.pending, counted[0].1.failed), (1, 0));
}

#[tokio::test]
async fn results_and_messages_come_back() {
    let bench = Bench::new("results").await;
    bench.record(&[job(1), job(2)]).await;
    let (first, second) = (bench.one().await, bench.one().await);
    let with =
        |result: &[u8]| Decision::Finish(Finish { result: Some(result.into()), ..Finish::new(Stage::Succeeded) });
    let settled = vec![Settle::new(first.receipt(), with(b"\0\xff")), Settle::new(second.receipt(), with(b""))];
    bench.redis.settle(settled).await.unwrap();
    assert_eq!(bench.row(1).await.unwrap().result.as_deref(), Some(&b"\0\xff"[..]));
    assert_eq!(bench.row(2).await.unwrap().result.as_deref(), Some(&b""[..]));
}

#[tokio::test]
async fn a_copy_goes_to_another_queue_though_its_sender_dies() {
    let bench = Bench::new("moves").await;
    bench.record(&[job(1)]).await;
    let running = bench.one().await;
    let retry = Retry { when_exhausted: Some(WhenExhausted::Move("dead".into())), ..Retry::default() };
    let failure = Failure { message: "no".into(), is_final: true, retry_after: None };
    let decision = rules::after_failure(&running, &retry, &failure, T0, Some(id(9)));
    let settled = bench.redis.settle(vec![Settle::new(running.receipt(), decision)]).await.unwrap();
    assert!(matches!(&settled.entries[..], [OutboxEntry::Followed(..)]));
    // The sender dies here; another node finds the jobs that it left.
    let left = duetime_core::ports::Outcomes::Oldest { limit: 10, age_ms: 0 };
    let entries = bench.redis.outcomes(left).await.unwrap();
    assert_eq!(entries.len(), 1);
    for _ in 0..2 {
        bench.redis.apply(entries.clone(), 0).await.unwrap();
    }
    bench.redis.forget(&[(id(1), entries[0].job().version)], u64::MAX).await.unwrap();
    assert!(bench.redis.outcomes(left).await.unwrap().is_empty());
    let moved = bench.redis.reserve(reserve("dead", 10)).await.unwrap().leases;
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].job.id, id(9));
    assert_eq!(bench.row(1).await.unwrap().stage, Stage::Failed);
}

/// It was deleted, or dropped to make room, before a server that was killed had carried out its end.
#[tokio::test]
async fn what_follows_a_job_outlives_its_record() {
    let bench = Bench::new("outlived").await;
    bench.record(&[job(1), job(2)]).await;
    for n in [8, 9] {
        let job_of_end = Job { queue: "next".into(), ..job(n) };
        let end = Decision::Finish(Finish { successors: vec![job_of_end], ..Finish::new(Stage::Succeeded) });
        let settled = bench.redis.settle(vec![Settle::new(bench.one().await.receipt(), end)]).await.unwrap();
        assert_eq!(settled.states, [Some(State::Succeeded)]);
    }
    assert!(matches!(bench.redis.edit_in_ledger(id(1), Change::Delete).await, Edited::Changed(_)));
    bench.clock.advance(DAY_MS);
    assert_eq!(bench.redis.prune(Retention { succeeded: Span(1), failed: Span(1) }, T0 + DAY_MS, 10).await, Ok(1));
    let left = duetime_core::ports::Outcomes::Oldest { limit: 10, age_ms: 0 };
    let entries = bench.redis.outcomes(left).await.unwrap();
    let known = |entry: &OutboxEntry| (entry.job().id, entry.successors()[0].id);
    assert_eq!(entries.iter().map(known).collect::<Vec<_>>(), [(id(1), id(8)), (id(2), id(9))]);
    bench.redis.apply(entries, 0).await.unwrap();
    bench.redis.forget(&[(id(1), 0), (id(2), 0)], u64::MAX).await.unwrap();
    assert!(bench.redis.outcomes(left).await.unwrap().is_empty() && bench.redis.backlog() == 0);
    assert_eq!(bench.redis.reserve(reserve("next", 10)).await.unwrap().leases.len(), 2);
    assert!(bench.row(1).await.is_none() && bench.row(2).await.is_none());
}

/// A server that was killed, or had no room, left one of them. The export is a process that has used no partition.
#[tokio::test]
async fn an_export_has_the_jobs_that_are_about_to_begin() {
    let bench = Bench::new("exported").await;
    bench.record(&[job(1), job(2)]).await;
    for n in [8, 9] {
        let end = Decision::Finish(Finish { successors: vec![job(n)], ..Finish::new(Stage::Succeeded) });
        let settled = bench.redis.settle(vec![Settle::new(bench.one().await.receipt(), end)]).await.unwrap();
        if n == 8 {
            bench.redis.apply(settled.entries, 0).await.unwrap();
        }
    }
    let other = Bench::new("exported").await.redis;
    let mut export = Export::begin(other.stores()).await.unwrap();
    let mut exported = Vec::new();
    while let Some(page) = export.page().await.unwrap() {
        exported.extend(page.into_iter().map(|job| (job.id, job.stage)));
    }
    exported.sort_unstable_by_key(|(id, _)| *id);
    let expected = [(1, Stage::Succeeded), (2, Stage::Succeeded), (8, Stage::Pending), (9, Stage::Pending)];
    assert_eq!(exported, expected.map(|(n, stage)| (id(n), stage)));
}

/// A job under the copy's id is the copy itself, unless it was imported.
#[tokio::test]
async fn a_copy_whose_id_an_imported_job_has_is_named() {
    let bench = Bench::new("taken").await;
    let options = JobOptions { imported: true, ..JobOptions::default() }.shared();
    bench.record(&[job(1), Job { options, ..job(8) }]).await;
    let moved = |n| OutboxEntry::Changed(job(1)).followed_by(vec![Job { origin: Some("moved".into()), ..job(n) }]);
    assert_eq!(bench.redis.apply(vec![moved(8), moved(9)], 0).await.unwrap(), [id(8)]);
    assert_eq!(bench.redis.apply(vec![moved(9), moved(10)], 0).await.unwrap(), []);
    assert!(bench.row(9).await.is_some() && bench.row(10).await.is_none(), "its origin keeps it one");
}

#[tokio::test]
async fn jobs_are_found_by_what_is_indexed() {
    let bench = Bench::new("find").await;
    let elsewhere = Job { queue: "other".into(), tags: ["t".into()].into(), ..job(4) };
    let urgent = Job { priority: 1, kind: "mail".into(), ..due(5, T0 + 9_000) };
    let tagged = |n| Job { tags: ["t".into(), "u".into()].into(), key: Some(format!("k{n}").into()), ..job(n) };
    bench.record(&[tagged(1), job(2), tagged(3), elsewhere, urgent, due(6, T0 + 9_000)]).await;
    bench.complete_one().await;
    bench.one().await;
    bench.redis.edit_in_ledger(id(3), cancel()).await;
    assert_eq!(bench.found(all(Selector::All)).await, [5, 6, 4, 2, 1, 3]);
    assert_eq!(bench.found(of_queue()).await, [5, 6, 2, 3, 1]);
    assert_eq!(bench.found(all(Selector::Tag("t".into()))).await, [1, 3, 4]);
    assert_eq!(bench.found(all(Selector::Tag("u".into()))).await, [1, 3]);
    assert_eq!(bench.found(Find { limit: 1, ..all(Selector::Tag("t".into())) }).await, [1, 3, 4]);
    assert_eq!(bench.found(Find { queue: Some("other".into()), ..all(Selector::Tag("t".into())) }).await, [4]);
    assert_eq!(bench.found(all(Selector::Key(QUEUE.into(), "k1".into()))).await, [1]);
    let one_by_one = Find { limit: 1, ..all(Selector::Key(QUEUE.into(), "k1".into())) };
    assert_eq!(bench.found(one_by_one).await, [1], "the walk goes on behind the holder of the key");
    let cancelled = Find { states: vec![State::Cancelled], ..all(Selector::All) };
    assert_eq!(bench.found(cancelled).await, [3]);
    assert_eq!(bench.found(Find { kind: Some("mail".into()), ..all(Selector::All) }).await, [5]);
    assert_eq!(bench.found(all(Selector::Tag("none".into()))).await, [0; 0]);
    let update = Change::Update(Update { tags: Some(["v".into()].into()), ..Update::default() });
    bench.redis.edit_in_ledger(id(4), update).await;
    assert_eq!(bench.found(all(Selector::Tag("t".into()))).await, [1, 3]);
    assert_eq!(bench.found(all(Selector::Tag("v".into()))).await, [4]);
    let wrong = Find { after: Some("nonsense".into()), ..all(Selector::All) };
    assert!(bench.redis.find(wrong).await.is_err());
}

/// Of all partitions, in pages of any size. The clock of each script is the end of its jobs.
#[tokio::test]
async fn jobs_that_have_ended_are_found_the_latest_first() {
    let bench = Bench::new("latest&partitions=3").await;
    let queue = |n: u64| format!("q{}", n % 7);
    let id = |n: u64| JobId::in_partition(n, bench.redis.partition(&queue(n)));
    let jobs: Vec<Job> = (1..=60).map(|n| Job { id: id(n), queue: queue(n).into(), ..job(n) }).collect();
    assert!(jobs.iter().any(|job| bench.redis.partition(&job.queue) != bench.redis.partition(&jobs[0].queue)));
    bench.record(&jobs).await;
    let mut ended: Vec<u64> = (1..=60).map(|n| n * 7 % 61).collect();
    let mut at = [0; 61];
    for &n in &ended {
        bench.clock.advance(u64::from(n % 3 == 0));
        at[usize::try_from(n).unwrap()] = bench.redis.now();
        bench.redis.edit_in_ledger(id(n), cancel()).await;
    }
    // Those of one instant by their ids.
    ended.sort_by_key(|&n| Reverse((at[usize::try_from(n).unwrap()], id(n))));
    let cancelled = Find { states: vec![State::Cancelled], ..all(Selector::State) };
    for limit in [1, 7, 1_000] {
        assert_eq!(bench.found(Find { limit, ..cancelled.clone() }).await, ended, "{limit} at a time");
    }
    let of_queue: Vec<u64> = ended.iter().copied().filter(|&n| n % 7 == 3).collect();
    let find = Find { queue: Some(queue(3).into()), ..cancelled.clone() };
    assert_eq!(bench.found(find.clone()).await, of_queue);
    assert_eq!(bench.found(Find { states: vec![State::Failed], ..cancelled.clone() }).await, [0; 0]);
    // The job that a page ended with leaves, and so does its place.
    let page = bench.redis.find(Find { limit: 3, ..find.clone() }).await.unwrap();
    bench.redis.edit_in_ledger(id(of_queue[2]), Change::Delete).await;
    bench.redis.edit_in_ledger(id(of_queue[4]), Change::Delete).await;
    let rest = bench.found(Find { after: page.next, ..find }).await;
    assert_eq!(rest, [&of_queue[3..4], &of_queue[5..]].concat());
    for wrong in ["x", "5.0", "1;e;0;0;"] {
        let find = Find { after: Some(wrong.to_owned()), ..cancelled.clone() };
        assert!(bench.redis.find(find).await.is_err(), "{wrong}");
    }
}

/// After live ones, in the order in which they were parked, whatever their ids; then the others.
#[tokio::test]
async fn parked_jobs_come_before_others_that_have_ended() {
    let bench = Bench::new("parked&partitions=3").await;
    let queue = |n: u64| format!("q{}", n % 7);
    let id = |n: u64| JobId::in_partition(n, bench.redis.partition(&queue(n)));
    let job = |n: u64| Job { id: id(n), queue: queue(n).into(), ..job(n) };
    let (parked, ended) = ([3, 9, 1, 4, 8, 2], [7, 5, 6]);
    for n in parked {
        bench.clock.advance(1);
        bench.record(&[Job { stage: Stage::Failed, finished_at: None, ..job(n) }]).await;
    }
    bench.record(&ended.map(job)).await;
    for n in ended {
        bench.clock.advance(1);
        bench.redis.edit_in_ledger(id(n), cancel()).await;
    }
    bench.record(&[Job { queue: queue(1).into(), id: id(15), ..job(15) }]).await;
    for limit in [1, 2, 1_000] {
        let find = |states: &[State]| Find { limit, states: states.to_vec(), ..all(Selector::State) };
        assert_eq!(bench.found(find(&[State::Failed])).await, parked, "{limit} at a time");
        let expected: Vec<u64> = [15].into_iter().chain(parked).chain([6, 5, 7]).collect();
        assert_eq!(bench.found(find(&[])).await, expected, "{limit} at a time");
        let of_queue = Find { queue: Some(queue(1).into()), ..find(&[]) };
        assert_eq!(bench.found(of_queue).await, [15, 1, 8], "{limit} at a time");
    }
}

/// Pages of any size add up to the whole, even if many jobs are due at one instant.
#[tokio::test]
async fn pages_make_the_whole() {
    let bench = Bench::new("pages").await;
    let jobs: Vec<Job> = (1..=500).map(|n| Job { priority: 1_023 + (n % 2) as u32, ..due(n, T0 + n / 300) }).collect();
    bench.record(&jobs).await;
    for limit in [1, 7, 250, 1_000] {
        let mut found = bench.found(Find { limit, ..of_queue() }).await;
        found.sort_unstable();
        assert_eq!(found, (1..=500).collect::<Vec<_>>(), "pages of {limit}");
    }
}

#[tokio::test]
async fn blocks_of_ids_never_meet() {
    let bench = Bench::new("ids").await;
    let first = bench.redis.allot(1_000, T0).await.unwrap();
    let second = bench.redis.allot(1_000, T0).await.unwrap();
    assert!(first.start >= ids::sequence_at(T0) && second.start >= first.end, "{first:?} {second:?}");
    bench.clock.step(-3_600_000);
    assert!(bench.redis.allot(1, T0).await.unwrap().start >= second.end);
}

/// A replica that becomes the master may lack the last blocks.
#[tokio::test]
async fn blocks_of_ids_do_not_recur_after_a_failover() {
    let bench = Bench::new("failover").await;
    let server = shared_redis();
    let first = bench.redis.allot(1_000, T0).await.unwrap();
    let keys = server.command(&["KEYS", "*failover*"]);
    let key = keys.split_whitespace().find(|key| key.ends_with("ids")).unwrap_or_else(|| panic!("{keys}"));
    let of_server = server.command(&["GET", key]);
    assert_eq!(of_server.trim().split_once(' ').map(|(end, of)| (end, of.len())), Some((&*first.end.to_string(), 40)));
    let lost = bench.redis.allot(1_000, T0).await.unwrap();
    bench.clock.step(1_000);
    server.command(&["SET", key, &format!("{} {}", first.end, "0".repeat(40))]);
    let after = bench.redis.allot(1_000, T0).await.unwrap();
    assert!(after.start >= lost.end, "{lost:?} {after:?}");
    assert_eq!(bench.redis.allot(1, T0).await.unwrap().start, after.end);
}

#[tokio::test]
async fn documents_are_stored_on_their_condition() {
    let bench = Bench::new("documents").await;
    let put = async |version, body: &str| bench.redis.put_if("queue", "q", body, version).await.unwrap();
    assert_eq!(bench.redis.document("queue", "q").await.unwrap(), None);
    assert_eq!(put(1, "{}").await, PutIf::Mismatch(0));
    assert_eq!(put(0, "{} 1").await, PutIf::Stored(1));
    assert_eq!(put(0, "{} 1").await, PutIf::Mismatch(1), "by another call, though the body is the same");
    assert_eq!(put(0, "{} 2").await, PutIf::Mismatch(1));
    assert_eq!(put(1, "{} 2").await, PutIf::Stored(2));
    let document = bench.redis.document("queue", "q").await.unwrap().unwrap();
    assert_eq!((document.version, document.body.as_str()), (2, "{} 2"));
    assert_eq!(bench.redis.documents("queue").await.unwrap(), [document]);
    assert!(!bench.redis.remove("queue", "q", Some(u64::MAX >> 20)).await.unwrap());
    let version = bench.redis.document("queue", "q").await.unwrap().unwrap().version;
    assert!(bench.redis.remove("queue", "q", Some(version)).await.unwrap());
    assert!(!bench.redis.remove("queue", "q", None).await.unwrap());
}

/// Payloads are opaque: bytes, numbers beyond 2^53, empty lists.
#[tokio::test]
async fn a_payload_comes_back_byte_for_byte() {
    let bench = Bench::new("bytes").await;
    let payloads: [&[u8]; 4] = [b"", b"\0\xff\r\n", b"[9007199254740993, 1.0, [], {}]", &[7; 300_000]];
    for (n, payload) in (1..).zip(payloads) {
        let new = NewJob { queue: QUEUE.into(), ..NewJob::new(payload) };
        bench.record(&[new.accept(id(n), T0, 1 << 20).unwrap()]).await;
    }
    for payload in payloads {
        assert_eq!(&*bench.one().await.payload, payload);
    }
}

/// However much is requested at once, Redis is blocked for some MiB at most, and nothing is left out.
#[tokio::test]
async fn large_jobs_come_in_parts() {
    let bench = Bench::new("large").await;
    let payload: Arc<[u8]> = vec![7; 1 << 20].into();
    let jobs: Vec<Job> = (1..=60).map(|n| Job { payload: payload.clone(), ..job(n) }).collect();
    assert_eq!(bench.record(&jobs).await, [Recorded::Created; 60]);
    let mut found = bench.found(of_queue()).await;
    found.sort_unstable();
    assert_eq!(found, (1..=60).collect::<Vec<_>>());
    let rows = Ledger::get(&bench.redis, &(1..=60).map(id).collect::<Vec<_>>()).await.unwrap();
    assert!(rows.iter().all(|row| row.as_ref().is_some_and(|job| job.payload.len() == 1 << 20)));
    let mut seen = Vec::new();
    while seen.len() < 60 {
        let reserved = if seen.len() > 20 {
            bench.redis.take(take(QUEUE, 1_000)).await.unwrap().reserved
        } else {
            bench.redis.reserve(reserve(QUEUE, 1_000)).await.unwrap()
        };
        assert!((1..60).contains(&reserved.leases.len()), "{} at once", reserved.leases.len());
        seen.extend(reserved.leases.iter().map(|lease| lease.job.id.sequence()));
        assert_eq!(reserved.next_at, (seen.len() < 60).then_some(T0));
    }
    assert_eq!(seen, (1..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn named_jobs_of_one_take_are_all_taken() {
    let bench = Bench::new("named-takes").await;
    bench.record(&[job(1), job(2)]).await;
    let named = [1, 2].map(|n| JobRef { id: id(n), version: None });
    let take = Take { request_id: Some("r".into()), ..Take::new(Source::Jobs(named.to_vec()), 2) };
    for _ in 0..2 {
        let taken = bench.redis.take(take.clone()).await.unwrap().reserved.leases;
        let taken: Vec<_> = taken.iter().map(|lease| (lease.job.id, lease.job.stage)).collect();
        assert_eq!(taken, [1, 2].map(|n| (id(n), Stage::Succeeded)));
    }
}

/// Even if the taken jobs are too large to be remembered whole.
#[tokio::test]
async fn a_large_take_is_repeated() {
    let bench = Bench::new("takes").await;
    let payload: Arc<[u8]> = vec![7; 700 << 10].into();
    bench.record(&(1..=3).map(|n| Job { payload: payload.clone(), ..job(n) }).collect::<Vec<_>>()).await;
    let take = Take { request_id: Some("r".into()), ..take(QUEUE, 2) };
    let first = bench.redis.take(take.clone()).await.unwrap();
    let again = bench.redis.take(take).await.unwrap();
    let jobs = |taken: &duetime_core::ports::Taken| {
        taken
            .reserved
            .leases
            .iter()
            .map(|lease| (lease.job.id, lease.job.stage, lease.job.message.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(jobs(&first), jobs(&again));
    assert_eq!(jobs(&first), [1, 2].map(|n| (id(n), Stage::Succeeded, Some("taken".into()))));
}

/// Its reply was lost, and meanwhile the job was deleted, dropped at its end, or pruned.
#[tokio::test]
async fn a_put_that_is_sent_again_brings_no_removed_job_back() {
    let bench = Bench::new("removed").await;
    let jobs = [job(1), job(2), job(3)];
    bench.record(&jobs).await;
    let dropped = Decision::Finish(Finish { drop: true, ..Finish::new(Stage::Failed) });
    bench.redis.settle(vec![Settle::new(bench.one().await.receipt(), dropped)]).await.unwrap();
    bench.complete_one().await;
    let delete = Edit { id: id(3), version: None, change: Change::Delete };
    Broker::edit(&bench.redis, vec![delete]).await.unwrap();
    Ledger::prune(&bench.redis, Retention { succeeded: Span(0), failed: Span(0) }, bench.clock.wall(), 10)
        .await
        .unwrap();
    bench.clock.advance(15_000);
    assert_eq!(bench.record(&jobs).await, [Recorded::Repeat; 3]);
    assert!(bench.redis.reserve(reserve(QUEUE, 9)).await.unwrap().leases.is_empty());
    bench.clock.advance(60_000);
    assert_eq!(bench.record(&jobs[..1]).await, [Recorded::Created], "nothing is remembered forever");
}

/// Of an import: they stay where they would be if they had ended here, for as long.
#[tokio::test]
async fn jobs_that_have_ended_are_recorded() {
    let bench = Bench::new("ended-elsewhere").await;
    let over = |n, stage, finished_at| Job {
        stage,
        finished_at: Some(finished_at),
        result: Some((*b"\x00result").into()),
        tags: Arc::from(vec![Arc::from("t")]),
        key: Some("k".into()),
        attempt: 3,
        epoch: 9,
        ..job(n)
    };
    let jobs = [
        over(1, Stage::Succeeded, Timestamp(T0 - DAY_MS)),
        over(2, Stage::Failed, Timestamp(T0 - DAY_MS)),
        over(3, Stage::Cancelled, Timestamp(T0 - 5)),
        Job { key: Some("k".into()), ..job(4) },
        over(5, Stage::Succeeded, Timestamp(T0 - 5)),
    ];
    assert_eq!(bench.record(&jobs).await, [Recorded::Created; 5], "ended ones hold no key");
    assert_eq!(bench.record(&jobs).await, [Recorded::Repeat; 5]);
    for (n, job) in (1..).zip(&jobs) {
        assert_eq!(bench.row(n).await.as_ref(), Some(job));
    }
    let tallies = bench.redis.tallies(Queues::first()).await.unwrap();
    let tally = tallies[0].1;
    assert_eq!((tally.pending, tally.succeeded, tally.failed, tally.cancelled), (1, 2, 1, 1));
    assert_eq!(bench.found(all(Selector::Tag("t".into()))).await, [1, 2, 3, 5]);
    assert_eq!(bench.found(all(Selector::All)).await, [4, 1, 3, 5, 2]);
    let pruned = bench.redis.prune(Retention::default(), T0, 100).await.unwrap();
    assert_eq!((pruned, bench.found(all(Selector::All)).await), (1, vec![4, 3, 5, 2]));
    assert_eq!(bench.one().await.id, id(4));
}

/// Ids from a clock that is ahead were imported.
#[tokio::test]
async fn a_block_begins_behind_an_instant() {
    let bench = Bench::new("ahead").await;
    let first = bench.redis.allot(10, T0).await.unwrap();
    let ahead = bench.redis.allot(1, T0 + DAY_MS).await.unwrap();
    assert!(ahead.start >= ids::sequence_at(T0 + DAY_MS) && first.end < ahead.start);
    assert!(bench.redis.allot(10, T0).await.unwrap().start >= ahead.end);
}
