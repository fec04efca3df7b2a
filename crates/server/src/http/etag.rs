//! `If-Match`: the version that a job must have.

use super::problem::Problem;
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use duetime_core::engine::JobRef;
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
        _ => Err(Error::invalid("If-Match", "one ETag, such as \"1795168800250\" in quotes, or *", text).into()),
    }
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
}
