//! Wakes of waiting callers.
//!
//! The absence of a wake is shown by the next one: a put into the queue `probe`.

use super::Subject;
use crate::model::job::Job;
use crate::ports::{Change, Limits, Update};
use crate::testing::fixtures::{QUEUE, T0, again, due, edit, id, job, reserve};

/// Whether the queue was woken before a wake that is made now.
async fn was_told(s: &Subject, n: u64) -> bool {
    assert!(s.leases(reserve("probe", 10)).await.len() < 10);
    s.hold(&[Job { queue: "probe".into(), ..due(n, s.now()) }]).await;
    s.told_of("probe").await.iter().any(|queue| &**queue == QUEUE)
}

/// Sooner than the last reserve reported; if that reported nothing, any job is.
pub async fn something_sooner_is_told(s: Subject) {
    assert_eq!(s.reserve(reserve(QUEUE, 1)).await.next_at, None);
    s.hold(&[due(1, T0 + 3_000_000)]).await;
    s.told_of(QUEUE).await;
    s.reserve(reserve(QUEUE, 1)).await;
    s.hold(&[due(2, T0 + 500)]).await;
    s.told_of(QUEUE).await;
    let to = |due_at| Change::Update(Update { due_at: Some(due_at), ..Update::default() });
    s.reserve(reserve(QUEUE, 1)).await;
    s.edit_with_entries(edit(id(1), to(T0 + 20))).await;
    s.told_of(QUEUE).await;
    s.hold(&[job(3)]).await;
    s.told_of(QUEUE).await;
}

/// A waiting caller looks before.
pub async fn something_later_is_not(s: Subject) {
    s.hold(&[due(1, T0 + 500)]).await;
    s.told_of(QUEUE).await;
    s.hold(&[due(2, T0 + 501), due(3, T0 + 3_000_000)]).await;
    assert!(!was_told(&s, 11).await, "it was told of something sooner");
    assert_eq!(s.reserve(reserve(QUEUE, 1)).await.next_at, Some(T0 + 500));
    s.hold(&[due(4, T0 + 501)]).await;
    assert!(!was_told(&s, 12).await, "the reserve said so");
}

/// A reserve uses up a wake that came before: the next job causes another one.
pub async fn a_reserve_says_what_is_known(s: Subject) {
    for n in 1..=3 {
        s.hold(&[job(n)]).await;
        s.told_of(QUEUE).await;
        assert_eq!(s.handed_out(1).await, [id(n)]);
    }
}

/// All changes that make a job wait again wake callers.
pub async fn a_retry_is_told(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    s.told_of(QUEUE).await;
    s.settle(running.receipt(), again(&running, T0)).await;
    s.told_of(QUEUE).await;
}

/// Jobs that became due during the pause are due now.
pub async fn resuming_is_told(s: Subject) {
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    s.hold(&[job(1)]).await;
    assert_eq!(s.handed_out(1).await, []);
    was_told(&s, 11).await;
    s.limit(Limits { paused: false, ..Limits::default() }).await;
    s.told_of(QUEUE).await;
    assert_eq!(s.handed_out(1).await, [id(1)]);
}
