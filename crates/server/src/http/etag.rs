//! `If-Match` and `If-None-Match`: the version that something must have, or that the caller has already.

use super::problem::Problem;
use axum::http::HeaderMap;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use duetime_core::engine::{JobRef, Precondition};
use duetime_core::{Error, JobId};

/// The job, in the version that `If-Match` names; without the header, or with `*`, in any.
pub(super) fn target(id: JobId, headers: &HeaderMap) -> Result<JobRef, Problem> {
    let mut values = headers.get_all(IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(JobRef::from(id)) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" && values.next().is_none() {
        return Ok(JobRef::from(id));
    }
    let version = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let version = version.filter(|text| text.bytes().all(|b| b.is_ascii_digit())).and_then(|text| text.parse().ok());
    match (version, values.next()) {
        (Some(version), None) => Ok(JobRef { id, version: Some(version) }),
        _ => Err(Error::invalid("If-Match", "an ETag in quotes, such as \"1795168800250\", or *", text).into()),
    }
}

/// The precondition of a change to a schedule or settings: `If-Match`, or `If-None-Match: *` for none present.
pub(super) fn expected(headers: &HeaderMap) -> Result<Precondition, Problem> {
    let mut none = headers.get_all(IF_NONE_MATCH).iter();
    let Some(value) = none.next() else {
        if !headers.contains_key(IF_MATCH) {
            return Ok(Precondition::Anything);
        }
        let JobRef { version, .. } = target(JobId::MIN, headers)?;
        return Ok(version.map_or(Precondition::Something, Precondition::Version));
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text != "*" || none.next().is_some() {
        return Err(Error::invalid("If-None-Match", "*, to require that it does not exist yet", text).into());
    }
    if headers.contains_key(IF_MATCH) {
        return Err(Error::invalid("If-None-Match", "left out beside If-Match", "both").into());
    }
    Ok(Precondition::Nothing)
}

/// True if the caller has this version already, by `If-None-Match`. A malformed ETag matches nothing.
pub(super) fn is_known(version: u64, headers: &HeaderMap) -> bool {
    let etag = format!("\"{version}\"");
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(|tag| tag.trim());
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn read(values: &[&'static str]) -> Option<Option<u64>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_static(value));
        }
        target(JobId::new(7).unwrap(), &headers).ok().map(|target| target.version)
    }

    #[test]
    fn an_etag_is_a_version_in_quotes() {
        assert_eq!(read(&["\"7\""]), Some(Some(7)));
        assert_eq!(read(&[" \"7\" "]), Some(Some(7)));
        assert_eq!(read(&["*"]), Some(None));
        assert_eq!(read(&[]), Some(None));
        for wrong in ["7", "\"7", "W/\"7\"", "\"+7\"", "\"\"", "\"7\", \"8\"", "\"99999999999999999999\""] {
            assert_eq!(read(&[wrong]), None, "{wrong}");
        }
        assert_eq!(read(&["\"7\"", "\"8\""]), None);
        assert_eq!(read(&["*", "\"8\""]), None);
    }

    fn headers(values: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = |&(name, value): &(&'static str, &'static str)| (name.parse().unwrap(), value.parse().unwrap());
        values.iter().map(value).collect()
    }

    #[test]
    fn what_is_expected_is_said_once() {
        let read = |values| expected(&headers(values)).ok();
        assert_eq!(read(&[]), Some(Precondition::Anything));
        assert_eq!(read(&[("if-match", "\"7\"")]), Some(Precondition::Version(7)));
        assert_eq!(read(&[("if-match", "*")]), Some(Precondition::Something));
        assert_eq!(read(&[("if-none-match", "*")]), Some(Precondition::Nothing));
        assert_eq!(read(&[("if-none-match", "\"7\"")]), None);
        assert_eq!(read(&[("if-none-match", "*"), ("if-match", "*")]), None);
    }

    #[test]
    fn a_known_version_is_found_in_a_list() {
        let knows = |value| is_known(7, &headers(&[("if-none-match", value)]));
        for known in ["\"7\"", "W/\"7\"", "\"6\", \"7\"", "*"] {
            assert!(knows(known), "{known}");
        }
        for unknown in ["\"8\"", "7", "", "\"77\""] {
            assert!(!knows(unknown), "{unknown}");
        }
        assert!(!is_known(7, &headers(&[])));
    }
}
