//! More jobs than memory has room for: due jobs wait in the ledger, and are handed out anyway.

use super::fixture::{Bench, job, pass, request};
use duetime_core::api::{DegradedCode, Span, Timestamp};
use duetime_core::engine::{
    CancelOutcome, JobRef, Options, Outcome, Patch, Query, ReserveRequest, Source, TakeRequest,
};
use duetime_core::ports::{Broker, Detail, Lease, Outbox, Queues, Settle};
use duetime_core::rules::{Decision, Failure, Finish};
use duetime_core::testing::{ModelLedger, Random, TokioClock};
use duetime_core::{Due, Error, Job, JobId, JobOptions, NewJob, Retry, Stage, State};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Room for this many jobs of these tests.
const ROOM_JOBS: u64 = 100;
const JOB_BYTES: u64 = 207;

fn options() -> Options {
    Options { memory_max: Some(ROOM_JOBS * JOB_BYTES), ..Options::default() }
}

impl Bench {
    async fn bounded() -> Self {
        Self::over_with(ModelLedger::default(), Arc::new(TokioClock::new()), options()).await
    }

    /// Another process begins, with this much room.
    async fn restarted(self, options: Options) -> Self {
        let Self { ledger, clock, life, .. } = self;
        life.die();
        Self::over_with(ledger, clock, options).await
    }

    async fn push_all(&self, jobs: Vec<NewJob>) -> Vec<Job> {
        let mut pushed = Vec::new();
        for batch in jobs.chunks(50) {
            let answers = self.engine.push(batch.to_vec()).await.unwrap();
            pushed.extend(answers.into_iter().map(|answer| answer.unwrap().job));
        }
        pushed
    }

    async fn push_to(&self, queue: &str, count: usize) -> Vec<Job> {
        self.push_all(vec![NewJob { queue: queue.into(), ..job() }; count]).await
    }

    /// The number of jobs that the broker holds.
    async fn held(&self) -> u64 {
        let counts = self.broker.counts(Queues::first()).await.unwrap();
        counts.iter().map(|(_, counts, _)| counts.scheduled + counts.ready + counts.running).sum()
    }

    /// Reserves and completes until no job is available at once, as a worker run by cron does.
    async fn run_all(&self, queue: &str) -> Vec<Job> {
        let mut done = Vec::new();
        loop {
            let from = Source::Queues(vec![queue.into()]);
            let request = ReserveRequest { from, ..request(7, Duration::ZERO) };
            let leases = self.engine.reserve(request).await.unwrap().leases;
            if leases.is_empty() {
                return done;
            }
            // One more of each queue, and the minimum for each.
            assert!(self.held().await <= ROOM_JOBS * 5 / 4 + 25, "{}", self.held().await);
            for lease in leases {
                self.complete(&lease).await.unwrap();
                done.push(lease.job);
            }
        }
    }
}

fn ids(jobs: &[Job]) -> Vec<JobId> {
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    ids.sort();
    ids
}

fn rank(job: &Job) -> (u32, u64, JobId) {
    (job.priority, job.due_at.0, job.id)
}

#[tokio::test(start_paused = true)]
async fn thousands_overdue_run_in_the_order_of_their_urgency_within_a_small_budget() {
    let bench = Bench::bounded().await;
    let mut random = Random::new(7);
    let jobs = (0..3_000).map(|_| {
        let due = Due::At(Timestamp(bench.engine.now() - random.within(0..1_000_000)));
        NewJob { due, priority: *random.of(&[0, 5, 1_024, 1_024, u32::MAX]), ..job() }
    });
    let pushed = bench.push_all(jobs.collect()).await;
    assert!(bench.held().await <= ROOM_JOBS, "{}", bench.held().await);
    pass(Duration::from_secs(1)).await;
    assert!(bench.held().await <= ROOM_JOBS, "{}", bench.held().await);
    assert_eq!(bench.queue("default").await.counts.ready, 3_000);
    let done = bench.run_all("default").await;
    assert!(ids(&done) == ids(&pushed), "each once: {} of {}", done.len(), pushed.len());
    for (place, job) in done.iter().enumerate() {
        let before = done[..place].iter().filter(|before| rank(before) > rank(job)).count();
        assert!(before <= ROOM_JOBS as usize, "{before} less urgent ones came first");
    }
}

#[tokio::test(start_paused = true)]
async fn queues_without_workers_do_not_keep_out_the_jobs_of_others() {
    let bench = Bench::bounded().await;
    for n in 0..20 {
        bench.push_to(&format!("dead{n}"), 200).await;
    }
    let pushed = bench.push_to("default", 500).await;
    pass(Duration::from_secs(5)).await;
    assert!(bench.held().await <= ROOM_JOBS * 5 / 4 + 21, "{}", bench.held().await);
    assert!(ids(&bench.run_all("default").await) == ids(&pushed));
    for n in 0..20 {
        assert_eq!(bench.run_all(&format!("dead{n}")).await.len(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_gets_what_waits_in_the_ledger() {
    let bench = Bench::bounded().await;
    bench.push_to("dead", 1_000).await;
    bench.push_to("default", 1_000).await;
    for _ in 0..1_000 {
        let lease = bench.reserve(1, Duration::from_secs(1)).await.pop().expect("there are jobs left");
        bench.complete(&lease).await.unwrap();
    }
    assert!(bench.reserve(1, Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restart_loads_only_what_there_is_room_for() {
    // All of it had room before, and is marked as loaded.
    let bench = Bench::new().await;
    let mut pushed = bench.push_to("dead", 1_000).await;
    pushed.extend(bench.push_to("default", 1_000).await);
    assert_eq!(bench.held().await, 2_000);
    let mut bench = bench.restarted(options()).await;
    for _ in 0..3 {
        pass(Duration::from_secs(2)).await;
        assert!(bench.engine.health().is_loaded);
        assert!(bench.held().await <= ROOM_JOBS, "{}", bench.held().await);
        bench = bench.restarted(options()).await;
    }
    let mut done = bench.run_all("default").await;
    done.extend(bench.run_all("dead").await);
    assert!(ids(&done) == ids(&pushed), "each once: {} of {}", done.len(), pushed.len());
}

#[tokio::test(start_paused = true)]
async fn what_comes_due_while_no_process_runs_is_bounded_too() {
    let bench = Bench::bounded().await;
    let later = NewJob { due: Due::After(Span(6 * 3_600_000)), queue: "dead".into(), ..job() };
    let mut pushed = bench.push_all(vec![later.clone(); 1_000]).await;
    pushed.extend(bench.push_all(vec![NewJob { queue: "default".into(), ..later }; 1_000]).await);
    assert_eq!(bench.held().await, 0);
    bench.clock.step_wall(7 * 3_600_000);
    let bench = bench.restarted(options()).await;
    pass(Duration::from_secs(2)).await;
    assert!(bench.held().await <= ROOM_JOBS, "{}", bench.held().await);
    let mut done = bench.run_all("default").await;
    done.extend(bench.run_all("dead").await);
    assert!(ids(&done) == ids(&pushed), "each once: {} of {}", done.len(), pushed.len());
}

#[tokio::test(start_paused = true)]
async fn an_urgent_job_overtakes_those_that_wait_in_the_ledger() {
    let bench = Bench::bounded().await;
    bench.push_to("default", 2_000).await;
    let urgent = bench.push_all(vec![NewJob { priority: 0, ..job() }; 200]).await;
    let done = bench.run_all("default").await;
    let last = done.iter().rposition(|job| job.priority == 0).unwrap();
    assert!(last < 200 + ROOM_JOBS as usize, "{last}");
    assert_eq!(done.len(), 2_000 + urgent.len());
}

#[tokio::test(start_paused = true)]
async fn jobs_that_wait_for_their_time_keep_out_none_that_is_due() {
    let bench = Bench::bounded().await;
    let later = NewJob { due: Due::After(Span(1_800_000)), ..job() };
    bench.push_all(vec![later; 1_000]).await;
    assert!(bench.held().await <= ROOM_JOBS * 3 / 4, "{}", bench.held().await);
    let soon = bench.push(NewJob { due: Due::After(Span(10_000)), ..job() }).await;
    let waiter = bench.waiter(Duration::from_secs(60)).await;
    pass(Duration::from_secs(10)).await;
    pass(Duration::from_millis(300)).await;
    let reservation = waiter.await.unwrap().unwrap();
    assert_eq!(reservation.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [soon.id]);
    bench.complete(&reservation.leases[0]).await.unwrap();
    pass(Duration::from_secs(1_800)).await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(bench.run_all("default").await.len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_reserve_that_found_nothing_is_not_sent_away_for_longer_than_jobs_wait() {
    let bench = Bench::bounded().await;
    bench.push_all(vec![NewJob { due: Due::After(Span(1_800_000)), ..job() }; 1_000]).await;
    let reservation = bench.engine.reserve(request(1, Duration::ZERO)).await.unwrap();
    assert!(reservation.next_due_at.unwrap() <= Timestamp(bench.engine.now() + 60_000));
}

/// The last job, which waits in the ledger after thousands of others.
async fn last_of_many(bench: &Bench) -> Job {
    let jobs = bench.push_to("default", 1_000).await;
    let last = jobs.last().unwrap().clone();
    assert_eq!(bench.broker.get(&[last.id], Detail::Whole).await.unwrap(), [None]);
    last
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_in_the_ledger_is_handed_out_by_name() {
    let bench = Bench::bounded().await;
    let last = last_of_many(&bench).await;
    let later = bench.push(NewJob { due: Due::After(Span(600_000)), ..job() }).await;
    let from = Source::Jobs(vec![JobRef::from(last.id), JobRef::from(later.id)]);
    let reservation = bench.engine.reserve(ReserveRequest { from, ..request(2, Duration::ZERO) }).await.unwrap();
    assert_eq!(reservation.leases.len(), 1);
    assert_eq!(reservation.refused, [(later.id, Error::NotDue(later.id))]);
    bench.complete(&reservation.leases[0]).await.unwrap();
    assert_eq!(bench.state(last.id).await, State::Succeeded);
    assert_eq!(bench.run_all("default").await.len(), 999);
}

#[tokio::test(start_paused = true)]
async fn a_take_finds_what_waits_in_the_ledger() {
    let bench = Bench::bounded().await;
    let now = bench.engine.now();
    let jobs = (0..1_000).map(|n| NewJob { due: Due::At(Timestamp(now - 1_000 + n)), ..job() });
    bench.push_all(jobs.collect()).await;
    let take = |from, to, limit| {
        let from_queue = Source::Queues(vec!["default".into()]);
        let request = TakeRequest { from: from_queue, limit, due_from: from, due_to: to, request_id: None };
        let engine = bench.engine.clone();
        async move { engine.take(request).await.unwrap().leases.into_iter().map(|lease| lease.job.due_at.0) }
    };
    let window = take(Some(Timestamp(now - 300)), Some(Timestamp(now - 291)), 100).await;
    assert_eq!(window.collect::<Vec<_>>(), (now - 300..=now - 291).collect::<Vec<_>>());
    assert_eq!(take(None, None, 500).await.len(), 500);
    assert_eq!(take(None, None, 1_000).await.len(), 490);
    assert_eq!(take(None, None, 1_000).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_in_the_ledger_can_be_changed() {
    let bench = Bench::bounded().await;
    let last = last_of_many(&bench).await;
    let target = JobRef::from(last.id);
    assert_eq!(bench.state(last.id).await, State::Ready);
    let urgent = bench.engine.update(target, Patch { priority: Some(0), ..Patch::default() }).await.unwrap();
    assert_eq!(urgent.priority, 0);
    pass(Duration::from_secs(1)).await;
    let done = bench.run_all("default").await;
    let place = done.iter().position(|job| job.id == last.id).unwrap();
    assert!(place <= ROOM_JOBS as usize, "{place}");

    let last = last_of_many(&bench).await;
    let cancelled = bench.engine.cancel(vec![JobRef::from(last.id)]).await;
    assert_eq!(cancelled, [Ok(CancelOutcome::Cancelled)]);
    assert_eq!(bench.run_all("default").await.len(), 999);
    let last = last_of_many(&bench).await;
    bench.engine.delete(vec![JobRef::from(last.id)]).await.remove(0).unwrap();
    assert_eq!(bench.engine.purge("default").await.unwrap(), 999);
    assert!(bench.run_all("default").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_the_ledger_is_counted_and_listed() {
    let bench = Bench::bounded().await;
    let pushed = bench.push_to("default", 1_000).await;
    bench.push_all(vec![NewJob { due: Due::After(Span(60_000_000)), ..job() }; 10]).await;
    pass(Duration::from_secs(2)).await;
    let counts = bench.queue("default").await.counts;
    assert_eq!((counts.ready, counts.scheduled, counts.running), (1_000, 10, 0));
    assert_eq!(counts.oldest_due, Some(pushed[0].due_at));
    let query = Query { queue: Some("default".into()), state: vec![State::Ready].into(), ..Query::default() };
    let (mut found, mut cursor) = (BTreeMap::new(), None);
    loop {
        let page = bench.engine.find(&query, cursor.as_deref(), 300).await.unwrap();
        found.extend(page.jobs.into_iter().map(|job| (job.id, job)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert!(found.keys().copied().collect::<Vec<_>>() == ids(&pushed), "{}", found.len());
}

#[tokio::test(start_paused = true)]
async fn a_key_is_held_by_a_job_that_waits_in_the_ledger() {
    let bench = Bench::bounded().await;
    bench.push_to("default", 1_000).await;
    let keyed = NewJob { key: Some("k".into()), ..job() };
    let first = bench.push(keyed.clone()).await;
    assert_eq!(bench.broker.get(&[first.id], Detail::Whole).await.unwrap(), [None]);
    assert_eq!(bench.push(keyed.clone()).await.id, first.id);
    assert_eq!(bench.run_all("default").await.len(), 1_001);
    assert_ne!(bench.push(keyed).await.id, first.id);
}

/// They keep their errors, so that they take more memory than when they were pushed.
#[tokio::test(start_paused = true)]
async fn jobs_that_grow_while_they_wait_join_the_overflow() {
    const ERROR_BYTES: u64 = 1_000;
    let bench = Bench::bounded().await;
    let pushed = bench.push_to("default", 45).await;
    for lease in bench.reserve(100, Duration::ZERO).await {
        let message = "x".repeat(ERROR_BYTES as usize).into();
        let failure = Failure { message, is_final: false, retry_after: Some(Span(5_000)) };
        assert_eq!(bench.settle(&lease, Outcome::Fail(failure)).await, Ok(State::Scheduled));
    }
    let held = bench.held().await;
    assert!(held * ERROR_BYTES <= ROOM_JOBS * JOB_BYTES, "{held} of 45 jobs are held");
    assert_eq!(bench.queue("default").await.counts.scheduled, 45);
    pass(Duration::from_secs(4)).await;
    assert!(bench.run_all("default").await.is_empty(), "none is early");
    pass(Duration::from_secs(2)).await;
    assert_eq!(ids(&bench.run_all("default").await), ids(&pushed));
}

/// Otherwise the retries of a few jobs would fill the memory, and those that have not run yet would never come.
#[tokio::test(start_paused = true)]
async fn jobs_that_failed_do_not_overtake_those_that_wait_in_the_ledger() {
    const JOBS: usize = 600;
    let bench = Bench::bounded().await;
    let retry = Retry { max_attempts: Some(0), ..Retry::default() };
    let options = JobOptions { retry, ..JobOptions::default() };
    let pushed = bench.push_all(vec![NewJob { options: options.clone(), ..job() }; JOBS]).await;
    let mut seen = Vec::new();
    while seen.len() < JOBS {
        for lease in bench.reserve(10, Duration::ZERO).await {
            seen.push(lease.job.id);
            let failure = Failure { message: "x".repeat(500).into(), is_final: false, retry_after: Some(Span(100)) };
            bench.settle(&lease, Outcome::Fail(failure)).await.unwrap();
        }
        pass(Duration::from_millis(100)).await;
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert!(seen.len() >= count - ROOM_JOBS as usize, "{} different ones of {}", seen.len(), pushed.len());
}

/// So do those that were edited, once the process has begun again.
#[tokio::test(start_paused = true)]
async fn jobs_that_were_dropped_as_they_grew_are_there_after_a_crash() {
    let bench = Bench::bounded().await;
    let pushed = bench.push_to("default", 90).await;
    for job in &pushed {
        let patch = Patch { payload: Some(vec![0; 1_000].into()), ..Patch::default() };
        bench.engine.update(JobRef::from(job.id), patch).await.unwrap();
    }
    assert!(bench.held().await <= 25, "{}", bench.held().await);
    let bench = bench.restarted(options()).await;
    assert_eq!(ids(&bench.run_all("default").await), ids(&pushed));
}

#[tokio::test(start_paused = true)]
async fn outcomes_that_cannot_be_recorded_are_bounded_in_bytes() {
    let bench = Bench::bounded().await;
    bench.push_to("default", 20).await;
    let leases = bench.reserve(20, Duration::ZERO).await;
    bench.ledger.set_away(true);
    let result = vec![b'1'; 1_000];
    let mut codes = BTreeMap::new();
    for lease in &leases {
        let refused = bench.settle(lease, Outcome::complete(Some(result.clone().into()))).await.unwrap_err();
        *codes.entry(refused.code()).or_insert(0) += 1;
    }
    // A quarter of the room, and the one that passes it.
    assert_eq!(codes, BTreeMap::from([("backlog", 14), ("store_unavailable", 6)]));
    assert!(bench.broker.backlog_bytes() <= ROOM_JOBS * JOB_BYTES / 4 + 1_100);
    let edit = bench.engine.update(leases[19].job.id.into(), Patch { priority: Some(1), ..Patch::default() });
    assert_eq!(edit.await.unwrap_err().code(), "backlog");
    assert!(!bench.engine.health().ready);
    bench.ledger.set_away(false);
    pass(Duration::from_secs(3)).await;
    pass(Duration::from_secs(3)).await;
    for lease in &leases {
        let again = bench.settle(lease, Outcome::complete(Some(result.clone().into()))).await;
        assert_eq!(again, Ok(State::Succeeded), "none was lost");
    }
    assert_eq!(bench.broker.backlog_bytes(), 0);
}

/// The ledger records them, whatever else is wrong.
#[tokio::test(start_paused = true)]
async fn outcomes_on_their_way_to_the_ledger_are_no_backlog() {
    let bench = Bench::bounded().await;
    bench.push_to("default", 20).await;
    let leases = bench.reserve(20, Duration::ZERO).await;
    let result: Arc<[u8]> = vec![b'1'; 1_000].into();
    let finish = |lease: &Lease| {
        let finish = Finish { result: Some(result.clone()), ..Finish::new(Stage::Succeeded) };
        Settle::new(lease.job.receipt(), Decision::Finish(finish))
    };
    bench.broker.settle(leases[..10].iter().map(finish).collect()).await.unwrap();
    assert!(bench.broker.backlog_bytes() > ROOM_JOBS * JOB_BYTES / 4);
    bench.engine.set_degraded(DegradedCode::Deliveries, Some("a receiver is down"));
    assert!(!bench.engine.health().degraded.is_empty() && bench.engine.health().ready);
    let outcome = Outcome::complete(Some(result.clone()));
    assert_eq!(bench.settle(&leases[10], outcome).await, Ok(State::Succeeded));
    bench.push(job()).await;
    assert_eq!(bench.reserve(1, Duration::ZERO).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_has_drained_is_put_at_once_again() {
    let bench = Bench::bounded().await;
    bench.push_to("default", 1_000).await;
    assert_eq!(bench.run_all("default").await.len(), 1_000);
    pass(Duration::from_secs(1)).await;
    let fresh = bench.push(job()).await;
    assert!(bench.broker.get(&[fresh.id], Detail::Whole).await.unwrap()[0].is_some());
}
