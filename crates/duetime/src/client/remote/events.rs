//! Server-sent events.

use super::Remote;
use super::transport::{Call, Incoming};
use crate::error::Error;
use duetime_core::api::{EventQuery, LOST, STOPPING};
use duetime_core::engine::events::{Event, Filter, What};
use serde::Deserialize;
use std::sync::Arc;

/// Maximum bytes of an event: a server's events contain only names, so a longer one is invalid.
const EVENT_BYTES_MAX: usize = 64 << 10;

/// A stream of a server's events, reopened when it ends.
#[derive(Debug)]
pub(in crate::client) struct Stream {
    remote: Remote,
    filter: Filter,
    body: Option<Incoming>,
    read: Vec<u8>,
}

impl Remote {
    pub(in crate::client) async fn listen(&self, filter: Filter) -> Result<Stream, Error> {
        let mut stream = Stream { remote: self.clone(), filter, body: None, read: Vec::new() };
        stream.open().await?;
        Ok(stream)
    }
}

impl Stream {
    async fn open(&mut self) -> Result<&mut Incoming, Error> {
        let call =
            Call::get(format!("/v1/events?{}", EventQuery { filter: self.filter.clone(), every: None, recent: false }));
        self.read.clear();
        Ok(self.body.insert(self.remote.transport.open(call).await?))
    }

    pub(in crate::client) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            while let Some(end) = self.read.windows(2).position(|bytes| bytes == b"\n\n") {
                let event: Vec<u8> = self.read.drain(..end + 2).collect();
                match read(&event)? {
                    Sent::Event(event) => {
                        if matches!(event, Event::Missed) {
                            self.body = None;
                        }
                        return Ok(Some(event));
                    }
                    Sent::Stopping => {
                        self.body = None;
                        return Ok(None);
                    }
                    Sent::Other => {}
                }
            }
            if self.read.len() > EVENT_BYTES_MAX {
                self.body = None;
                return Err(Error::protocol(format!("an event has more than {EVENT_BYTES_MAX} bytes")));
            }
            let body = match &mut self.body {
                Some(body) => body,
                None => self.open().await?,
            };
            match body.next().await {
                Ok(Some(bytes)) => self.read.extend_from_slice(&bytes),
                ended => {
                    self.body = None;
                    let why = ended.err().unwrap_or_else(|| "the event stream ended".to_owned());
                    return Err(self.remote.transport.unknown(why));
                }
            }
        }
    }
}

enum Sent {
    Event(Event),
    Stopping,
    /// A comment, or an event of a later version.
    Other,
}

fn read(event: &[u8]) -> Result<Sent, Error> {
    let text = std::str::from_utf8(event).map_err(|error| Error::protocol(format!("an event: {error}")))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = field("data").unwrap_or_default();
    Ok(match field("event") {
        Some(STOPPING) => Sent::Stopping,
        Some(LOST) => Sent::Event(Event::Missed),
        Some(word) if word.parse::<What>().is_ok() => Sent::Event(Event::Transition(Arc::new(parse(data)?))),
        _ => Sent::Other,
    })
}

fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Error> {
    serde_json::from_str(data).map_err(|error| Error::protocol(format!("an event: {error}")))
}
