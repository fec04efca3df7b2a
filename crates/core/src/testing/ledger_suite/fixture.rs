//! Jobs for tests, with defaults for all irrelevant fields.

use crate::clock::Millis;
use crate::json::Timestamp;
use crate::limits::{HOUR_MS, PAYLOAD_BYTES_DEFAULT};
use crate::model::id::JobId;
use crate::model::id::sequence_at;
use crate::model::job::{Job, NewJob, Stage};
use crate::model::progress::Progress;
use crate::model::target::Target;
use crate::ports::{BUCKET_MS, Change, Edit, Edited, Find, Ledger, OutboxEntry, Page, Recorded, Selector, Window};
use crate::testing::fixtures;
use std::sync::Arc;

/// The time of tests: a multiple of [`BUCKET_MS`].
pub const NOW: Millis = 3_000_000 * BUCKET_MS;
/// The instant up to which jobs are in the broker.
pub const WATERMARK: Millis = NOW + HOUR_MS;
/// Every due instant.
pub const ANY_DUE: Window = Window::ALL;

/// The n-th id.
pub fn id(n: u64) -> JobId {
    JobId::from_sequence(sequence_at(NOW) + n)
}

/// The n-th job: due now in the queue `default`.
pub fn job(n: u64) -> Job {
    NewJob::new(format!("payload {n}").into_bytes()).accept(id(n), NOW, PAYLOAD_BYTES_DEFAULT).expect("a valid job")
}

/// The n-th job, with changes.
pub fn job_with(n: u64, set: impl FnOnce(&mut Job)) -> Job {
    let mut job = job(n);
    set(&mut job);
    job
}

/// The n-th job, which others follow when it succeeds, and when it does not.
pub fn followed(n: u64) -> Job {
    job_with(n, |job| job.options.clone_from(&fixtures::followed(n).options))
}

/// The n-th job, holding a key.
pub fn keyed(n: u64, key: &str) -> Job {
    job_with(n, |job| job.key = Some(text(key)))
}

/// The n-th job, with tags.
pub fn tagged(n: u64, tags: &[&str]) -> Job {
    job_with(n, |job| job.tags = tags.iter().copied().map(text).collect())
}

/// A trace.
pub const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A target with all fields set.
pub fn target() -> Option<Arc<Target>> {
    let target =
        r#"{"url": "https://a.example/größe?'", "headers": {"a": "\"b\""}, "final_statuses": [410], "key": "k"}"#;
    Some(Arc::new(serde_json::from_str(target).expect("a target")))
}

/// Progress as a worker reports it.
pub fn progress(percent: u8) -> Option<Arc<Progress>> {
    Some(Arc::new(Progress { percent, note: Some(text("halbe \"Größe\"\0")), at: Timestamp(NOW + 3) }))
}

/// Shared text.
pub fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// The job under its first lease.
pub fn leased(job: &Job) -> Job {
    Job {
        version: job.version + 1,
        epoch: NOW,
        attempt: 1,
        lease_until: Some(Timestamp(NOW + 60_000)),
        started_at: Some(Timestamp(NOW + 1)),
        updated_at: Timestamp(NOW + 1),
        ..job.clone()
    }
}

/// The job as it ended.
pub fn ended(job: &Job, stage: Stage) -> Job {
    Job {
        version: job.version + 2,
        epoch: NOW,
        attempt: 1,
        stage,
        lease_until: None,
        started_at: Some(Timestamp(NOW + 1)),
        finished_at: Some(Timestamp(NOW + 2)),
        updated_at: Timestamp(NOW + 2),
        ..job.clone()
    }
}

/// The job, waiting for another attempt.
pub fn again(job: &Job, due_at: Millis) -> Job {
    Job { stage: Stage::Pending, due_at: Timestamp(due_at), finished_at: None, ..ended(job, Stage::Pending) }
}

/// Records jobs that are all new.
pub async fn record(ledger: &dyn Ledger, jobs: &[Job]) {
    let recorded = ledger.record(jobs.to_vec(), WATERMARK).await.expect("recorded");
    assert_eq!(recorded, vec![Recorded::Created; jobs.len()]);
}

/// Applies changes of jobs.
pub async fn apply(ledger: &dyn Ledger, jobs: &[Job]) {
    ledger.apply(jobs.iter().cloned().map(OutboxEntry::Changed).collect(), WATERMARK).await.expect("noted");
}

/// Records jobs, and that they ended so.
pub async fn record_ended(ledger: &dyn Ledger, jobs: &[Job], stage: Stage) -> Vec<Job> {
    record(ledger, jobs).await;
    let jobs: Vec<Job> = jobs.iter().map(|job| ended(job, stage)).collect();
    apply(ledger, &jobs).await;
    jobs
}

/// The row with this id.
pub async fn row(ledger: &dyn Ledger, id: JobId) -> Option<Job> {
    ledger.get(&[id]).await.expect("read").pop().expect("one answer")
}

/// A change of the job, whatever its version.
pub fn change(job: &Job, change: Change) -> Edit {
    Edit { id: job.id, version: None, change }
}

/// Makes one edit, a second later.
pub async fn edit(ledger: &dyn Ledger, edit: Edit) -> Edited {
    ledger.edit(vec![edit], LATER, WATERMARK).await.expect("edited").pop().expect("one answer")
}

/// When edits are made.
pub const LATER: Millis = NOW + 1_000;

/// A search for all rows of a selector.
pub fn all(selector: Selector) -> Find {
    Find { selector, queue: None, states: Vec::new(), kind: None, due: ANY_DUE, after: None, limit: 1_000 }
}

/// The numbers of the rows found, over all pages.
pub async fn found(ledger: &dyn Ledger, mut find: Find) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let found = ledger.find(find.clone()).await.expect("found");
        assert!(found.jobs.len() <= find.limit);
        numbers.extend(found.jobs.iter().map(|job| number(job.id)));
        match found.next {
            Some(next) => {
                let before = find.after_place().expect("a place");
                find.after = Some(next);
                assert!(before < find.after_place().expect("a place"), "pages go on");
            }
            None => return numbers,
        }
    }
}

/// The numbers of all pending rows in buckets before this instant, page by page.
pub async fn pending(ledger: &dyn Ledger, until: Millis, limit: usize) -> Vec<u64> {
    let (mut numbers, mut after) = (Vec::new(), None);
    loop {
        let Page { jobs, next } = ledger.pending(until, after, limit).await.expect("read");
        assert!(jobs.len() <= limit);
        numbers.extend(jobs.iter().map(|job| number(job.id)));
        if next.is_none() {
            return numbers;
        }
        assert!(after < next, "pages go on");
        after = next;
    }
}

/// The n of an id.
pub fn number(id: JobId) -> u64 {
    id.sequence() - sequence_at(NOW)
}
