//! Targets: due jobs are delivered to them instead of being handed to workers. This module defines targets; the edges
//! deliver to them.

use super::name;
use crate::invalid::Invalid;
use crate::json::{Span, read};
use crate::limits::{MINUTE_MS, SECOND_MS};
use crate::redacted::{MASK, Redacted, SHOWN_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// The default time limit of one delivery: 30 s.
pub const TIMEOUT_MS_DEFAULT: u64 = 30 * SECOND_MS;
/// The maximum time limit of one delivery: 30 min.
pub const TIMEOUT_MS_MAX: u64 = 30 * MINUTE_MS;
/// Most headers of one target.
pub const HEADERS_MAX: usize = 32;
/// Bytes of a header in memory besides its text: two strings and their allocations.
const HEADER_BYTES: usize = 2 * (size_of::<String>() + 16);
/// Bytes of the worker that delivers to a target: 21.9 KiB were measured with 4,000 queues.
const WORKER_BYTES: usize = 22 << 10;
/// Most final statuses of one target.
pub const FINAL_STATUSES_MAX: usize = 32;
/// Longest URL, header, or name of a list: as long as what is shown of an address.
pub const TEXT_BYTES_MAX: usize = SHOWN_BYTES_MAX;
/// The layout of a list to which payloads are appended as they are.
pub const LAYOUT_PLAIN: &str = "list";
/// Longest name of a layout.
pub const LAYOUT_BYTES_MAX: usize = 32;
/// The prefix of every key that the broker keeps in Redis, in any namespace.
pub const BROKER_KEYS: &str = "{duetime:";

/// The destination of due jobs. It is read from text, a URL or JSON as in the HTTP API: `"https://shop.example/hook".parse()`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Target {
    /// To an HTTP endpoint.
    Url(Endpoint),
    /// To the end of a Redis list, from which others take them.
    RedisList(RedisList),
    /// To another queue, as a new job.
    Queue(Arc<str>),
}

impl Target {
    /// About how many bytes it takes in memory, with the worker that delivers to it.
    pub(crate) fn held_bytes(&self) -> usize {
        let own = match self {
            Self::Url(Endpoint { url, method: _, headers, timeout: _, final_statuses, key: _ }) => {
                let headers: usize = headers.iter().map(|(name, value)| HEADER_BYTES + name.len() + value.len()).sum();
                url.len() + headers + size_of_val(&final_statuses[..])
            }
            Self::RedisList(RedisList { url, key, layout: _ }) => url.len() + key.len(),
            Self::Queue(queue) => queue.len(),
        };
        WORKER_BYTES + own
    }
}

/// An HTTP endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Endpoint {
    /// Its URL, `https://…` or `http://…`.
    pub url: Arc<str>,
    /// The method; by default `POST`.
    pub method: Arc<str>,
    /// Headers that go along.
    pub headers: BTreeMap<String, String>,
    /// The time limit of one delivery; by default 30 s.
    pub timeout: Span,
    /// Statuses after which the job is not delivered again; by default 410 and 422.
    pub final_statuses: Vec<u16>,
    /// The name of the keys it is signed with; by default `default`.
    pub key: Option<Arc<str>>,
}

/// A Redis list, or a queue of another program in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct RedisList {
    /// The server, `redis://…` or `rediss://…`.
    pub url: Arc<str>,
    /// The list, or with a layout what it makes of it.
    pub key: Arc<str>,
    /// How payloads are appended: [`LAYOUT_PLAIN`], or a name that whoever delivers knows; up to [`LAYOUT_BYTES_MAX`] characters
    /// a-z, 0-9 and -.
    #[serde(rename = "as", default = "plain", skip_serializing_if = "is_plain")]
    pub layout: Arc<str>,
}

fn plain() -> Arc<str> {
    Arc::from(LAYOUT_PLAIN)
}

fn is_plain(layout: &Arc<str>) -> bool {
    **layout == *LAYOUT_PLAIN
}

/// A target in its JSON form: one of `url`, `redis_list` and `queue`, and the options of a `url`.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Form {
    url: Option<Arc<str>>,
    method: Option<Arc<str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    timeout: Option<Span>,
    final_statuses: Option<Vec<u16>>,
    key: Option<Arc<str>>,
    redis_list: Option<RedisList>,
    queue: Option<Arc<str>>,
}

const METHOD_DEFAULT: &str = "POST";
const FINAL_STATUSES_DEFAULT: [u16; 2] = [410, 422];

impl TryFrom<Form> for Target {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form { url, method, headers, timeout, final_statuses, key, redis_list, queue } = form;
        let is_bare =
            method.is_none() && headers.is_empty() && timeout.is_none() && final_statuses.is_none() && key.is_none();
        match (url, redis_list, queue) {
            (Some(url), None, None) => Ok(Self::Url(Endpoint {
                url,
                method: method.unwrap_or_else(|| Arc::from(METHOD_DEFAULT)),
                headers,
                timeout: timeout.unwrap_or(Span(TIMEOUT_MS_DEFAULT)),
                final_statuses: final_statuses.unwrap_or_else(|| FINAL_STATUSES_DEFAULT.to_vec()),
                key,
            })),
            (None, Some(list), None) if is_bare => Ok(Self::RedisList(list)),
            (None, None, Some(queue)) if is_bare => Ok(Self::Queue(queue)),
            (None, Some(_), None) | (None, None, Some(_)) => Err(
                "expected an object with `url`, or without `method`, `headers`, `timeout`, `final_statuses` and `key`"
                    .into(),
            ),
            _ => Err("expected an object with exactly one of `url`, `redis_list` and `queue`".into()),
        }
    }
}

impl From<Target> for Form {
    fn from(target: Target) -> Self {
        match target {
            Target::Url(Endpoint { url, method, headers, timeout, final_statuses, key }) => Self {
                url: Some(url),
                method: Some(method),
                headers,
                timeout: Some(timeout),
                final_statuses: Some(final_statuses),
                key,
                ..Self::default()
            },
            Target::RedisList(list) => Self { redis_list: Some(list), ..Self::default() },
            Target::Queue(queue) => Self { queue: Some(queue), ..Self::default() },
        }
    }
}

impl FromStr for Target {
    type Err = String;

    /// A URL, or JSON as in the HTTP API; within its limits.
    fn from_str(text: &str) -> Result<Self, String> {
        let target = if text.starts_with('{') {
            read::<Self>(text).map_err(|unread| unread.to_string())?
        } else {
            Self::try_from(Form { url: Some(Arc::from(text)), ..Form::default() })?
        };
        target.check().map_err(|error| error.to_string())?;
        Ok(target)
    }
}

impl Target {
    /// Whether every part keeps its limits.
    ///
    /// # Errors
    /// [`Invalid`], naming the part.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Self::Url(endpoint) => endpoint.check(),
            Self::RedisList(RedisList { url, key, layout }) => {
                scheme("target.redis_list.url", url, &["redis://", "rediss://"])?;
                short("target.redis_list.url", url)?;
                short("target.redis_list.key", key)?;
                let is_name = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
                if !(1..=LAYOUT_BYTES_MAX).contains(&layout.len()) || !layout.bytes().all(is_name) {
                    let expected = format!("a name of up to {LAYOUT_BYTES_MAX} characters a-z, 0-9 and -");
                    return Err(Invalid::new("target.redis_list.as", expected, format!("{layout:?}")));
                }
                if key.starts_with(BROKER_KEYS) {
                    let expected = format!("a list that does not begin with {BROKER_KEYS}, as Duetime's own keys do");
                    return Err(Invalid::new("target.redis_list.key", expected, format!("{key:?}")));
                }
                Ok(())
            }
            Self::Queue(queue) => name::check_queue(queue),
        }
    }

    /// Its address in one line. The line may contain secrets unless the target is [masked](Self::masked).
    pub fn place(&self) -> String {
        match self {
            Self::Url(endpoint) => endpoint.url.to_string(),
            Self::RedisList(list) => format!("{} {}", list.url, list.key),
            Self::Queue(queue) => queue.to_string(),
        }
    }

    /// The target for readers who may not set it: without the values of headers, and without the user, password and query of
    /// a URL, which may be secrets of the receiver.
    #[doc(hidden)]
    #[must_use]
    pub fn masked(&self) -> Self {
        match self.clone() {
            Self::Url(mut endpoint) => {
                endpoint.headers.values_mut().for_each(|value| MASK.clone_into(value));
                endpoint.url = redacted(&endpoint.url);
                Self::Url(endpoint)
            }
            Self::RedisList(list) => Self::RedisList(RedisList { url: redacted(&list.url), ..list }),
            Self::Queue(queue) => Self::Queue(queue),
        }
    }
}

fn redacted(url: &str) -> Arc<str> {
    Redacted(url).to_string().into()
}

impl Endpoint {
    fn check(&self) -> Result<(), Invalid> {
        if self.url.starts_with("redis://") || self.url.starts_with("rediss://") {
            let expected = "a URL that begins with https:// or http:// (for a list in Redis, use \
                            {\"redis_list\":{\"url\":\"redis://…\",\"key\":\"LIST\"}})";
            return Err(Invalid::new("target.url", expected, "a URL of Redis"));
        }
        scheme("target.url", &self.url, &["https://", "http://"])?;
        short("target.url", &self.url)?;
        let methods = ["POST", "PUT", "PATCH", "GET", "DELETE"];
        if !methods.contains(&&*self.method) {
            return Err(Invalid::new("target.method", "POST, PUT, PATCH, GET or DELETE", &self.method));
        }
        if self.headers.len() > HEADERS_MAX {
            return Err(Invalid::new("target.headers", format!("at most {HEADERS_MAX}"), self.headers.len()));
        }
        for (name, value) in &self.headers {
            short("target.headers", name)?;
            let is_visible = |byte: u8| (b' '..=b'~').contains(&byte);
            if value.len() > TEXT_BYTES_MAX || !value.bytes().all(is_visible) {
                let expected = format!("at most {TEXT_BYTES_MAX} visible ASCII characters in {name:?}");
                return Err(Invalid::new("target.headers", expected, "another value"));
            }
        }
        self.timeout.check("target.timeout", 1, TIMEOUT_MS_MAX)?;
        if self.final_statuses.len() > FINAL_STATUSES_MAX {
            let expected = format!("at most {FINAL_STATUSES_MAX}");
            return Err(Invalid::new("target.final_statuses", expected, self.final_statuses.len()));
        }
        if let Some(status) = self.final_statuses.iter().find(|status| !(300..=599).contains(*status)) {
            return Err(Invalid::new("target.final_statuses", "statuses from 300 to 599", status));
        }
        self.key.as_ref().map_or(Ok(()), |key| short("target.key", key))
    }
}

fn scheme(what: &'static str, url: &str, schemes: &[&str]) -> Result<(), Invalid> {
    if schemes.iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme)) {
        Ok(())
    } else {
        Err(Invalid::new(what, format!("a URL that begins with {}", schemes.join(" or ")), Redacted(url)))
    }
}

fn short(what: &'static str, text: &str) -> Result<(), Invalid> {
    if (1..=TEXT_BYTES_MAX).contains(&text.len()) {
        Ok(())
    } else {
        Err(Invalid::new(what, format!("1 to {TEXT_BYTES_MAX} bytes"), text.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_and_prints() {
        for text in [
            r#"{"redis_list":{"url":"redis://localhost","key":"mail"}}"#,
            r#"{"redis_list":{"url":"redis://localhost","key":"mail","as":"another-1"}}"#,
            r#"{"queue":"mail"}"#,
            r#"{"url":"https://a.example/x","method":"PUT","headers":{"a":"b"},"timeout":"5s","final_statuses":[404],"key":"k"}"#,
        ] {
            let target: Target = read(text).unwrap();
            target.check().unwrap();
            assert_eq!(serde_json::to_string(&target).unwrap(), text);
        }
        let Target::Url(endpoint) = read(r#"{"url":"https://a.example/x"}"#).unwrap() else { panic!("a URL") };
        assert_eq!((&*endpoint.method, endpoint.timeout), ("POST", Span(30_000)));
        assert_eq!(endpoint.final_statuses, [410, 422]);
    }

    #[test]
    fn a_wrong_url_is_repeated_without_its_secrets() {
        for (url, shown) in [
            ("shop.example/hook", "a text without `://`"),
            ("ftp://me:secret@shop.example/hook?token=secret", "ftp://***@shop.example/hook?***"),
        ] {
            let target: Target = read(&format!("{{\"url\":\"{url}\"}}")).unwrap();
            let error = target.check().unwrap_err().to_string();
            assert_eq!(error, format!("`target.url` must be a URL that begins with https:// or http://, got {shown}"));
        }
    }

    #[test]
    fn a_layout_is_a_short_name() {
        let check = |layout: &str| {
            let list = RedisList { url: "redis://a".into(), key: "b".into(), layout: layout.into() };
            Target::RedisList(list).check()
        };
        for layout in [LAYOUT_PLAIN, "x", "a-2", &"n".repeat(LAYOUT_BYTES_MAX)] {
            assert_eq!(check(layout), Ok(()));
        }
        for layout in ["", "List", "a b", "a_b", "é", &"n".repeat(LAYOUT_BYTES_MAX + 1)] {
            let error = check(layout).unwrap_err().to_string();
            assert!(error.contains("`target.redis_list.as` must be a name of up to 32 characters"), "{error}");
        }
    }

    #[test]
    fn secrets_are_masked() {
        let shown = |text: &str| {
            let masked = serde_json::from_str::<Target>(text).unwrap().masked();
            masked.check().unwrap();
            serde_json::to_string(&masked).unwrap()
        };
        let masked = shown(r#"{"url":"https://a.example/x?token=secret","headers":{"authorization":"secret"}}"#);
        assert!(
            masked.contains(r#""https://a.example/x?***""#) && masked.contains(r#""authorization":"***""#),
            "{masked}"
        );
        assert!(!masked.contains("secret"), "{masked}");
        assert!(shown(r#"{"url":"https://me:secret@a.example/x"}"#).contains(r#""https://***@a.example/x""#));
        let list = shown(r#"{"redis_list":{"url":"redis://me:se@cret@a:1/2","key":"mail"}}"#);
        assert_eq!(list, r#"{"redis_list":{"url":"redis://***@a:1/2","key":"mail"}}"#);
        assert_eq!(shown(r#"{"queue":"mail"}"#), r#"{"queue":"mail"}"#);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for (text, why) in [
            ("{}", "an object with exactly one of"),
            (r#"{"url":"https://a.example","queue":"b"}"#, "an object with exactly one of"),
            (r#"{"queue":"b","timeout":"5s"}"#, "`headers`, `timeout`"),
            (r#"{"link":"https://a.example"}"#, "`link` is unknown"),
            (r#"{"redis_list":{"url":"redis://a","key":"b","as":7}}"#, r#"the name of a layout, such as "list""#),
        ] {
            let error = read::<Target>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        for text in [
            r#"{"url":"ftp://a.example"}"#,
            r#"{"url":"https://"}"#,
            r#"{"url":"https://a.example","method":"BREW"}"#,
            r#"{"url":"https://a.example","timeout":"31m"}"#,
            r#"{"url":"https://a.example","timeout":"0s"}"#,
            r#"{"url":"https://a.example","final_statuses":[200]}"#,
            r#"{"url":"https://a.example","headers":{"a":"b\nc"}}"#,
            r#"{"redis_list":{"url":"http://a","key":"b"}}"#,
            r#"{"redis_list":{"url":"redis://a","key":""}}"#,
            r#"{"redis_list":{"url":"redis://a","key":"{duetime:shop:0}:body"}}"#,
            r#"{"queue":"a b"}"#,
            &format!(r#"{{"url":"https://a.example","final_statuses":{:?}}}"#, vec![404; FINAL_STATUSES_MAX + 1]),
        ] {
            assert!(read::<Target>(text).unwrap().check().is_err(), "{text}");
        }
    }
}
