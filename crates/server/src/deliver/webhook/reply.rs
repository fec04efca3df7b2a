//! How a receiver's answer is interpreted.

use super::route::Route;
use crate::deliver::result::{DeliveryResult, Sign};
use bytes::Bytes;
use duetime_core::printable::printable;
use duetime_core::{Millis, Redacted};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

/// Most bytes of a body that are shown in the message.
const SHOWN_BYTES_MAX: usize = 1 << 10;
/// Most bytes of a body that are read so that its connection can be reused. With a longer body the connection is closed.
const READ_BYTES_MAX: usize = 64 << 10;
/// Longest part of a `Location` that is shown.
const LOCATION_CHARS_MAX: usize = 200;

/// The result that is kept with a job that was taken.
#[derive(Serialize)]
struct JobResult<'a> {
    status: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
}

/// Reads the needed part of an answer, until `end` at the latest. The status counts even if the body does not arrive.
pub(super) async fn read(response: Response<Incoming>, end: Instant) -> (StatusCode, HeaderMap, String) {
    let (head, body) = response.into_parts();
    let mut start = Vec::new();
    // A timeout is not a failure: the bytes received so far are used.
    let _ = timeout_at(end, read_start(body, &mut start)).await;
    (head.status, head.headers, text(&start))
}

async fn read_start(mut body: Incoming, start: &mut Vec<u8>) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap_or_else(|_| Bytes::new());
        read += data.len();
        start.extend_from_slice(&data[..data.len().min(SHOWN_BYTES_MAX - start.len())]);
        if read > READ_BYTES_MAX {
            return;
        }
    }
}

/// Bytes as text for a message, on one line.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = printable(&text).map(|(character, is_hidden)| if is_hidden { ' ' } else { character }).collect();
    text.trim().to_owned()
}

/// Where a redirect leads, without what may be a secret: readers of the job see it.
fn location(to: &str) -> String {
    let is_path = to.starts_with('/') && !to.starts_with("//");
    let end = to.find(['?', '#']).unwrap_or(to.len());
    let shown = if is_path { to[..end].to_owned() } else { Redacted(to).to_string() };
    shown.chars().take(LOCATION_CHARS_MAX).collect()
}

/// The result of an answer received at `now`.
pub(super) fn judge(route: &Route, status: StatusCode, headers: &HeaderMap, body: &str, now: Millis) -> DeliveryResult {
    if status.is_success() {
        return DeliveryResult::taken(&JobResult { status: status.as_u16(), body });
    }
    let said = if body.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {body}") };
    if route.final_statuses.contains(&status.as_u16()) {
        return DeliveryResult::refused(said, Sign::Well);
    }
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let wait_ms = header(RETRY_AFTER).and_then(|text| super::retry_after::read(text, now));
            DeliveryResult::put_off(said, wait_ms)
        }
        _ if status.is_redirection() => {
            let to = header(LOCATION).map_or_else(|| "somewhere".to_owned(), location);
            let said =
                format!("HTTP {status} to {to}: redirects are not followed; set the target's URL to that address");
            DeliveryResult::failed(said, Sign::Answered)
        }
        _ => DeliveryResult::failed(said, Sign::Answered),
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::Rules;
    use super::*;
    use duetime_core::api::Span;
    use duetime_core::engine::Outcome;
    use duetime_core::rules::Failure;

    fn judged(status: u16, header: Option<(&'static str, &str)>, body: &str) -> DeliveryResult {
        let target = r#"{"url": "https://a.example", "final_statuses": [410, 422, 451]}"#;
        let Ok(duetime_core::model::target::Target::Url(endpoint)) = serde_json::from_str(target) else {
            panic!("a URL")
        };
        let route = Route::new(&endpoint, Rules::default()).unwrap();
        let headers = header.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        judge(&route, StatusCode::from_u16(status).unwrap(), &headers, body, 1_000)
    }

    fn failure(status: u16, header: Option<(&'static str, &str)>, body: &str) -> (Failure, Sign) {
        let DeliveryResult { outcome: Outcome::Fail(failure), sign } = judged(status, header, body) else {
            panic!("{status} is no failure");
        };
        (failure, sign)
    }

    #[test]
    fn every_success_completes() {
        for (status, body, result) in [
            (200, "ok", r#"{"status":200,"body":"ok"}"#),
            (204, "", r#"{"status":204}"#),
            (299, "", r#"{"status":299}"#),
        ] {
            let Outcome::Complete { result: Some(kept), .. } = judged(status, None, body).outcome else {
                panic!("{status}")
            };
            assert_eq!(std::str::from_utf8(&kept).unwrap(), result);
        }
    }

    #[test]
    fn each_status_has_its_meaning() {
        let overloaded = |hold_ms| Sign::Overloaded { hold_ms };
        let wait = Some(("retry-after", "7"));
        for (status, header, is_final, retry_after_ms, sign) in [
            (410, None, true, None, Sign::Well),
            (422, None, true, None, Sign::Well),
            (451, None, true, None, Sign::Well),
            (429, None, false, None, overloaded(None)),
            (429, wait, false, Some(7_000), overloaded(Some(7_000))),
            (503, wait, false, Some(7_000), overloaded(Some(7_000))),
            (503, Some(("retry-after", "soon")), false, None, overloaded(None)),
            (500, wait, false, None, Sign::Answered),
            (404, None, false, None, Sign::Answered),
            (302, Some(("location", "/there")), false, None, Sign::Answered),
            (304, None, false, None, Sign::Answered),
        ] {
            let (failure, told) = failure(status, header, "");
            assert_eq!(
                (failure.is_final, failure.retry_after, told),
                (is_final, retry_after_ms.map(Span), sign),
                "{status}"
            );
        }
        let (redirect, _) = failure(302, Some(("location", "https://10.0.0.1/")), "");
        assert!(redirect.message.starts_with("HTTP 302 Found to https://10.0.0.1/: redirects are not followed"));
        let (redirect, _) = failure(302, Some(("location", "https://me:hush@a.example/x?token=hush")), "");
        assert!(redirect.message.starts_with("HTTP 302 Found to https://***@a.example/x?***: redirects"));
        assert_eq!(location("/there?token=hush"), "/there");
        assert_eq!(&*failure(500, None, "no stock").0.message, "HTTP 500 Internal Server Error: no stock");
    }

    #[test]
    fn a_body_is_one_line_of_text() {
        assert_eq!(text("\u{202e} a\nb\0c".as_bytes()), "a b c");
        assert_eq!(text(b"a\xff "), "a\u{fffd}");
    }
}
