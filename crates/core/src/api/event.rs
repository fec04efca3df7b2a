//! What happens to jobs: the query and the names of server-sent events.

use crate::Error;
use crate::engine::events::Filter;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The event of a stream that has begun: what happens from then on is told.
pub const SUBSCRIBED: &str = "subscribed";
/// The event of a stream that ends since it was read too slowly, or something was lost on its way.
pub const LOST: &str = "lost";
/// The event of a stream that ends since the server stops.
pub const STOPPING: &str = "stopping";

/// Which events are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery(pub Filter);

impl FromStr for EventQuery {
    type Err = Error;

    /// Reads a query string. `queue` may be repeated; `what`, too, or list several with commas.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut filter = Filter::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "queue" => filter.queues.push(Arc::from(value)),
                "what" => {
                    for word in value.split(',') {
                        filter.what.push(word.parse()?);
                    }
                }
                _ => return Err(Error::invalid("query parameter", "one of `queue` and `what`", format!("`{name}`"))),
            }
        }
        Ok(Self(filter))
    }
}

impl fmt::Display for EventQuery {
    /// Writes the query string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(self.0.queues.iter().map(|queue| ("queue", queue)));
        text.extend_pairs(self.0.what.iter().map(|what| ("what", what.word())));
        f.write_str(&text.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::events::What;

    #[test]
    fn a_query_is_read_as_it_is_written() {
        let query: EventQuery = "queue=a&queue=mail.*&what=started,failed&what=taken".parse().unwrap();
        assert_eq!(query.0.queues, [Arc::from("a"), Arc::from("mail.*")]);
        assert_eq!(query.0.what, [What::Started, What::Failed, What::Taken]);
        assert_eq!(query.to_string().parse::<EventQuery>().unwrap(), query);
        for wrong in ["queues=a", "what=ended", "what="] {
            assert_eq!(wrong.parse::<EventQuery>().unwrap_err().code(), "invalid", "{wrong}");
        }
    }
}
