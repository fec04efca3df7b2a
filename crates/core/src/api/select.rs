//! Which jobs: a selection in a body or in a query string.

use super::Instant;
#[cfg(feature = "openapi")]
use super::schema::{Key, Kind, QueueName, Tag};
use crate::engine::Query;
use crate::{Error, State};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The filter beside the states: scheduled or ready, with an attempt behind it.
const RETRYING: &str = "retrying";

const EXPECTED_STATE: &str = "scheduled, ready, running, succeeded, failed, cancelled or retrying";

/// States to look for: a word, or an array of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// Any of these; empty for all.
    pub states: Vec<State>,
    /// Only those that have been tried.
    pub retrying: bool,
}

impl States {
    fn add(&mut self, word: &str) -> Result<(), Error> {
        match State::ALL.into_iter().find(|state| state.word() == word) {
            Some(state) => self.states.push(state),
            None if word == RETRYING => self.retrying = true,
            None => return Err(Error::invalid("state", EXPECTED_STATE, format!("{word:?}"))),
        }
        if self.retrying && !self.states.is_empty() {
            return Err(Error::invalid("state", "`retrying` alone, or states", "both"));
        }
        Ok(())
    }
}

impl Serialize for States {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(words(&self.states, self.retrying))
    }
}

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = States;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state, or an array of states")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<States, E> {
                let mut states = States::default();
                states.add(word).map_err(E::custom)?;
                Ok(states)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut words: A) -> Result<States, A::Error> {
                let mut states = States::default();
                while let Some(word) = words.next_element::<Cow<'_, str>>()? {
                    states.add(&word).map_err(de::Error::custom)?;
                }
                Ok(states)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn words(states: &[State], retrying: bool) -> impl Iterator<Item = &'static str> {
    states.iter().map(|state| state.word()).chain(retrying.then_some(RETRYING))
}

/// The body of a bulk request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// In this queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueName>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Arc<str>>,
    /// In one of these states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<States>,
    /// With this tag.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Tag>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<Arc<str>>,
    /// With this key.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// Of this kind.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Kind>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// Due from this instant on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_from: Option<Instant>,
    /// Due up to this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_to: Option<Instant>,
}

impl From<Selection> for Query {
    fn from(selection: Selection) -> Self {
        let States { states, retrying } = selection.state.unwrap_or_default();
        Self {
            queue: selection.queue,
            key: selection.key,
            tag: selection.tag,
            kind: selection.kind,
            states,
            retrying,
            due_from: selection.due_from.map(|instant| instant.0),
            due_to: selection.due_to.map(|instant| instant.0),
        }
    }
}

impl From<&Query> for Selection {
    fn from(query: &Query) -> Self {
        let states = States { states: query.states.clone(), retrying: query.retrying };
        Self {
            queue: query.queue.clone(),
            state: (states != States::default()).then_some(states),
            tag: query.tag.clone(),
            key: query.key.clone(),
            kind: query.kind.clone(),
            due_from: query.due_from.map(Instant),
            due_to: query.due_to.map(Instant),
        }
    }
}

/// A question for a page of jobs.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// Which jobs.
    pub query: Query,
    /// Where the page begins.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl FromStr for Find {
    type Err = Error;

    /// Reads a query string. `state` may be repeated, or list several with commas.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut find = Self::default();
        let mut states = States::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let query = &mut find.query;
            match &*name {
                "state" => value.split(',').try_for_each(|word| states.add(word))?,
                "queue" => once("queue", &mut query.queue, Arc::from(value))?,
                "tag" => once("tag", &mut query.tag, Arc::from(value))?,
                "key" => once("key", &mut query.key, Arc::from(value))?,
                "kind" => once("kind", &mut query.kind, Arc::from(value))?,
                "due_from" => once("due_from", &mut query.due_from, instant("due_from", &value)?)?,
                "due_to" => once("due_to", &mut query.due_to, instant("due_to", &value)?)?,
                "cursor" => once("cursor", &mut find.cursor, value.into_owned())?,
                "limit" => {
                    let limit = value.parse().map_err(|_| Error::invalid("limit", "a number", format!("{value:?}")))?;
                    once("limit", &mut find.limit, limit)?;
                }
                _ => {
                    let expected =
                        "one of `queue`, `state`, `tag`, `key`, `kind`, `due_from`, `due_to`, `cursor` and `limit`";
                    return Err(Error::invalid("query parameter", expected, format!("`{name}`")));
                }
            }
        }
        find.query.states = states.states;
        find.query.retrying = states.retrying;
        Ok(find)
    }
}

pub(super) fn once<T>(what: &'static str, place: &mut Option<T>, value: T) -> Result<(), Error> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::invalid(what, "given once", "several")),
    }
}

fn instant(what: &'static str, text: &str) -> Result<u64, Error> {
    const EXPECTED: &str = "an instant such as \"2026-11-20T10:00:00.250Z\"";
    text.parse().map(|instant: Instant| instant.0).map_err(|_| Error::invalid(what, EXPECTED, format!("{text:?}")))
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
        words(&query.states, query.retrying).for_each(|word| append("state", Some(word)));
        append("due_from", query.due_from.map(|at| Instant(at).to_string()).as_deref());
        append("due_to", query.due_to.map(|at| Instant(at).to_string()).as_deref());
        append("cursor", self.cursor.as_deref());
        append("limit", self.limit.map(|limit| limit.to_string()).as_deref());
        f.write_str(&text.finish())
    }
}

/// A name as a segment of a path.
pub fn path_segment(name: &str) -> String {
    // Forms are encoded so, but for spaces; a plus sign comes as `%2B`.
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
