//! Positions in a list of jobs, as the text of `next_cursor`: behind a digest of the query, so that one of another list is noticed. The digest is
//! no secret, and guards nothing but against mistakes.

use crate::clock::Millis;
use crate::error::Error;
use crate::hash;
use crate::model::id::JobId;
use crate::ports::Place;
use crate::request::Query;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A position in a list of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Cursor {
    /// In due order, after this place in the broker.
    Near(Option<(Millis, JobId)>),
    /// In the ledger's order, beyond the watermark as it was, after this place.
    Far(Millis, Option<String>),
    /// In the ledger's order, after this place.
    All(Option<String>),
    /// Ended jobs with a key or a tag, in the order of their ids, after this place.
    Ended(Option<String>),
    /// Ended jobs, the latest end first, after this place.
    Latest(Option<Place>),
    /// From this queue on; in it, from this place on.
    Queue(Arc<str>, Option<Box<Self>>),
}

pub(in crate::engine) fn wrong_cursor(cursor: impl fmt::Display) -> Error {
    Error::invalid("cursor", "the `next_cursor` of an earlier answer", cursor)
}

/// Of the conditions of a query, but not of its due times: they only cut the list, and a program may compute them anew for each page.
fn digest(query: &Query) -> String {
    let Query { queue, state, tag, key, kind, due_from: _, due_to: _ } = query;
    let mut states: Vec<&str> = state.words().collect();
    states.sort_unstable();
    let json = serde_json::to_vec(&(queue, states, tag, key, kind)).expect("texts are JSON");
    format!("{:08x}", hash::stable(&json) >> 32)
}

impl Cursor {
    /// As the text of `next_cursor` in the list that a query asks for.
    pub(super) fn write(&self, query: &Query) -> String {
        format!("{}-{self}", digest(query))
    }

    /// Reads such a text.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none, or of another list.
    pub(super) fn read(text: &str, query: &Query) -> Result<Self, Error> {
        let (list, place) = text.split_once('-').ok_or_else(|| wrong_cursor(text))?;
        let cursor = place.parse().map_err(|_| wrong_cursor(text))?;
        if list == digest(query) {
            return Ok(cursor);
        }
        let expected =
            "the `next_cursor` of an earlier page of the same list: with the same queue, states, tag, key and kind";
        Err(Error::invalid("cursor", expected, format!("{text}, of another list")))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |place: &Option<String>| place.clone().unwrap_or_default();
        match self {
            Self::Near(after) => {
                let (due_at, id) = after.map_or((0, 0), |(due_at, id)| (due_at, id.get()));
                write!(f, "n-{due_at}-{id}")
            }
            Self::Far(watermark, after) => write!(f, "f-{watermark}-{}", place(after)),
            Self::All(after) => write!(f, "a-0-{}", place(after)),
            Self::Ended(after) => write!(f, "e-0-{}", place(after)),
            Self::Latest(None) => write!(f, "l-0-"),
            Self::Latest(Some(after)) => write!(f, "l-0-{after}"),
            Self::Queue(queue, None) => write!(f, "q-{}-{queue}", queue.len()),
            Self::Queue(queue, Some(place)) => write!(f, "q-{}-{queue}{place}", queue.len()),
        }
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || wrong_cursor(text);
        let mut parts = text.splitn(3, '-');
        let mut part = || parts.next().ok_or_else(wrong);
        let (form, first, second) = (part()?, part()?, part()?);
        let first: u64 = first.parse().map_err(|_| wrong())?;
        let place = Some(second.to_owned()).filter(|place| !place.is_empty());
        match form {
            "n" => {
                let number = second.parse().map_err(|_| wrong())?;
                Ok(Self::Near(JobId::new(number).map(|id| (first, id))))
            }
            "f" => Ok(Self::Far(first, place)),
            "a" if first == 0 => Ok(Self::All(place)),
            "e" if first == 0 => Ok(Self::Ended(place)),
            "l" if first == 0 => Ok(Self::Latest(place.map(|place| place.parse()).transpose()?)),
            "q" => {
                let length = usize::try_from(first).ok().filter(|&length| second.is_char_boundary(length));
                let (queue, place) = second.split_at(length.ok_or_else(wrong)?);
                if place.starts_with('q') {
                    return Err(wrong());
                }
                let place: Option<Self> = (!place.is_empty()).then(|| place.parse()).transpose()?;
                Ok(Self::Queue(queue.into(), place.map(Box::new)))
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::State;

    #[test]
    fn a_cursor_of_another_list_is_refused() {
        let query = Query::default().queue("a").state(vec![State::Failed, State::Cancelled]);
        let text = Cursor::All(Some("7".to_owned())).write(&query);
        let same = [
            query.clone(),
            query.clone().state(vec![State::Cancelled, State::Failed]),
            query.clone().due_from(crate::json::Timestamp(5)),
        ];
        for query in same {
            assert_eq!(Cursor::read(&text, &query), Ok(Cursor::All(Some("7".to_owned()))), "{query:?}");
        }
        let others = [
            Query::default(),
            query.clone().queue("b"),
            query.clone().state(State::Failed),
            query.clone().tag("t"),
            query.clone().key("k"),
            query.kind("k"),
        ];
        for query in others {
            let message = Cursor::read(&text, &query).unwrap_err().to_string();
            assert!(message.contains("of another list"), "{query:?}: {message}");
        }
    }

    #[test]
    fn whatever_is_sent_is_a_cursor_or_refused() {
        crate::testing::fuzz("cursor", |text| text.parse::<Cursor>().ok().map(|cursor| cursor.to_string()));
    }
}
