//! What `assert_pushed!` calls.

use crate::client::Client;
use crate::job_type::JobType;
use duetime_core::Job;
use duetime_core::api::Span;
use duetime_core::engine::Query;
use std::fmt::Write;
use std::time::Duration;

/// How many jobs a failed assertion shows.
const SHOWN_MAX: usize = 20;

/// The length that this text names.
#[track_caller]
pub fn length(text: &str) -> Duration {
    match text.trim_matches('"').parse::<Span>() {
        Ok(Span(ms)) => Duration::from_millis(ms),
        Err(why) => panic!("`after`: {why}"),
    }
}

/// The first job of this type that fits.
pub async fn pushed<J: JobType>(
    client: &Client,
    fits: impl Fn(&J) -> bool,
    wanted: &str,
    after: Option<Duration>,
) -> Job {
    let mut found = client.jobs().find(Query::default().kind(J::KIND));
    while let Some(job) = found.next().await.expect("the jobs can be read") {
        if job.payload_as().is_ok_and(|payload| fits(&payload)) && after.is_none_or(|after| delay(&job) == after) {
            return job;
        }
    }
    let after = after.map(|after| format!(", after {}", shown(after))).unwrap_or_default();
    let all = client.jobs().find(Query::default()).take(SHOWN_MAX + 1).await.expect("the jobs can be read");
    // The macro puts a tuple together from two parts.
    let wanted = wanted.replacen(" (", "(", 1);
    panic!("expected a push of `{wanted}`{after}; {}", list(&all));
}

fn delay(job: &Job) -> Duration {
    Duration::from_millis(job.first_due_at.0.saturating_sub(job.created_at.0))
}

fn shown(length: Duration) -> Span {
    Span(length.as_millis().try_into().unwrap_or(u64::MAX))
}

fn list(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "nothing was pushed".to_owned();
    }
    let mut list = "this was pushed:".to_owned();
    for job in jobs.iter().take(SHOWN_MAX) {
        let (queue, kind, payload) = (&job.queue, &job.kind, String::from_utf8_lossy(&job.payload));
        let _ = write!(list, "\n  {kind} {payload} to {queue}, after {}", shown(delay(job)));
    }
    if jobs.len() > SHOWN_MAX {
        list.push_str("\n  and more");
    }
    list
}
