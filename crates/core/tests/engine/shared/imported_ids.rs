//! Jobs whose ids imported jobs have taken: nothing but the id tells the two apart.

use super::{DONE, Node, World, far, seconds};
use crate::engine::fixture::{job, moves_to};
use duetime_core::engine::Outcome;
use duetime_core::json::{Span, Timestamp};
use duetime_core::ports::{InboxRow, Ledger, Retention};
use duetime_core::rules::Failure;
use duetime_core::testing::mortal::When;
use duetime_core::{Job, JobId, Schedule, Timing};
use std::time::Duration;

/// More ids than a process has allotted at once.
const TAKEN: u64 = 300;
/// Seconds after which others have done what a dead process had begun.
const LATER: u64 = 40;

fn failed() -> Outcome {
    Outcome::Fail(Failure { message: "no".into(), is_final: true, retry_after: None })
}

/// A job that moves when it fails, leased. Imported jobs have the next ids of its node. They are in the queue of what is to
/// be pushed there, and were made in this millisecond.
async fn about_to_move(node: &Node, importer: &Node) -> Job {
    let plain = importer.push(far()).await;
    node.push(moves_to("default")).await;
    let leased = importer.lease().await;
    let imported = |n: u64| Job {
        id: JobId::in_partition(leased.id.sequence() + n, leased.id.partition()),
        kind: "imported".into(),
        created_at: Timestamp(importer.engine.now()),
        ..plain.clone()
    };
    let ids = importer.engine.import((1..=TAKEN).map(imported).collect()).await.unwrap();
    assert!(ids.into_iter().all(|imported| imported.unwrap().is_new));
    leased
}

#[tokio::test(start_paused = true)]
async fn no_producer_loses_a_job_whose_id_an_imported_job_has() {
    for producer in ["push", "tick", "inbox", "moved"] {
        let (world, leader, _other) = World::with_two().await;
        let engine = &leader.engine;
        let leased = about_to_move(&leader, &leader).await;
        let calls = || leader.life.calls("record") + leader.life.calls("admit");
        let before = calls();
        match producer {
            "push" => drop(leader.push(job()).await),
            "tick" => {
                let start = Some(engine.now() + 3_000);
                let schedule =
                    Schedule { start: start.map(Timestamp), ..Schedule::new(Timing::Every(Span(3_600_000)), job()) };
                drop(engine.set_schedule("tick", schedule).await.unwrap());
            }
            "inbox" => {
                let row = InboxRow { queue: "default".into(), kind: "k".into(), ..InboxRow::default() };
                world.ledger.insert(row);
            }
            _ => drop(leader.settle(leased.receipt(), failed()).await.unwrap()),
        }
        seconds(6).await;
        let made = leader.leases().await;
        assert!(made.len() == 1 && &*made[0].kind != "imported", "{producer}: {made:?}");
        let imported = world.ledger.jobs().into_iter().filter(|job| &*job.kind == "imported");
        assert_eq!(imported.count() as u64, TAKEN, "{producer}");
        assert!(calls() <= before + 2, "{producer}: it does not try one id after the other");
    }
}

/// The copy's new id and the end of the moved job are recorded together. So there is one copy, and none comes back that has
/// ended and been pruned since.
#[tokio::test(start_paused = true)]
async fn a_copy_gets_its_new_id_once_whoever_dies() {
    let verbs = ["apply", "allot", "put", "forget"];
    for (verb, when) in verbs.into_iter().flat_map(|verb| [(verb, When::Before), (verb, When::After)]) {
        let (world, leader, other) = World::with_two().await;
        let leased = about_to_move(&other, &leader).await;
        other.life.die_at(verb, when);
        other.settle_unheard(leased.receipt(), failed()).await;
        let mut copies = leader.leases().await;
        if copies.is_empty() {
            seconds(LATER).await;
            copies = leader.leases().await;
        }
        assert!(copies.len() == 1 && &*copies[0].kind != "imported", "{verb}, {when:?}: {copies:?}");
        leader.settle(copies[0].receipt(), DONE).await.unwrap();
        let retention = Retention { succeeded: Span(0), failed: Span(u64::MAX) };
        assert_eq!(world.ledger.prune(retention, leader.engine.now() + 1, 10).await, Ok(1));
        seconds(LATER).await;
        assert!(leader.leases().await.is_empty(), "{verb}, {when:?}: made twice");
        let (moved, backlog) = (world.row(leased.id), leader.engine.health().backlog);
        assert!(!moved.is_pending() && backlog == 0, "{verb}, {when:?}: {moved:?}");
    }
}

/// The first one stands still before it has another id, and the leader records the entry meanwhile.
#[tokio::test(start_paused = true)]
async fn two_nodes_that_record_a_move_make_one_copy() {
    for verb in ["allot", "apply"] {
        let (world, leader, other) = World::with_two().await;
        let leased = about_to_move(&other, &leader).await;
        other.life.freeze_at(verb, When::Before, Duration::from_secs(10));
        let (engine, receipt) = (other.engine.clone(), leased.receipt());
        let settled = tokio::spawn(async move { engine.settle(vec![(receipt, failed())]).await });
        seconds(5).await;
        assert!(!world.row(leased.id).is_pending(), "{verb}: the leader has recorded it");
        let copies = leader.leases().await;
        assert_eq!(copies.len(), 1, "{verb}");
        seconds(LATER).await;
        settled.await.unwrap().remove(0).unwrap();
        assert!(leader.leases().await.is_empty(), "{verb}");
        let made = world.ledger.jobs().into_iter().filter(|job| &*job.queue == "default" && &*job.kind != "imported");
        // With the plain job of the import.
        assert_eq!(made.count(), 2, "{verb}");
    }
}
