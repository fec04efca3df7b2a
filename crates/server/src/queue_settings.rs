//! The settings of a queue as people read them, on the command line and on pages.

use crate::rate::show_rate;
use crate::retry_rule::{show_backoff, show_exhausted};
use duetime_core::engine::{QueueRetention, QueueSettings};

/// Each setting, and its value unless it has its default. The names are those of the JSON; a time of `retention` has its own.
pub(crate) fn values(settings: &QueueSettings) -> [(&'static str, Option<String>); 14] {
    fn text<T: ToString>(value: Option<T>) -> Option<String> {
        value.map(|value| value.to_string())
    }
    let QueueSettings {
        paused: _,
        paused_until: _,
        paused_at: _,
        paused_by: _,
        retry,
        jitter,
        max_attempts,
        max_age,
        max_crashes,
        when_exhausted,
        lease,
        max_running,
        rate,
        max_waiting,
        when_full,
        retention,
        target,
    } = settings;
    let QueueRetention { succeeded, failed } = retention;
    [
        ("retry", retry.as_ref().map(show_backoff)),
        ("jitter", text(*jitter)),
        ("max_attempts", text(*max_attempts)),
        ("max_age", text(*max_age)),
        ("max_crashes", text(*max_crashes)),
        ("when_exhausted", when_exhausted.as_ref().map(show_exhausted)),
        ("lease", text(*lease)),
        ("max_running", text(*max_running)),
        ("rate", rate.as_ref().map(show_rate)),
        ("max_waiting", text(*max_waiting)),
        ("when_full", when_full.map(|then| then.word().to_owned())),
        ("succeeded", text(*succeeded)),
        ("failed", text(*failed)),
        ("target", target.as_ref().map(|target| serde_json::to_string(target).expect("a target is JSON"))),
    ]
}
