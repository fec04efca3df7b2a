//! Settings of queues.

use super::{print, read, refused};
use crate::api::QueueChanges;
use crate::api::Span;
use crate::engine::{self, Configured, QueueRetention, QueueSettings};
use crate::ports::Rate;
use crate::{Backoff, WhenExhausted};
use std::sync::Arc;

#[test]
fn the_documented_settings_read_and_leave_the_rest() {
    let old = QueueSettings { paused: true, lease: Some(Span(5_000)), ..QueueSettings::default() };
    let text =
        r#"{"retry": {"steps": ["15s", "15s", "30s"]}, "max_attempts": 5, "when_exhausted": {"move": "orders-dead"}}"#;
    let new = read::<QueueChanges>(text).apply(&old);
    assert_eq!((new.paused, new.lease, new.max_attempts), (true, Some(Span(5_000)), Some(5)));
    assert_eq!(new.retry, Some(Backoff::Steps(vec![Span(15_000), Span(15_000), Span(30_000)])));
    assert_eq!(new.when_exhausted, Some(WhenExhausted::Move(Arc::from("orders-dead"))));
    let cleared = read::<QueueChanges>(r#"{"lease":null,"retry":null}"#).apply(&new);
    assert_eq!((cleared.lease, cleared.retry, cleared.max_attempts), (None, None, Some(5)));
    assert_eq!(read::<QueueChanges>(&print(&QueueChanges::all(&new))).apply(&old), new);

    let configured = print(&Configured::new(Arc::from("q"), new.clone()));
    assert_eq!(read::<Configured>(&configured).into_settings(), new);
    let status = engine::QueueStatus { queue: Arc::from("q"), settings: new, ..engine::QueueStatus::default() };
    assert_eq!(read::<engine::QueueStatus>(&print(&status)).settings, status.settings);
    let limits = r#"{"max_running": 50, "rate": {"per_second": 100, "burst": 20}, "target": {"url": "https://a.example"}, "retention": {"succeeded": "1h"}}"#;
    let limited = read::<QueueChanges>(limits).apply(&old);
    assert_eq!((limited.max_running, limited.rate), (Some(50), Some(Rate { per_second: 100.0, burst: Some(20) })));
    assert_eq!(limited.retention, QueueRetention { succeeded: Some(Span(3_600_000)), failed: None });
    assert_eq!(read::<QueueChanges>(&print(&QueueChanges::all(&limited))).apply(&old), limited);
    let between = QueueChanges::between(
        &limited,
        &QueueSettings { lease: Some(Span(7_000)), max_running: None, ..limited.clone() },
    );
    let elsewhere = QueueSettings { max_attempts: Some(2), ..limited.clone() };
    let both = QueueSettings { lease: Some(Span(7_000)), max_running: None, ..elsewhere.clone() };
    assert_eq!(between.apply(&elsewhere), both, "what others changed stays");
    refused::<QueueChanges>(r#"{"speed":1}"#, "`speed` is unknown");
    refused::<QueueChanges>(r#"{"lease":"5s","lease":"6s"}"#, "duplicate field `lease`");
    let twice = r#"{"retry":{"fixed":{"delay":"5s","delay":"6s"}}}"#;
    refused::<QueueChanges>(twice, "`retry.fixed.delay` must be given once");
    refused::<QueueChanges>(r#"{"retry":{"steps":["1s",2]}}"#, "`retry.steps[1]` must be a duration");
    let every: Vec<String> = super::super::queue::SETTINGS.iter().map(|name| format!("\"{name}\":null")).collect();
    let reset = read::<QueueChanges>(&format!("{{{}}}", every.join(","))).apply(&limited);
    assert_eq!(reset, QueueSettings { paused: true, ..QueueSettings::default() });
}
