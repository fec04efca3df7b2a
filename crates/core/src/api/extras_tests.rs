//! Rarely used fields in all bodies: target, trace, meta and progress.

use super::*;
use crate::ports::Lease;
use crate::{Job, JobId, JobOptions, Meta, NewJob, Progress, Target};
use std::sync::Arc;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const NOW: u64 = 1_795_168_800_250;
const EXTRAS: &str = concat!(
    r#""target":{"queue":"mail"},"trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","#,
    r#""meta":{"tenant":"7"}"#
);

fn new() -> NewJob {
    let target = Some(Arc::new(Target::Queue(Arc::from("mail"))));
    let meta = Some(Arc::new(Meta::from_iter([("tenant", "7")])));
    let options = JobOptions { target, trace: Some(Arc::from(TRACE)), meta, ..JobOptions::default() };
    NewJob { options, ..NewJob::new(*b"1") }
}

fn job() -> Job {
    let progress = Progress { percent: 40, note: Some(Arc::from("half")), at: Timestamp(NOW) };
    Job { progress: Some(Arc::new(progress)), ..new().accept(JobId::new(7).unwrap(), NOW, 100).unwrap() }
}

#[test]
fn a_push_reads_back() {
    let text = serde_json::to_string(&Push::from(&new())).unwrap();
    assert!(text.contains(EXTRAS), "{text}");
    assert_eq!(serde_json::from_str::<Push<'_>>(&text).unwrap().into_job(&"default".into()).unwrap(), new());
}

#[test]
fn a_job_reads_back() {
    let text = serde_json::to_string(&JobBody::new(&job(), NOW)).unwrap();
    let progress = r#""progress":{"percent":40,"note":"half","at":"2026-11-20T10:00:00.250Z"}"#;
    assert!(text.contains(EXTRAS) && text.contains(progress), "{text}");
    assert_eq!(Job::try_from(serde_json::from_str::<JobBody<'_>>(&text).unwrap()).unwrap(), job());
}

#[test]
fn a_lease_reads_back() {
    let leased =
        Job { lease_until: Some(Timestamp(NOW + 9)), started_at: Some(Timestamp(NOW)), progress: None, ..job() };
    let text = serde_json::to_string(&LeaseBody::from(&Lease { job: leased.clone(), length: Span(9) })).unwrap();
    let back = Lease::try_from(serde_json::from_str::<LeaseBody<'_>>(&text).unwrap()).unwrap().job;
    assert_eq!((back.options, back.progress), (leased.options, None));
}
