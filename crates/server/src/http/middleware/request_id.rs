//! The id of a request: the caller's, or one of ours. It is in every answer and in every line logged for the request.

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, HeaderValue};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header of answers, and of requests that carry an id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// The header name that proxies use.
const OF_PROXIES: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken over.
const BYTES_MAX: usize = 128;

/// The id of a request: the one it carries if that is short and printable, else a new one.
pub(crate) fn of(headers: &HeaderMap) -> HeaderValue {
    let brought = headers.get(REQUEST_ID).or_else(|| headers.get(OF_PROXIES));
    let fits =
        |id: &&HeaderValue| (1..=BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic);
    // A copy, since a part of the request would keep the whole buffer that it was read into.
    brought.filter(fits).and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()).unwrap_or_else(next)
}

/// Unique over servers and restarts: each process has a random beginning.
fn next() -> HeaderValue {
    static BEGINNING: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let beginning = BEGINNING.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without randomness ids may collide with another server's, but requests are still answered.
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
        u64::from_ne_bytes(bytes)
    });
    let id = format!("{beginning:016x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed));
    HeaderValue::try_from(id).expect("digits are allowed in a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_values(values: &[(&'static str, &'static str)]) -> HeaderValue {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        of(&headers)
    }

    #[test]
    fn an_id_is_taken_over_where_it_can_be_shown() {
        assert_eq!(of_values(&[("request-id", "a-1"), ("x-request-id", "b")]), "a-1");
        assert_eq!(of_values(&[("x-request-id", "b")]), "b");
        assert_ne!(of_values(&[]), of_values(&[]));
        let long = "x".repeat(BYTES_MAX + 1).leak();
        for wrong in ["", "a b", long] {
            assert_ne!(of_values(&[("request-id", wrong)]), wrong);
        }
    }
}
