//! The parameters of a query string: of a page, of one lock, of a report.

use super::HistorySpan;
use super::query_string::{number, once, yes_or_no};
use crate::Error;
use crate::invalid::UNKNOWN;
use crate::json::{Span, known};
use crate::limits::WAIT_MS_MAX;
use std::fmt;
use std::sync::Arc;

/// The parameters of a query string. Each call allows some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The owner.
    pub owner: Option<Arc<str>>,
    /// The fence.
    pub fence: Option<u64>,
    /// The cursor of the page.
    pub cursor: Option<String>,
    /// The maximum number of results.
    pub limit: Option<usize>,
    /// About this queue; by default about all.
    pub queue: Option<Arc<str>>,
    /// The time span.
    pub span: Option<HistorySpan>,
    /// The time to wait.
    pub wait: Option<Span>,
    /// Whether to do it though jobs are in the way.
    pub force: Option<bool>,
}

impl Parameters {
    /// Reads a query string that has no other parameters than these.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn read(text: &str, allowed: &[&str]) -> Result<Self, Error> {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                _ if !allowed.contains(&&*name) => {
                    let expected = known(&name, allowed);
                    return Err(Error::invalid(name.to_string(), expected, UNKNOWN));
                }
                "owner" => once("owner", &mut parameters.owner, Arc::from(value))?,
                "fence" => once("fence", &mut parameters.fence, number("fence", &value)?)?,
                "cursor" => once("cursor", &mut parameters.cursor, value.into_owned())?,
                "limit" => once("limit", &mut parameters.limit, number("limit", &value)?)?,
                "queue" => once("queue", &mut parameters.queue, Arc::from(value))?,
                "span" => once("span", &mut parameters.span, value.parse()?)?,
                "wait" => once("wait", &mut parameters.wait, wait(&value)?)?,
                "force" => once("force", &mut parameters.force, yes_or_no("force", &value)?)?,
                _ => {}
            }
        }
        Ok(parameters)
    }

    /// The owner, which must be named.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn owner(&self) -> Result<&Arc<str>, Error> {
        self.owner.as_ref().ok_or_else(|| Error::invalid("owner", "given as ?owner=…", "nothing"))
    }

    /// The fence, which must be named.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn fence(&self) -> Result<u64, Error> {
        self.fence.ok_or_else(|| Error::invalid("fence", "given as ?owner=…&fence=…", "nothing"))
    }
}

impl fmt::Display for Parameters {
    /// Writes the query string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, fence, cursor, limit, queue, span, wait, force } = self;
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(owner.iter().map(|owner| ("owner", owner)));
        text.extend_pairs(fence.iter().map(|fence| ("fence", fence.to_string())));
        text.extend_pairs(cursor.iter().map(|cursor| ("cursor", cursor)));
        text.extend_pairs(limit.iter().map(|limit| ("limit", limit.to_string())));
        text.extend_pairs(queue.iter().map(|queue| ("queue", queue)));
        text.extend_pairs(span.iter().map(|span| ("span", span.word())));
        text.extend_pairs(wait.iter().map(|wait| ("wait", wait.to_string())));
        text.extend_pairs(force.iter().map(|force| ("force", force.to_string())));
        f.write_str(&text.finish())
    }
}

fn wait(text: &str) -> Result<Span, Error> {
    let bounds = || format!("a duration of {}, such as \"30s\"", Span::bounds(0, WAIT_MS_MAX));
    let wait = text.parse().ok().filter(|&Span(ms)| ms <= WAIT_MS_MAX);
    wait.ok_or_else(|| Error::invalid("wait", bounds(), format!("{text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings_read_and_print() {
        let lock = Parameters { owner: Some("a b&ü".into()), fence: Some(7), ..Parameters::default() };
        let page = Parameters { cursor: Some("a+b".into()), limit: Some(3), ..Parameters::default() };
        let report = Parameters { queue: Some("a+b".into()), span: Some(HistorySpan::Day), ..Parameters::default() };
        let end = Parameters { wait: Some(Span(90)), ..Parameters::default() };
        let by_force = Parameters { force: Some(true), ..Parameters::default() };
        for (parameters, text, allowed) in [
            (by_force, "force=true", ["force", "queue"]),
            (end, "wait=90ms", ["wait", "queue"]),
            (lock, "owner=a+b%26%C3%BC&fence=7", ["owner", "fence"]),
            (page, "cursor=a%2Bb&limit=3", ["cursor", "limit"]),
            (report, "queue=a%2Bb&span=day", ["queue", "span"]),
        ] {
            assert_eq!(parameters.to_string(), text);
            assert_eq!(Parameters::read(text, &allowed).unwrap(), parameters);
            assert_eq!(Parameters::read(text, &["none"]).unwrap_err().code(), "invalid", "{text}");
        }
        let all = ["owner", "fence", "cursor", "limit", "queue", "span", "wait", "force"];
        for wrong in [
            "force=",
            "force=1",
            "wait=",
            "wait=30",
            "wait=61s",
            "wait=1s&wait=1s",
            "fence=x",
            "fence=+7",
            "fence=",
            "limit=-1",
            "owner=a&owner=b",
            "span=week",
            "span=",
            "x",
        ] {
            assert_eq!(Parameters::read(wrong, &all).unwrap_err().code(), "invalid", "{wrong}");
        }
    }
}
