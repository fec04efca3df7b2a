//! Exports of what a broker and a ledger have together.

use super::super::fixture::{job, moves_to};
use super::{Node, World, seconds};
use duetime_core::engine::{Export, Outcome};
use duetime_core::rules::Failure;
use duetime_core::testing::mortal::Life;
use duetime_core::{Job, NewJob, Retry, State, WhenExhausted};

impl World {
    /// Everything, sorted by queue, with the state of each job.
    async fn exported(&self) -> Vec<(String, State, Job)> {
        let (mut export, mut jobs) = (Export::begin(self.stores(Life::plain())).await.unwrap(), Vec::new());
        let now = export.now();
        while let Some(page) = export.page().await.unwrap() {
            jobs.extend(page.into_iter().map(|job| (job.queue.to_string(), job.state(now), job)));
        }
        jobs.sort_by(|a, b| a.0.cmp(&b.0));
        jobs
    }
}

pub(super) fn fails() -> Outcome {
    Outcome::Fail(Failure { message: "no".into(), is_final: true, retry_after: None })
}

pub(super) fn dropped() -> NewJob {
    let when_exhausted = Some(WhenExhausted::Drop);
    NewJob { queue: "first".into(), options: Retry { when_exhausted, ..Retry::default() }.into(), ..job() }
}

/// The database is away when jobs are moved and dropped, and the only server is killed before it is back.
#[tokio::test(start_paused = true)]
async fn an_export_has_what_a_rule_moved_and_the_ledger_did_not_record() {
    let (world, leader) = World::with_leader().await;
    for new in [moves_to("second"), dropped()] {
        leader.push(new).await;
    }
    let leased = leader.leases().await;
    assert_eq!(leased.len(), 2);
    world.ledger.set_away(true);
    for job in leased {
        leader.settle(job.receipt(), fails()).await.unwrap();
    }
    leader.life.die();
    world.ledger.set_away(false);
    assert!(world.ledger.jobs().iter().all(Job::is_pending), "nothing is recorded");

    let exported = world.exported().await;
    let [(first, State::Failed, _), (second, State::Ready, copy)] = &exported[..] else { panic!("{exported:?}") };
    assert_eq!((&**first, &**second, &*copy.payload), ("first", "second", &b"payload"[..]));
    let copy = copy.id;
    // Once a server runs, the ledger has the same.
    let node: Node = world.node().await;
    seconds(10).await;
    let recorded = world.exported().await;
    assert_eq!(recorded.len(), 2);
    assert_eq!((recorded[1].2.id, recorded[1].1), (copy, State::Ready));
    drop(node);
}
