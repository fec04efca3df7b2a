//! Callers that reserve more jobs than they can start at once.

use super::fixture::{Bench, job, pass, request};
use duetime_core::api::Span;
use duetime_core::engine::{QueueSettings, ReserveRequest, Source};
use duetime_core::ports::{Broker, Pick, Rate, Reserve};
use duetime_core::{JobId, NewJob, Receipt, Retry, State};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);
/// A rule after whose first attempt there is no other.
const ONCE: Retry = Retry::INHERITED.max_attempts(1);
const CRASHES_ONCE: Retry = Retry::INHERITED.max_crashes(1);

/// A reserve of at most `limit` jobs, of which the caller can start `free` at once.
fn ahead(limit: usize, free: usize) -> ReserveRequest {
    request(limit, Duration::ZERO).free(free)
}

/// A job that has this rule.
fn with(rule: Retry) -> NewJob {
    NewJob { options: rule.into(), ..job() }
}

/// A queue with this many jobs, whose rule this is.
async fn queue_of(count: usize, rule: Retry) -> Bench {
    let bench = Bench::new().await;
    bench.engine.configure("default", QueueSettings::default().with_rule(rule)).await.unwrap();
    bench.engine.push((0..count).map(|_| job()).collect()).await.unwrap();
    bench
}

impl Bench {
    async fn reserve_ahead(&self, request: ReserveRequest) -> Vec<Receipt> {
        let reservation = self.engine.reserve(request).await.unwrap();
        reservation.leases.iter().map(|lease| lease.job.receipt()).collect()
    }

    async fn failed(&self) -> u64 {
        self.queue("default").await.tally.failed
    }
}

fn ids(receipts: &[Receipt]) -> Vec<JobId> {
    receipts.iter().map(|receipt| receipt.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_killed_caller_ends_no_job_that_it_could_not_start() {
    for rule in [ONCE, CRASHES_ONCE] {
        let bench = queue_of(50, rule).await;
        assert_eq!(bench.reserve_ahead(ahead(50, 2)).await.len(), 2);
        assert_eq!(bench.life.calls("settle"), 0, "nothing is leased to be given back");
        pass(LEASE + Duration::from_secs(1)).await;
        assert_eq!(bench.failed().await, 2);
        let rest = bench.reserve(50, Duration::ZERO).await;
        assert_eq!(rest.len(), 48);
        assert!(rest.iter().all(|lease| lease.job.attempt == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_on_their_last_attempt_are_given_back_and_others_are_not() {
    let bench = Bench::new().await;
    let rules = [ONCE, Retry::INHERITED, CRASHES_ONCE, Retry::INHERITED, Retry::INHERITED];
    let pushed = bench.engine.push((0..50).map(|n| with(rules[n % 5].clone())).collect()).await.unwrap();
    let all: Vec<JobId> = pushed.into_iter().map(|pushed| pushed.unwrap().job.id).collect();
    let is_kept = |n: usize| n < 3 || !matches!(n % 5, 0 | 2);
    let of = |wanted: bool| (0..50).filter(|&n| is_kept(n) == wanted).map(|n| all[n]).collect::<Vec<_>>();
    assert_eq!(ids(&bench.reserve_ahead(ahead(50, 3)).await), of(true));
    // They keep their places, and others may have them at once.
    let others = bench.reserve(50, Duration::ZERO).await;
    assert_eq!(others.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), of(false));
    assert!(others.iter().all(|lease| (lease.job.attempt, lease.job.crashes) == (1, 0)));
    for lease in &others {
        bench.complete(lease).await.unwrap();
    }
    pass(LEASE + Duration::from_secs(1)).await;
    assert_eq!(bench.failed().await, 2, "the caller might have begun these");
    assert_eq!(bench.reserve(50, Duration::ZERO).await.len(), of(true).len() - 2);
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_attempts_is_the_last() {
    let bench = queue_of(10, Retry::INHERITED.max_attempts(2)).await;
    assert_eq!(bench.reserve_ahead(ahead(10, 1)).await.len(), 10);
    pass(LEASE + Duration::from_secs(1)).await;
    assert_eq!(bench.reserve_ahead(ahead(10, 1)).await.len(), 1);
    pass(LEASE + Duration::from_secs(1)).await;
    assert_eq!(bench.failed().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_too_old_once_its_lease_has_ended_is_not_reserved_ahead() {
    let bench = queue_of(10, Retry::INHERITED.max_age(LEASE / 2)).await;
    assert_eq!(bench.reserve_ahead(ahead(10, 1)).await.len(), 1);
    assert_eq!(bench.reserve(10, Duration::ZERO).await.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_gets_what_the_first_request_got() {
    let bench = Bench::new().await;
    bench.engine.push((0..20).map(|n| with(if n % 2 == 0 { ONCE } else { Retry::INHERITED })).collect()).await.unwrap();
    let first = bench.reserve_ahead(ahead(20, 1).request_id("a")).await;
    assert_eq!(first.len(), 11);
    assert_eq!(bench.reserve_ahead(ahead(20, 1).request_id("a")).await, first);
    let lease = bench.reserve(1, Duration::ZERO).await.remove(0);
    assert_eq!(
        bench.reserve_ahead(ahead(20, 1).request_id("a")).await,
        first,
        "another caller has one that was given back"
    );
    bench.complete(&lease).await.unwrap();
}

/// The process that carried out the first request may have died before it gave anything back.
#[tokio::test(start_paused = true)]
async fn a_repeat_gives_back_what_the_first_request_did_not() {
    let bench = Bench::new().await;
    bench.engine.push((0..20).map(|n| with(if n % 2 == 0 { ONCE } else { Retry::INHERITED })).collect()).await.unwrap();
    let pick = Pick::InOrder(vec!["default".into()]);
    let leased = Reserve { request_id: Some("a".into()), ..Reserve::new(pick, 20) };
    assert_eq!(bench.broker.reserve(leased).await.unwrap().leases.len(), 20);
    assert_eq!(bench.reserve_ahead(ahead(20, 1).request_id("a")).await.len(), 11);
    assert_eq!(bench.reserve(20, Duration::ZERO).await.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_goes_to_the_next_caller_that_waits() {
    let bench = Bench::new().await;
    let waiters = [(); 3].map(|()| {
        let engine = bench.engine.clone();
        tokio::spawn(async move { engine.reserve(ahead(10, 1).wait(Span(60_000))).await })
    });
    pass(Duration::ZERO).await;
    bench.engine.push(vec![with(ONCE), with(ONCE), with(ONCE)]).await.unwrap();
    pass(Duration::ZERO).await;
    for waiter in waiters {
        assert!(waiter.is_finished());
        assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
    }
}

/// Else a caller would be handed the same jobs again and again, to give them back.
#[tokio::test(start_paused = true)]
async fn after_most_jobs_were_given_back_nothing_is_leased_ahead_for_a_moment() {
    let bench = Bench::new().await;
    bench.engine.push((0..50).map(|_| with(ONCE)).collect()).await.unwrap();
    for (passes, free, settles) in [(0, 2, 1), (0, 3, 1), (0, 0, 1), (1, 1, 2)] {
        pass(Duration::from_secs(passes)).await;
        assert_eq!(bench.reserve_ahead(ahead(40, free)).await.len(), free);
        assert_eq!(bench.life.calls("settle"), settles, "with {free} free");
    }
    assert_eq!(bench.reserve(50, Duration::ZERO).await.len(), 44);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_can_start_none_gets_what_has_more_attempts_and_does_not_wait() {
    let bench = Bench::new().await;
    bench.engine.push(vec![with(ONCE), job(), with(ONCE)]).await.unwrap();
    assert_eq!(bench.reserve_ahead(ahead(10, 0).wait(Span(60_000))).await.len(), 1);
    let begin = tokio::time::Instant::now();
    assert_eq!(bench.reserve_ahead(ahead(10, 0).wait(Span(60_000))).await, []);
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(bench.reserve(10, Duration::ZERO).await.len(), 2);
}

/// A rate counts each job that is handed out, also one that is given back.
#[tokio::test(start_paused = true)]
async fn a_queue_with_a_rate_loses_nothing_of_it() {
    let bench = Bench::new().await;
    let rate = Some(Rate { per_second: 1.0, burst: Some(10) });
    bench.engine.configure("default", QueueSettings { rate, ..QueueSettings::default() }).await.unwrap();
    pass(Duration::from_secs(20)).await;
    bench.engine.push((0..20).map(|_| with(ONCE)).collect()).await.unwrap();
    assert_eq!(bench.reserve_ahead(ahead(10, 1)).await.len(), 1);
    assert_eq!(bench.reserve(20, Duration::ZERO).await.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn of_several_queues_each_keeps_its_order() {
    let bench = Bench::new().await;
    let of = |queue: &str, rule: Retry| NewJob { queue: queue.into(), ..with(rule) };
    let pushed = bench.engine.push(vec![of("b", ONCE), of("b", Retry::INHERITED), of("a", ONCE), of("a", ONCE)]).await;
    let all: Vec<JobId> = pushed.unwrap().into_iter().map(|pushed| pushed.unwrap().job.id).collect();
    let from = || Source::Queues(vec!["a".into(), "b".into()]);
    let first = bench.reserve_ahead(ReserveRequest { from: from(), ..ahead(10, 1) }).await;
    assert_eq!(ids(&first), [all[2], all[1]]);
    let next = bench.reserve_ahead(ReserveRequest { from: from(), ..ahead(10, 2) }).await;
    assert_eq!(ids(&next), [all[3], all[0]]);
    assert_eq!(bench.state(all[0]).await, State::Running);
}
