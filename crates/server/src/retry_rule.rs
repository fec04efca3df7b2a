//! Retry rules as people write them, on the command line and in forms.

use duetime_core::api::{self, Span};
use duetime_core::model::name;
use duetime_core::{Backoff, Fixed, WhenExhausted};
use std::sync::Arc;

/// A rule in JSON, so that an error names its field.
#[derive(serde::Deserialize)]
struct RuleBody {
    retry: Backoff,
}

/// `none`, `default`, `15s,30s,5m` (also with `steps:` before), `fixed:30s`, or the JSON of the HTTP API.
pub(crate) fn parse_backoff(text: &str) -> Result<Backoff, String> {
    match text {
        "none" => Ok(Backoff::None),
        "default" => Ok(Backoff::Default),
        json if json.starts_with('{') => {
            let given = api::read::<RuleBody>(&format!("{{\"retry\": {json}}}"));
            given.map(|given| given.retry).map_err(|unread| unread.to_string())
        }
        text if text.starts_with("fixed:") => {
            let delay = text.trim_start_matches("fixed:").trim().parse::<Span>()?;
            Ok(Backoff::Fixed(Fixed { delay }))
        }
        steps => {
            let steps = steps.strip_prefix("steps:").unwrap_or(steps);
            let steps: Result<Vec<Span>, String> = steps.split(',').map(|step| step.trim().parse()).collect();
            let expected = "expected `default`, `none`, steps such as `15s,30s,5m`, `fixed:30s`, or JSON";
            steps.map(Backoff::Steps).map_err(|why| format!("{expected}; {why}"))
        }
    }
}

/// Writes one as [`parse_backoff`] reads it.
pub(crate) fn show_backoff(backoff: &Backoff) -> String {
    match backoff {
        Backoff::None => "none".to_owned(),
        Backoff::Default => "default".to_owned(),
        Backoff::Fixed(Fixed { delay }) => format!("fixed:{delay}"),
        Backoff::Steps(steps) => format!("steps:{}", steps.iter().map(Span::to_string).collect::<Vec<_>>().join(",")),
        other => serde_json::to_string(other).expect("a rule is JSON"),
    }
}

/// `keep`, `drop`, `restart` or `move:QUEUE`.
pub(crate) fn parse_exhausted(text: &str) -> Result<WhenExhausted, String> {
    match text {
        "keep" => Ok(WhenExhausted::Keep),
        "drop" => Ok(WhenExhausted::Drop),
        "restart" => Ok(WhenExhausted::Restart),
        _ => {
            let queue = text.strip_prefix("move:").ok_or("expected `keep`, `drop`, `restart` or `move:QUEUE`")?;
            name::check_queue(queue).map_err(|error| error.to_string())?;
            Ok(WhenExhausted::Move(Arc::from(queue)))
        }
    }
}

/// Writes one.
pub(crate) fn show_exhausted(end: &WhenExhausted) -> String {
    match end {
        WhenExhausted::Keep => "keep".to_owned(),
        WhenExhausted::Drop => "drop".to_owned(),
        WhenExhausted::Restart => "restart".to_owned(),
        WhenExhausted::Move(queue) => format!("move:{queue}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoffs_read() {
        assert_eq!(parse_backoff("none"), Ok(Backoff::None));
        assert_eq!(parse_backoff("15s, 1m"), Ok(Backoff::Steps(vec![Span(15_000), Span(60_000)])));
        assert_eq!(parse_backoff("steps:15s,15s"), Ok(Backoff::Steps(vec![Span(15_000), Span(15_000)])));
        assert_eq!(parse_backoff("fixed:5s"), Ok(Backoff::Fixed(Fixed { delay: Span(5_000) })));
        assert_eq!(parse_backoff(r#"{"fixed":{"delay":"5s"}}"#), Ok(Backoff::Fixed(Fixed { delay: Span(5_000) })));
        assert!(parse_backoff("15").unwrap_err().contains("without a unit"));
        let exponential = r#"{"exponential":{"first":"1s","factor":2.0,"max":"1h","jitter":0.1}}"#;
        for text in ["none", "default", "steps:15s,1m30s", "fixed:5s", exponential] {
            assert_eq!(show_backoff(&parse_backoff(text).unwrap()), text);
        }
    }

    #[test]
    fn ends_read() {
        assert_eq!(parse_exhausted("move:dead"), Ok(WhenExhausted::Move(Arc::from("dead"))));
        for text in ["keep", "drop", "restart", "move:dead"] {
            assert_eq!(show_exhausted(&parse_exhausted(text).unwrap()), text);
        }
        assert!(parse_exhausted("move:").is_err());
        assert!(parse_exhausted("explode").is_err());
    }
}
