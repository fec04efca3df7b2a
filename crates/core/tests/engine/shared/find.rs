//! Searches by state over many queues, before and after the ledger has recorded the end of jobs.

use super::super::fixture::{job, moves_to, pass};
use super::exports::{dropped, fails};
use super::{DONE, Node, World, far, request, seconds};
use duetime_core::engine::{BulkAction, Outcome, Query, ReserveRequest, Source};
use duetime_core::rules::Failure;
use duetime_core::testing::mortal::When;
use duetime_core::{Error, JobId, NewJob, State};
use std::time::Duration;

const QUEUES: usize = 250;
/// In steps of this many queues there are failed, succeeded and running jobs.
const BUSY_EACH: usize = 7;

/// All ids that a search finds, page by page, and the number of pages.
async fn found(node: &Node, states: &[State], limit: usize) -> (Vec<JobId>, usize) {
    let query = Query { state: states.to_vec().into(), ..Query::default() };
    let (mut ids, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let listed = node.engine.find(&query, cursor.as_deref(), limit).await.unwrap();
        assert!(listed.jobs.len() <= limit);
        ids.extend(listed.jobs.iter().map(|job| job.id));
        pages += 1;
        match listed.next_cursor {
            Some(next) => cursor = Some(next),
            None => return (ids, pages),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_by_state_finds_each_job_once_and_skips_queues_without_any() {
    let (world, leader, other) = World::with_two().await;
    let queue = |n: usize| format!("q{n:03}");
    let jobs = (0..QUEUES).flat_map(|n| {
        let of_queue = move |job: NewJob| NewJob { queue: queue(n).into(), ..job };
        let now = if n % BUSY_EACH == 0 { 3 } else { 0 };
        (0..4).map(move |_| of_queue(far())).chain((0..now).map(move |_| of_queue(job())))
    });
    for pushed in leader.engine.push(jobs.collect()).await.unwrap() {
        pushed.unwrap();
    }
    let [mut failed, mut succeeded, mut running] = [(); 3].map(|()| Vec::new());
    let mut outcomes = Vec::new();
    for n in (0..QUEUES).step_by(BUSY_EACH) {
        let from = Source::Queues(vec![queue(n).into()]);
        let reservation = other.engine.reserve(ReserveRequest { from, ..request(3, Duration::ZERO) }).await.unwrap();
        let receipts: Vec<_> = reservation.leases.iter().map(|lease| lease.job.receipt()).collect();
        let [first, second, third] = receipts.try_into().unwrap();
        let failure = Failure { message: "no".into(), is_final: true, retry_after: None };
        outcomes.extend([(first, Outcome::Fail(failure)), (second, DONE)]);
        failed.push(first.id);
        succeeded.push(second.id);
        running.push(third.id);
    }
    other.life.die_at("apply", When::Before);
    let engine = other.engine.clone();
    tokio::spawn(async move { engine.settle(outcomes).await });
    pass(Duration::from_millis(1)).await;
    assert!(failed.iter().chain(&succeeded).all(|&id| world.row(id).is_pending()), "the ledger does not know yet");
    for is_recorded in [false, true] {
        for (states, expected) in [(State::Failed, &failed), (State::Succeeded, &succeeded), (State::Running, &running)]
        {
            // A page that has no room for all that is not recorded, and one that has.
            for limit in [10, 100] {
                let (mut ids, pages) = found(&leader, &[states], limit).await;
                // They ended at one instant.
                assert!(states == State::Running || ids.is_sorted_by(|one, next| one > next), "{states}: {ids:?}");
                ids.sort_unstable();
                let is_looked_for = !is_recorded && limit < expected.len() && states != State::Running;
                assert!(is_looked_for || pages <= ids.len() / limit + 2, "{states}, {limit}: {pages} pages");
                assert_eq!(ids, *expected, "{states}, {limit}, {is_recorded}");
            }
        }
        let (scheduled, pages) = found(&leader, &[State::Scheduled], 100).await;
        assert_eq!(scheduled.len(), 4 * QUEUES);
        assert!(pages <= 4 * QUEUES / 100 + 1, "{pages}");
        seconds(5).await;
    }
    assert!(failed.iter().all(|&id| !world.row(id).is_pending()));
}

#[tokio::test(start_paused = true)]
async fn the_newest_end_comes_first_recorded_or_not() {
    let (world, leader, other) = World::with_two().await;
    let mut ended = Vec::new();
    for is_recorded in [true, true, false] {
        leader.push(job()).await;
        let receipt = other.lease().await.receipt();
        if !is_recorded {
            other.life.die_at("apply", When::Before);
        }
        let engine = other.engine.clone();
        tokio::spawn(async move { engine.settle(vec![(receipt, DONE)]).await });
        pass(Duration::from_millis(5)).await;
        assert_eq!(world.row(receipt.id).is_pending(), !is_recorded);
        ended.insert(0, receipt.id);
    }
    for limit in [1, 2, 10] {
        assert_eq!(found(&leader, &[State::Succeeded], limit).await.0, ended, "pages of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_recorded_during_a_search_is_found() {
    let (world, leader, other) = World::with_two().await;
    let id = leader.push(job()).await.id;
    let receipt = other.lease().await.receipt();
    other.life.die_at("apply", When::Before);
    other.settle_unheard(receipt, DONE).await;
    assert!(world.row(id).is_pending(), "the ledger does not know yet");
    // The leader records it after the row was read.
    let reader = world.node().await;
    reader.life.freeze_at("find", When::After, Duration::from_secs(60));
    let query = Query { queue: Some("default".into()), state: vec![State::Succeeded].into(), ..Query::default() };
    let counts = reader.engine.bulk(&query, BulkAction::Delete).await.unwrap();
    assert_eq!(counts, [("deleted", 1)].into());
}

#[tokio::test(start_paused = true)]
async fn what_a_rule_made_of_a_job_is_found_before_it_is_recorded() {
    let (world, leader, other) = World::with_two().await;
    let moved = leader.push(moves_to("second")).await;
    let gone = leader.push(dropped()).await;
    let outcomes = other.leases().await.iter().map(|job| (job.receipt(), fails())).collect();
    other.life.die_at("apply", When::Before);
    let engine = other.engine.clone();
    tokio::spawn(async move { engine.settle(outcomes).await });
    pass(Duration::from_millis(1)).await;
    for is_recorded in [false, true] {
        assert_eq!(world.row(moved.id).is_pending(), !is_recorded);
        let listed = |queue: &str| Query { queue: Some(queue.into()), ..Query::default() };
        let of = async |query: Query| leader.engine.find(&query, None, 10).await.unwrap().jobs;
        let first: Vec<JobId> = of(listed("first")).await.iter().map(|job| job.id).collect();
        assert_eq!(first, [moved.id], "{is_recorded}");
        let copies = of(listed("second")).await;
        assert_eq!(copies.len(), 1, "{is_recorded}");
        let ready = vec![State::Ready].into();
        assert_eq!(of(Query { state: ready, ..listed("second") }).await, copies, "{is_recorded}");
        assert_eq!(leader.engine.job(gone.id).await, Err(Error::NotFound(gone.id)), "{is_recorded}");
        seconds(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_search_is_refused() {
    let (_world, leader) = World::with_leader().await;
    leader.push(job()).await;
    leader.push(job()).await;
    let query = Query { queue: Some("default".into()), ..Query::default() };
    let next = leader.engine.find(&query, None, 1).await.unwrap().next_cursor.unwrap();
    let (list, _) = next.split_once('-').unwrap();
    for place in ["q-1-qq-1-aa-0-", "q-9-a", "n-1-1-1"] {
        let cursor = format!("{list}-{place}");
        let error = leader.engine.find(&query, Some(&cursor), 10).await.unwrap_err();
        assert_eq!(error.code(), "invalid", "{cursor}");
    }
}
