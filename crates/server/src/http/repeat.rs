//! Repeats: a reserve or a take that is sent again with its `request_id` gets what the first one got.
//!
//! The engine remembers the result of a request id, regardless of the caller. So the id passed to the engine is a hash of
//! the caller's id, the caller and the whole request. Another token, or another request under the same id, is a new
//! request. Every server makes the same hash.

use crate::access::{Caller, hex};
use duetime_core::api::{Reserve, Take};
use duetime_core::engine::{ReserveRequest, TakeRequest};
use duetime_core::limits::REQUEST_ID_BYTES_MAX;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use std::sync::Arc;

/// The name of a reserve. How long it waits, and the name of the worker, may differ between the first and a repeat.
pub(super) fn of_reserve(caller: &Caller, request: &ReserveRequest) -> Option<Arc<str>> {
    let asked = Reserve { wait: None, worker: None, ..Reserve::from(request) };
    name(caller, request.request_id.as_ref()?, "reserve", &asked)
}

/// The name of a take.
pub(super) fn of_take(caller: &Caller, request: &TakeRequest) -> Option<Arc<str>> {
    name(caller, request.request_id.as_ref()?, "take", &Take::from(request))
}

fn name(caller: &Caller, id: &Arc<str>, verb: &str, asked: &impl Serialize) -> Option<Arc<str>> {
    if !(1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) {
        // The engine refuses it.
        return Some(id.clone());
    }
    let text = serde_json::to_vec(&(caller.identity(), id, verb, asked)).expect("a request has only string keys");
    Some(Arc::from(hex(digest(&SHA256, &text).as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(body: &str) -> Option<Arc<str>> {
        let request = serde_json::from_str::<Reserve>(body).unwrap().into_request(Some(Arc::from("q"))).unwrap();
        of_reserve(&Caller::Anyone, &request)
    }

    fn take(queue: &str, body: &str) -> Option<Arc<str>> {
        let take = serde_json::from_str::<Take>(body).unwrap().into_request(Some(Arc::from(queue)));
        of_take(&Caller::Anyone, &take.unwrap())
    }

    #[test]
    fn a_name_is_of_the_whole_request_but_for_its_wait() {
        let first = reserve(r#"{"request_id": "r", "limit": 2}"#).unwrap();
        assert_eq!(first.len(), REQUEST_ID_BYTES_MAX);
        assert_eq!(reserve(r#"{"wait": "5s", "limit": 2, "request_id": "r"}"#).as_ref(), Some(&first));
        for other in [
            r#"{"request_id": "r"}"#,
            r#"{"request_id": "s", "limit": 2}"#,
            r#"{"request_id": "r", "limit": 2, "lease": "5s"}"#,
        ] {
            assert_ne!(reserve(other).as_ref(), Some(&first), "{other}");
        }
        assert_eq!(reserve("{}"), None);
        let taken = take("q", r#"{"request_id": "r", "limit": 2}"#).unwrap();
        assert_ne!(taken, first);
        assert_ne!(take("p", r#"{"request_id": "r", "limit": 2}"#).unwrap(), taken);
        assert_ne!(take("q", r#"{"request_id": "r", "limit": 2, "due_to": "2026-01-01T00:00:00Z"}"#).unwrap(), taken);
    }

    #[test]
    fn callers_do_not_share_names() {
        let body = r#"{"request_id": "r", "jobs": [{"id": "7"}]}"#;
        let request = serde_json::from_str::<Reserve>(body).unwrap().into_request(None).unwrap();
        assert_ne!(of_reserve(&Caller::Anyone, &request), of_reserve(&Caller::Nobody, &request));
    }

    #[test]
    fn what_is_no_id_is_left_to_the_engine() {
        for id in [String::new(), "x".repeat(REQUEST_ID_BYTES_MAX + 1)] {
            assert_eq!(reserve(&format!(r#"{{"request_id": "{id}"}}"#)).as_deref(), Some(&*id));
        }
    }
}
