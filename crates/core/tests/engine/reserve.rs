//! Waiting, waking, taking.

use super::fixture::{Bench, job, pass, request};
use duetime_core::api::{self, Span};
use duetime_core::engine::Pause;
use duetime_core::engine::{JobRef, Query, QueueSettings, ReserveRequest, Source, TakeRequest};
use duetime_core::json::Timestamp;
use duetime_core::ports::{Broker, BrokerClock, Ledger, Put, Rate, Room};
use duetime_core::{Due, Error, JobId, NewJob, State};
use std::time::Duration;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_waiting_reserve_gets_the_job_when_it_is_due() {
    let bench = Bench::new().await;
    let pushed = bench.push(NewJob { due: Due::After(Span(5_000)), ..job() }).await;
    let begin = Instant::now();
    let leases = bench.reserve(1, 30 * SECOND).await;
    assert_eq!(leases[0].job.id, pushed.id);
    let waited = begin.elapsed();
    assert!((5 * SECOND..=5 * SECOND + Duration::from_millis(2)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reserve_on_an_empty_queue_waits_as_long_as_it_was_told() {
    let bench = Bench::new().await;
    let begin = Instant::now();
    assert!(bench.reserve(1, 20 * SECOND).await.is_empty());
    assert_eq!(begin.elapsed().as_secs(), 20);
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reserve_asks_the_broker_once_and_again_when_it_is_woken() {
    let bench = Bench::new().await;
    let waiter = bench.waiter(60 * SECOND).await;
    bench.push(NewJob { queue: "other".into(), ..job() }).await;
    pass(30 * SECOND).await;
    assert_eq!(bench.life.calls("reserve"), 1);
    bench.push(job()).await;
    assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
    assert_eq!(bench.life.calls("reserve"), 2);
    // One that does not wait, or finds something, asks once.
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    bench.push(job()).await;
    assert_eq!(bench.reserve(1, SECOND).await.len(), 1);
    assert_eq!(bench.life.calls("reserve"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_reserve_that_is_woken_as_its_wait_ends_asks_once_more() {
    let bench = Bench::new().await;
    let waiter = bench.waiter(5 * SECOND).await;
    let new = job().accept(JobId::new(1).unwrap(), bench.engine.now(), 1_000).unwrap();
    // When the waiter runs, it has been woken and its wait is over.
    let put = async { bench.broker.put(vec![new], bench.broker.reading(), Room::Any).await };
    let (put, ()) = tokio::join!(put, tokio::time::advance(5 * SECOND));
    assert_eq!(put.unwrap(), [Put::Held]);
    assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_noted_without_a_look_at_the_job() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let lease = bench.lease().await;
    let extended = bench.engine.extend(vec![(lease.job.receipt(), Some(120_000))]).await.remove(0).unwrap();
    let row = bench.ledger.get(&[lease.job.id]).await.unwrap().remove(0).unwrap();
    assert_eq!(row.lease_until, Some(extended.lease_until));
    assert_eq!(bench.life.calls("get"), 0);
}

#[tokio::test(start_paused = true)]
async fn however_many_wait_each_job_goes_to_one() {
    let bench = Bench::new().await;
    let mut waiters = Vec::new();
    for _ in 0..100 {
        waiters.push(bench.waiter(60 * SECOND).await);
    }
    bench.engine.push((0..30).map(|_| job()).collect()).await.unwrap();
    bench.engine.push((0..30).map(|_| NewJob { due: Due::After(Span(1_000)), ..job() }).collect()).await.unwrap();
    pass(2 * SECOND).await;
    let done = waiters.iter().filter(|waiter| waiter.is_finished()).count();
    assert_eq!(done, 60);
    for waiter in waiters.into_iter().filter(|waiter| waiter.is_finished()) {
        assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_went_away_is_handed_nothing() {
    let bench = Bench::new().await;
    let gone = bench.waiter(60 * SECOND).await;
    let stays = bench.waiter(60 * SECOND).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let pushed = bench.push(job()).await;
    let reservation = stays.await.unwrap().unwrap();
    assert_eq!(reservation.leases[0].job.id, pushed.id);
    assert_eq!(reservation.leases[0].job.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_as_it_is_woken_passes_the_job_on() {
    let bench = Bench::new().await;
    let gone = bench.waiter(60 * SECOND).await;
    let stays = bench.waiter(60 * SECOND).await;
    // The push rings before its own answer comes; the first waiter is gone before it can look.
    let engine = bench.engine.clone();
    let push = tokio::spawn(async move { engine.push(vec![job()]).await });
    gone.abort();
    push.await.unwrap().unwrap();
    assert_eq!(stays.await.unwrap().unwrap().leases.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_leased_for_a_caller_that_goes_away_meanwhile_is_given_back() {
    let bench = Bench::new().await;
    let pushed = bench.push(job()).await;
    bench.life.freeze(SECOND);
    let gone = bench.waiter(Duration::ZERO).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    pass(2 * SECOND).await;
    let job = bench.engine.job(pushed.id).await.unwrap();
    assert!(job.version > pushed.version, "it was leased");
    assert_eq!((job.lease_until, bench.lease().await.job.attempt), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_claimed_is_given_back_unless_the_request_may_be_repeated() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let plain = request(1, Duration::ZERO);
    drop(bench.engine.reserve_unclaimed(plain.clone()).await.unwrap());
    pass(SECOND).await;
    let named = ReserveRequest { request_id: Some("a".into()), ..plain };
    let first = bench.engine.reserve_unclaimed(named.clone()).await.unwrap();
    drop(first);
    pass(SECOND).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    let again = bench.engine.reserve_unclaimed(named).await.unwrap();
    again.give_back().await;
    assert_eq!(bench.lease().await.job.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_beyond_the_horizon_is_not_in_memory_and_yet_on_time() {
    let bench = Bench::new().await;
    let pushed = bench.push(NewJob { due: Due::After(Span(5 * 3_600_000)), ..job() }).await;
    assert_eq!(bench.queue("default").await.counts.scheduled, 1);
    let listing = Query { queue: Some("default".into()), state: vec![State::Scheduled].into(), ..Query::default() };
    let found = bench.engine.find(&listing, None, 10).await.unwrap();
    assert_eq!(found.jobs[0].id, pushed.id);
    let begin = Instant::now();
    let lease = loop {
        if let Some(lease) = bench.reserve(1, 60 * SECOND).await.pop() {
            break lease;
        }
    };
    assert_eq!(lease.job.id, pushed.id);
    let waited = begin.elapsed();
    assert!((5 * 3_600 * SECOND..5 * 3_600 * SECOND + Duration::from_millis(3)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_forward_makes_due_and_one_set_back_makes_nothing_early() {
    let bench = Bench::new().await;
    bench.push(NewJob { due: Due::After(Span(1_800_000)), ..job() }).await;
    let waiter = bench.waiter(60 * SECOND).await;
    bench.clock.step_wall(3_600_000);
    pass(SECOND).await;
    let lease = waiter.await.unwrap().unwrap().leases.pop().unwrap();
    assert!(lease.job.due_at <= Timestamp(bench.engine.now()));

    bench.push(NewJob { due: Due::After(Span(1_000)), ..job() }).await;
    bench.clock.step_wall(-3_600_000);
    pass(30 * SECOND).await;
    assert!(bench.reserve(1, SECOND).await.is_empty());
    pass(Duration::from_secs(3_600)).await;
    assert_eq!(bench.reserve(1, SECOND).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stepped_clock_ends_no_lease() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let lease = bench.lease().await;
    bench.clock.step_wall(3_600_000);
    pass(30 * SECOND).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    assert_eq!(bench.complete(&lease).await.unwrap(), State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_hands_out_nothing_until_it_is_resumed() {
    let bench = Bench::new().await;
    bench.engine.pause("default", Pause::UntilResumed).await.unwrap();
    bench.push(job()).await;
    let waiter = bench.waiter(60 * SECOND).await;
    pass(SECOND).await;
    assert!(!waiter.is_finished());
    bench.engine.resume("default").await.unwrap();
    pass(Duration::ZERO).await;
    assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_by_itself() {
    let bench = Bench::new().await;
    let now = bench.engine.now();
    let eleven_years = 11 * 366 * 86_400_000;
    for wrong in [now, now - 1, now + eleven_years]
        .map(|at| Pause::Until(api::Timestamp(at)))
        .into_iter()
        .chain([0, eleven_years].map(|ms| Pause::For(Span(ms))))
    {
        assert_eq!(bench.engine.pause("default", wrong).await.unwrap_err().code(), "invalid", "{wrong:?}");
    }
    assert_eq!(
        bench.engine.pause("default", Pause::For(Span(1))).await.unwrap().paused_until,
        Some(Timestamp(now + 1))
    );
    let paused = bench.engine.pause("default", Pause::For(Span(30_000))).await.unwrap();
    assert_eq!((paused.paused, paused.paused_until), (true, Some(Timestamp(now + 30_000))));
    bench.push(job()).await;
    let waiter = bench.waiter(60 * SECOND).await;
    pass(Duration::from_millis(29_999)).await;
    assert!(!waiter.is_finished());
    pass(Duration::from_millis(1)).await;
    assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
    let settings = bench.engine.queue("default").await.unwrap().settings;
    assert_eq!((settings.paused, settings.paused_until), (false, None));
}

/// The last word counts.
#[tokio::test(start_paused = true)]
async fn a_longer_pause_takes_the_place_of_a_shorter() {
    let bench = Bench::new().await;
    let now = bench.engine.now();
    bench.engine.pause("default", Pause::Until(api::Timestamp(now + 1_000))).await.unwrap();
    bench.engine.pause("default", Pause::UntilResumed).await.unwrap();
    pass(60 * SECOND).await;
    assert!(bench.engine.queue("default").await.unwrap().settings.paused);
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_queue_hold_and_who_waits_goes_on() {
    let bench = Bench::new().await;
    let settings = QueueSettings { max_running: Some(1), ..QueueSettings::default() };
    bench.engine.configure("default", settings).await.unwrap();
    bench.push(job()).await;
    bench.push(job()).await;
    let first = bench.reserve(10, Duration::ZERO).await;
    assert_eq!(first.len(), 1);
    let waiter = bench.waiter(60 * SECOND).await;
    pass(SECOND).await;
    assert!(!waiter.is_finished());
    bench.complete(&first[0]).await.unwrap();
    pass(Duration::ZERO).await;
    let second = waiter.await.unwrap().unwrap().leases;
    assert_eq!(second.len(), 1);
    // Its worker crashes: the engine ends its lease, and there is room again, a second before the wait ends.
    pass(SECOND).await;
    let waiter = bench.waiter(60 * SECOND).await;
    bench.push(job()).await;
    pass(58 * SECOND).await;
    assert!(!waiter.is_finished());
    pass(2 * SECOND).await;
    assert_eq!(waiter.await.unwrap().unwrap().leases.len(), 1);
}

/// Waiting callers get jobs one by one, at the queue's rate.
#[tokio::test(start_paused = true)]
async fn the_rate_of_a_queue_holds_for_who_waits() {
    let bench = Bench::new().await;
    let rate = Some(Rate { per_second: 10.0, burst: Some(1) });
    bench.engine.configure("default", QueueSettings { rate, ..QueueSettings::default() }).await.unwrap();
    for _ in 0..5 {
        bench.push(job()).await;
    }
    let start = bench.engine.now();
    for n in 0..5 {
        let leases = bench.reserve(10, 60 * SECOND).await;
        assert_eq!((leases.len(), bench.engine.now() - start), (1, n * 100));
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_finishes_what_it_hands_out() {
    let bench = Bench::new().await;
    let early = bench.push(job()).await;
    pass(SECOND).await;
    let late = bench.push(job()).await;
    let mut take = TakeRequest {
        from: Source::Queues(vec!["default".into()]),
        limit: 10,
        due_from: Some(late.due_at),
        due_to: None,
        request_id: None,
    };
    let taken = bench.engine.take(take.clone()).await.unwrap();
    assert_eq!(taken.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [late.id]);
    let job = bench.engine.job(late.id).await.unwrap();
    assert_eq!((job.state(0), job.message.as_deref()), (State::Succeeded, Some("taken")));
    assert_eq!(bench.state(early.id).await, State::Ready);

    take.due_to = Some(Timestamp(bench.engine.now() + 1));
    assert_eq!(bench.engine.take(take.clone()).await.unwrap_err().code(), "invalid");

    let stale = JobRef { id: early.id, version: Some(early.version + 1) };
    let named = TakeRequest { from: Source::Jobs(vec![stale]), due_from: None, due_to: None, ..take };
    let reservation = bench.engine.take(named).await.unwrap();
    assert!(reservation.leases.is_empty());
    assert!(matches!(reservation.refused[..], [(_, Error::VersionMismatch { .. })]), "{:?}", reservation.refused);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_engine_lets_waiters_go() {
    let bench = Bench::new().await;
    let waiter = bench.waiter(60 * SECOND).await;
    bench.engine.stop().await.unwrap();
    assert!(waiter.await.unwrap().unwrap().leases.is_empty());
    assert_eq!(bench.engine.push(vec![job()]).await.unwrap_err(), Error::Stopping);
    assert_eq!(bench.engine.reserve(request(1, SECOND)).await.unwrap_err(), Error::Stopping);
}
