//! Reserves of particular jobs.

use super::{Subject, ids};
use crate::model::id::JobRef;
use crate::model::job::{Job, State};
use crate::ports::{Edited, Limits, Pick, Reserve, Source, Take, Window};
use crate::testing::fixtures::{T0, due, id, job, reserve_named, success};

fn in_version(n: u64, version: u64) -> Reserve {
    Reserve::new(Pick::Named(vec![JobRef { id: id(n), version: Some(version) }]), 10)
}

/// Before more urgent ones, in the order of the request; no other caller gets it.
pub async fn a_named_job_is_handed_out(s: Subject) {
    s.hold(&[Job { priority: 0, ..job(1) }, job(2), due(3, T0 + 5)]).await;
    s.pass(5);
    let reserved = s.reserve(reserve_named(&[id(3), id(2)])).await;
    assert_eq!(reserved.refused, []);
    assert_eq!(reserved.leases[0].job.state(s.now()), State::Running);
    assert_eq!(ids(reserved.leases), [3, 2].map(id));
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// A job in another version is refused, and does not run.
pub async fn a_named_job_must_have_its_version(s: Subject) {
    s.hold(&[job(1)]).await;
    let refused = s.reserve(in_version(1, 2)).await.refused;
    assert_eq!(refused, [(id(1), Edited::Mismatch(job(1)))]);
    assert_eq!(ids(s.leases(in_version(1, 1)).await), [id(1)]);
}

/// By the clock, and by the window.
pub async fn a_named_job_must_be_due(s: Subject) {
    s.hold(&[due(1, T0 + 1), due(2, T0 - 5)]).await;
    let refused = s.reserve(reserve_named(&[id(1)])).await.refused;
    assert_eq!(refused, [(id(1), Edited::Unfit { id: id(1), state: State::Scheduled })]);
    let window = Window { from: T0 - 4, to: T0 };
    let named = Source::Jobs(vec![id(2).into()]);
    let refused = s.take(Take { window, ..Take::new(named, 10) }).await.reserved.refused;
    assert_eq!(refused, [(id(2), Edited::Unfit { id: id(2), state: State::Ready })]);
}

/// So is a job that is named twice.
pub async fn a_running_job_is_refused(s: Subject) {
    s.hold(&[job(1)]).await;
    let reserved = s.reserve(reserve_named(&[id(1), id(1)])).await;
    let job = reserved.leases[0].job.clone();
    assert_eq!(reserved.refused, [(id(1), Edited::Running(job.clone()))]);
    assert_eq!(s.reserve(reserve_named(&[id(1)])).await.refused, [(id(1), Edited::Running(job))]);
}

/// A pause holds for all.
pub async fn a_job_of_a_paused_queue_is_refused(s: Subject) {
    s.hold(&[job(1)]).await;
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    let refused = s.reserve(reserve_named(&[id(1)])).await.refused;
    assert_eq!(refused, [(id(1), Edited::Unfit { id: id(1), state: State::Ready })]);
}

/// Nothing was changed, so it leaves no tombstone: the job may be put right away.
pub async fn an_unknown_job_is_refused_without_a_trace(s: Subject) {
    assert_eq!(s.reserve(reserve_named(&[id(1)])).await.refused, [(id(1), Edited::Unknown)]);
    s.hold(&[job(1)]).await;
    assert_eq!(ids(s.leases(reserve_named(&[id(1)])).await), [id(1)]);
}

/// As long as its end is still known.
pub async fn an_ended_job_is_refused(s: Subject) {
    s.hold(&[job(1)]).await;
    s.settle(s.one().await.receipt(), success()).await;
    let refused = s.reserve(reserve_named(&[id(1)])).await.refused;
    assert_eq!(refused, [(id(1), Edited::Unfit { id: id(1), state: State::Succeeded })]);
}

/// Jobs beyond it stay unchanged.
pub async fn the_limit_holds(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let reserved = s.reserve(Reserve { limit: 1, ..reserve_named(&[id(2), id(1)]) }).await;
    assert_eq!(ids(reserved.leases), [id(2)]);
    assert_eq!(reserved.refused, []);
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// Each of them is a part of the request.
pub async fn named_jobs_of_one_request_are_all_handed_out(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let request = Reserve { request_id: Some("r".into()), ..reserve_named(&[id(1), id(2)]) };
    let first = s.reserve(request.clone()).await;
    assert_eq!(ids(first.leases.clone()), [1, 2].map(id));
    let repeat = s.reserve(request.clone()).await;
    assert_eq!(ids(repeat.leases), [1, 2].map(id));
    s.settle(first.leases[0].job.receipt(), success()).await;
    assert_eq!(ids(s.reserve(request).await.leases), [id(2)]);
}
