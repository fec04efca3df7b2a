//! The trace that a request belongs to.

use axum::http::HeaderMap;
use duetime_core::model::trace;
use std::sync::Arc;

/// The header `traceparent`. One that is malformed is passed over, as W3C Trace Context asks: it says nothing about what is
/// asked for.
pub(crate) fn of(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut values = headers.get_all("traceparent").iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok().filter(|trace| trace::check(trace).is_ok()).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_traceparent_counts() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let headers = |values: &[&str]| {
            let value = |value: &&str| ("traceparent".parse().unwrap(), value.parse().unwrap());
            values.iter().map(value).collect::<HeaderMap>()
        };
        assert_eq!(of(&headers(&[trace])).as_deref(), Some(trace));
        for other in [&[][..], &["00-1-2-01"], &[trace, trace]] {
            assert_eq!(of(&headers(other)), None, "{other:?}");
        }
    }
}
