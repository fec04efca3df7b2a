//! The query string of a stream of events, and its events that are not about one job.

use super::Span;
use super::query_string::{once, yes_or_no};
use crate::Error;
use crate::invalid::UNKNOWN;
use crate::json::known;
use crate::request::Filter;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The first event of a stream: everything that happens from now on is published.
pub const SUBSCRIBED: &str = "subscribed";
/// The event of a stream with `every`: something happened.
pub const ACTIVITY: &str = "activity";
/// The last event of a stream that was read too slowly, or that lost something between processes.
pub const LOST: &str = "lost";
/// The last event of a stream whose server stops.
pub const STOPPING: &str = "stopping";

/// The shortest and the longest `every`, in milliseconds.
const EVERY_MS: RangeInclusive<u64> = 100..=10_000;

/// The requested events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// About which queues and transitions.
    pub filter: Filter,
    /// Only that something happened, at most once in this interval: 100 ms to 10 s.
    pub every: Option<Duration>,
    /// Whether the stream begins with the last events before it.
    pub recent: bool,
}

impl FromStr for EventQuery {
    type Err = Error;

    /// Reads a query string. `queue` and `what` may be repeated; `what` may list several with commas.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (mut filter, mut every, mut recent) = (Filter::default(), None, None);
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "queue" => filter.queues.push(Arc::from(value)),
                "what" => {
                    for word in value.split(',') {
                        filter.what.push(word.parse()?);
                    }
                }
                "every" => once("every", &mut every, read_every(&value)?)?,
                "recent" => once("recent", &mut recent, yes_or_no("recent", &value)?)?,
                _ => {
                    let expected = known(&name, &["queue", "what", "every", "recent"]);
                    return Err(Error::invalid(name.to_string(), expected, UNKNOWN));
                }
            }
        }
        if every.is_some() && recent == Some(true) {
            return Err(Error::invalid("recent", "left out with `every`", "true"));
        }
        Ok(Self { filter, every, recent: recent == Some(true) })
    }
}

fn read_every(text: &str) -> Result<Duration, Error> {
    match text.parse() {
        Ok(Span(ms)) if EVERY_MS.contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(Error::invalid("every", "a duration from \"100ms\" to \"10s\"", format!("{text:?}"))),
    }
}

impl fmt::Display for EventQuery {
    /// Writes the query string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(self.filter.queues.iter().map(|queue| ("queue", queue)));
        text.extend_pairs(self.filter.what.iter().map(|what| ("what", what.word())));
        text.extend_pairs(self.every.map(|every| ("every", Span::from(every).to_string())));
        text.extend_pairs(self.recent.then_some(("recent", "true")));
        f.write_str(&text.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::What;

    #[test]
    fn a_query_is_read_as_it_is_written() {
        let query: EventQuery = "queue=a&queue=mail.*&what=started,failed&what=taken&every=1s500ms".parse().unwrap();
        assert_eq!(query.filter.queues, [Arc::from("a"), Arc::from("mail.*")]);
        assert_eq!(query.filter.what, [What::Started, What::Failed, What::Taken]);
        assert_eq!(query.every, Some(Duration::from_millis(1_500)));
        assert_eq!(query.to_string().parse::<EventQuery>().unwrap(), query);
        let query: EventQuery = "recent=true".parse().unwrap();
        assert!(query.recent && query.to_string() == "recent=true");
        for wrong in [
            "queues=a",
            "what=ended",
            "what=",
            "every=1",
            "every=99ms",
            "every=11s",
            "every=1s&every=1s",
            "recent=1",
            "recent=true&every=1s",
        ] {
            assert_eq!(wrong.parse::<EventQuery>().unwrap_err().code(), "invalid", "{wrong}");
        }
    }
}
