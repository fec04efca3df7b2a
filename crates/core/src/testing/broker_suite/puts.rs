//! Puts of jobs.

use super::Subject;
use crate::model::job::{Job, Stage, State};
use crate::ports::{Broker, Change, Put, Room, Update};
use crate::testing::fixtures::{T0, due, id, job, success};

/// The second put of the same job changes nothing.
pub async fn a_put_is_idempotent(s: Subject) {
    s.hold(&[job(1), job(1)]).await;
    s.hold(&[job(1)]).await;
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// The job is held already.
pub async fn an_older_version_changes_nothing(s: Subject) {
    let later = Job { version: T0 + 5, ..due(1, T0 + 500) };
    s.hold(std::slice::from_ref(&later)).await;
    s.hold(&[job(1)]).await;
    assert_eq!(s.get(id(1)).await, Some(later));
    assert_eq!(s.handed_out(10).await, []);
}

/// It also replaces a waiting job's due time.
pub async fn a_newer_version_replaces(s: Subject) {
    s.hold(&[due(1, T0 + 500), job(2)]).await;
    s.hold(&[Job { version: T0 + 5, ..job(1) }, Job { version: T0 + 5, ..due(2, T0 + 500) }]).await;
    assert_eq!(s.handed_out(10).await, [id(1)]);
    s.pass(500);
    assert_eq!(s.handed_out(10).await, [id(2)]);
}

/// Its lease goes on, whatever a reading says.
pub async fn a_running_job_stays(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    s.hold(&[job(1)]).await;
    assert_eq!(s.handed_out(1).await, []);
    assert_eq!(s.settle(running.receipt(), success()).await, Some(State::Succeeded));
}

/// It must be read again.
pub async fn a_reading_can_be_too_old(s: Subject) {
    let reading = s.broker.reading();
    s.pass(<dyn Broker>::READ_AGE_MS_MAX);
    assert_eq!(s.broker.put(vec![job(1)], reading, Room::Any).await.unwrap(), [Put::Held]);
    s.pass(1);
    assert_eq!(s.broker.put(vec![job(2)], reading, Room::Any).await.unwrap(), [Put::Stale]);
    assert_eq!(s.get(id(2)).await, None);
}

/// However it ended: an earlier reading does not revive it.
pub async fn an_ended_job_leaves_a_tombstone(s: Subject) {
    s.hold(&[job(1), job(2), job(3)]).await;
    let running = s.one().await;
    s.settle(running.receipt(), success()).await;
    s.edit(id(2), crate::testing::fixtures::cancel()).await;
    s.edit(id(3), Change::Delete).await;
    assert_eq!(s.put(&[job(1), job(2), job(3)]).await, [Put::Tombstone; 3]);
    for entry in s.outcomes().await {
        s.forget(entry.job().id, entry.job().version).await;
    }
    assert_eq!(s.put(&[job(1), job(2), job(3)]).await, [Put::Tombstone; 3], "the reading may still be on its way");
    assert_eq!(s.handed_out(10).await, []);
}

/// A reading that began just before the ledger had the end is put a little later.
pub async fn an_ended_job_leaves_a_tombstone_however_late_it_is_noted(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let ended = s.settled(running.receipt(), success()).await.entries.remove(0);
    s.pass(60_000);
    let reading = s.broker.reading();
    s.forget(id(1), ended.job().version).await;
    s.pass(<dyn Broker>::READ_AGE_MS_MAX);
    assert_eq!(s.broker.put(vec![job(1)], reading, Room::Any).await.unwrap(), [Put::Tombstone]);
    assert_eq!(s.handed_out(10).await, []);
}

/// A job that was moved beyond the watermark is not put by a reading from before, which would run it early.
pub async fn a_job_let_go_is_not_put_as_it_was(s: Subject) {
    s.hold(&[due(1, T0 + 10)]).await;
    let reading = s.broker.reading();
    let year = T0 + 365 * crate::limits::DAY_MS;
    let later = Change::Update(Update { due_at: Some(year), ..Update::default() });
    s.edit(id(1), later).await;
    let moved = s.get(id(1)).await.unwrap();
    s.broker.set_watermark(T0 + 1).await.unwrap();
    s.broker.forget(&[(id(1), moved.version)], T0 + 3_600_000).await.unwrap();
    assert_eq!(s.get(id(1)).await, None, "it is beyond the watermark");
    s.pass(1_000);
    assert_eq!(s.broker.put(vec![due(1, T0 + 10)], reading, Room::Any).await.unwrap(), [Put::Tombstone]);
    assert_eq!(s.put(&[moved]).await, [Put::Held], "the row as it is now may come");
}

/// Its version is above the tombstone.
pub async fn a_job_retried_by_hand_is_held(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let ended = s.settled(running.receipt(), success()).await.entries.remove(0).job().clone();
    s.forget(id(1), ended.version).await;
    let retried = Job { stage: Stage::Pending, attempt: 0, version: ended.version + 1, finished_at: None, ..ended };
    s.hold(&[retried]).await;
    assert!(s.one().await.epoch > running.epoch);
}
