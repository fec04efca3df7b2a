//! Which report is asked for, in a query string.

use super::HistorySpan;
use super::select::once;
use crate::Error;
use std::fmt;
use std::sync::Arc;

/// The query string of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportQuery {
    /// About this queue; by default about all.
    pub queue: Option<Arc<str>>,
    /// How far back.
    pub span: Option<HistorySpan>,
}

impl ReportQuery {
    /// Reads a query string that has no other parameters than these.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn read(text: &str, allowed: &[&str]) -> Result<Self, Error> {
        let mut query = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                _ if !allowed.contains(&&*name) => {
                    let expected = format!("one of `{}`", allowed.join("`, `"));
                    return Err(Error::invalid("query parameter", expected, format!("`{name}`")));
                }
                "queue" => once("queue", &mut query.queue, Arc::from(value))?,
                "span" => once("span", &mut query.span, value.parse()?)?,
                _ => {}
            }
        }
        Ok(query)
    }
}

impl fmt::Display for ReportQuery {
    /// Writes the query string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(self.queue.iter().map(|queue| ("queue", queue)));
        text.extend_pairs(self.span.iter().map(|span| ("span", span.word())));
        f.write_str(&text.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_it_is_written() {
        let query = ReportQuery { queue: Some("a+b".into()), span: Some(HistorySpan::Day) };
        assert_eq!(query.to_string(), "queue=a%2Bb&span=day");
        assert_eq!(ReportQuery::read(&query.to_string(), &["queue", "span"]).unwrap(), query);
        for wrong in ["span=week", "span=", "queue=a&queue=b", "limit=1"] {
            assert_eq!(ReportQuery::read(wrong, &["queue", "span"]).unwrap_err().code(), "invalid", "{wrong}");
        }
        assert_eq!(ReportQuery::read("span=day", &["queue"]).unwrap_err().code(), "invalid");
    }
}
