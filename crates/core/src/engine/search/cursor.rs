//! Positions in a list of jobs, as the text of `next_cursor`.

use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::ports::Place;
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

    #[test]
    fn whatever_is_sent_is_a_cursor_or_refused() {
        crate::testing::fuzz("cursor", |text| text.parse::<Cursor>().ok().map(|cursor| cursor.to_string()));
    }
}
