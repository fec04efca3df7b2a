//! Leases that are noted. They are written into rows later, so cases wait for that.

use super::NotingSubject;
use super::fixture::*;
use crate::json::Timestamp;
use crate::model::job::{Job, KeyUntil, Stage};
use crate::ports::{LeaseRecord, Leases, Recorded};
use std::time::Duration;

/// Long enough for any store to write a lease.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Waits until this many jobs are leased, and returns them by id.
async fn until_leased(leases: &dyn Leases, count: usize) -> Vec<Job> {
    let leased = async {
        loop {
            let jobs = leases.leased().await.unwrap();
            if jobs.len() == count {
                return jobs;
            }
        }
    };
    let mut jobs = tokio::time::timeout(WAIT_MAX, leased).await.expect("leases are written soon");
    jobs.sort_by_key(|job| job.id);
    jobs
}

/// With everything that a restart needs.
pub async fn a_lease_is_restored(subject: NotingSubject) {
    let (ledger, leases) = (&*subject.ledger, &*subject.leases);
    let jobs = [tagged(1, &["t"]), job(2), job(3)];
    record(ledger, &jobs).await;
    let running = [leased(&jobs[0]), leased(&jobs[2])];
    leases.lease(running.iter().map(LeaseRecord::of).collect()).await.unwrap();
    assert_eq!(until_leased(leases, 2).await, running);
    assert_eq!(pending(ledger, WATERMARK, 10).await, [2]);
}

/// Nor does one of a finished or unknown job.
pub async fn a_lease_never_overwrites_a_higher_version(subject: NotingSubject) {
    let (ledger, leases) = (&*subject.ledger, &*subject.leases);
    record(ledger, &[job(1), job(2), job(3)]).await;
    let lost = LeaseRecord::of(&leased(&job(1)));
    apply(ledger, &[again(&job(1), NOW + 5), ended(&job(2), Stage::Failed)]).await;
    let late = LeaseRecord { version: job(2).version + 10, ..LeaseRecord::of(&leased(&job(2))) };
    leases.lease(vec![lost, late, LeaseRecord::of(&leased(&job(9)))]).await.unwrap();
    leases.lease(vec![LeaseRecord::of(&leased(&job(3)))]).await.unwrap();
    assert_eq!(until_leased(leases, 1).await, [leased(&job(3))]);
    let rows = ledger.get(&[id(1), id(2), id(9)]).await.unwrap();
    assert_eq!(rows, [Some(again(&job(1), NOW + 5)), Some(ended(&job(2), Stage::Failed)), None]);
}

/// The attempt that begins has no progress yet.
pub async fn a_lease_forgets_how_far_the_last_one_came(subject: NotingSubject) {
    let (ledger, leases) = (&*subject.ledger, &*subject.leases);
    record(ledger, &[job(1)]).await;
    let waits = Job { progress: progress(70), ..again(&job(1), NOW + 5) };
    apply(ledger, std::slice::from_ref(&waits)).await;
    let running = Job { version: waits.version + 1, progress: None, ..leased(&waits) };
    leases.lease(vec![LeaseRecord::of(&running)]).await.unwrap();
    assert_eq!(until_leased(leases, 1).await[0].progress, None);
}

/// And no other key.
pub async fn a_lease_frees_a_key_held_until_started(subject: NotingSubject) {
    let (ledger, leases) = (&*subject.ledger, &*subject.leases);
    let started = Job { key_until: KeyUntil::Started, ..keyed(1, "started") };
    record(ledger, &[started.clone(), keyed(2, "finished")]).await;
    leases
        .lease([started, keyed(2, "finished")].iter().map(|job| LeaseRecord::of(&leased(job))).collect())
        .await
        .unwrap();
    until_leased(leases, 2).await;
    let recorded = ledger.record(vec![keyed(3, "started"), keyed(4, "finished")], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::Created, Recorded::KeyHeld(id(2))]);
}

/// Whether its lease was written before or not.
pub async fn a_settled_job_is_not_leased(subject: NotingSubject) {
    let (ledger, leases) = (&*subject.ledger, &*subject.leases);
    record(ledger, &[job(1), job(2), job(3)]).await;
    leases.lease(vec![LeaseRecord::of(&leased(&job(1)))]).await.unwrap();
    until_leased(leases, 1).await;
    leases.lease(vec![LeaseRecord::of(&leased(&job(2))), LeaseRecord::of(&leased(&job(3)))]).await.unwrap();
    apply(ledger, &[ended(&job(1), Stage::Succeeded), again(&job(2), NOW + 5)]).await;
    assert_eq!(until_leased(leases, 1).await, [leased(&job(3))]);
    assert_eq!(row(ledger, id(1)).await, Some(ended(&job(1), Stage::Succeeded)));
    assert_eq!(row(ledger, id(2)).await, Some(again(&job(2), NOW + 5)));
}

/// An extension moves the end of a lease, in whichever order the two come.
pub async fn a_later_lease_wins(subject: NotingSubject) {
    let (ledger, leases) = (&*subject.ledger, &*subject.leases);
    record(ledger, &[job(1)]).await;
    let first = leased(&job(1));
    let extended = Job {
        version: first.version + 1,
        lease_until: Some(Timestamp(NOW + 120_000)),
        updated_at: Timestamp(NOW + 60_000),
        ..first.clone()
    };
    leases.lease(vec![LeaseRecord::of(&extended)]).await.unwrap();
    leases.lease(vec![LeaseRecord::of(&first)]).await.unwrap();
    assert_eq!(until_leased(leases, 1).await, [extended]);
}
