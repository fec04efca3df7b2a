//! The environment variables of a command.

use duetime_core::Job;

/// The variables that pass W3C Trace Context to a process. A job without a trace does not belong to the worker's.
pub(super) const TRACE: &str = "TRACEPARENT";
/// A system gives no variable more than 128 KiB.
const PREVIOUS_BYTES_MAX: usize = 64 << 10;

/// Names and values for a job's command.
pub(super) fn of(job: &Job) -> Vec<(&'static str, String)> {
    let text = |text: &str| text.replace('\0', "\u{fffd}");
    let previous = job.options().previous.as_ref().map(|previous| previous.within(PREVIOUS_BYTES_MAX));
    let mut environment = vec![
        ("DUETIME_ID", job.id.to_string()),
        ("DUETIME_QUEUE", text(&job.queue)),
        ("DUETIME_KIND", text(&job.kind)),
        ("DUETIME_ATTEMPT", job.attempt.to_string()),
        ("DUETIME_DUE_AT", job.due_at.to_string()),
        ("DUETIME_DUE_AT_MS", job.due_at.0.to_string()),
        ("DUETIME_TAGS", text(&job.tags.join("\n"))),
        ("DUETIME_KEY", text(job.key.as_deref().unwrap_or(""))),
        ("DUETIME_RECEIPT", job.receipt().to_string()),
        ("DUETIME_EPOCH", job.epoch.to_string()),
        ("DUETIME_META", serde_json::to_string(job.meta()).expect("its names are text")),
        ("DUETIME_PREVIOUS", previous.map_or_else(String::new, |previous| text(&previous))),
    ];
    environment.extend(job.options().trace.as_ref().map(|trace| (TRACE, trace.to_string())));
    environment
}
