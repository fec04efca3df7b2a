//! The filter for jobs in a query string; in a body it is a [`Query`].

use super::Timestamp;
use super::query_string::{number, once};
use crate::Error;
use crate::invalid::UNKNOWN;
use crate::json::known;
use crate::request::Query;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The parameters of the query string.
const PARAMETERS: [&str; 9] = ["queue", "state", "tag", "key", "kind", "due_from", "due_to", "cursor", "limit"];

/// A question for a page of jobs.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// The jobs.
    pub query: Query,
    /// The cursor of the page.
    pub cursor: Option<String>,
    /// The maximum number of jobs.
    pub limit: Option<usize>,
}

impl FromStr for Find {
    type Err = Error;

    /// Reads a query string. `state` may be repeated, or list several with commas.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut find = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let query = &mut find.query;
            match &*name {
                "state" => value.split(',').try_for_each(|word| query.state.add(word))?,
                "queue" => once("queue", &mut query.queue, Arc::from(value))?,
                "tag" => once("tag", &mut query.tag, Arc::from(value))?,
                "key" => once("key", &mut query.key, Arc::from(value))?,
                "kind" => once("kind", &mut query.kind, Arc::from(value))?,
                "due_from" => once("due_from", &mut query.due_from, Timestamp(instant("due_from", &value)?))?,
                "due_to" => once("due_to", &mut query.due_to, Timestamp(instant("due_to", &value)?))?,
                "cursor" => once("cursor", &mut find.cursor, value.into_owned())?,
                "limit" => once("limit", &mut find.limit, number("limit", &value)?)?,
                _ => {
                    let expected = known(&name, &PARAMETERS);
                    return Err(Error::invalid(name.to_string(), expected, UNKNOWN));
                }
            }
        }
        Ok(find)
    }
}

fn instant(what: &'static str, text: &str) -> Result<u64, Error> {
    const EXPECTED: &str = "an instant such as \"2026-11-20T10:00:00.250Z\"";
    text.parse().map(|instant: Timestamp| instant.0).map_err(|_| Error::invalid(what, EXPECTED, format!("{text:?}")))
}

impl fmt::Display for Find {
    /// Writes the query string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = &self.query;
        let mut text = form_urlencoded::Serializer::new(String::new());
        let mut append = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                text.append_pair(name, value);
            }
        };
        append("queue", query.queue.as_deref());
        append("tag", query.tag.as_deref());
        append("key", query.key.as_deref());
        append("kind", query.kind.as_deref());
        query.state.words().for_each(|word| append("state", Some(word)));
        append("due_from", query.due_from.map(|at| at.to_string()).as_deref());
        append("due_to", query.due_to.map(|at| at.to_string()).as_deref());
        append("cursor", self.cursor.as_deref());
        append("limit", self.limit.map(|limit| limit.to_string()).as_deref());
        f.write_str(&text.finish())
    }
}

/// A name as a segment of a path.
pub fn path_segment(name: &str) -> String {
    // Form encoding differs only in spaces; a plus sign comes as `%2B`.
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
