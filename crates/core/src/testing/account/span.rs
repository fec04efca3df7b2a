//! How long a holder may rely on its lease or lock.

use super::{Call, Millis};

/// A lease or a lock: the grant, and later requests.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) call: Call,
    grants: Vec<Grant>,
    /// Requests that were answered as too late.
    pub(super) refused: Vec<Call>,
}

#[derive(Debug)]
struct Grant {
    call: Call,
    length_ms: u64,
    /// The end, if it was answered.
    until: Option<Millis>,
}

impl Span {
    /// The first instant at which it may have run out, by the monotonic clock.
    pub(super) fn ends_from(&self) -> Millis {
        self.grants.iter().map(|grant| grant.call.asked.mono + grant.length_ms).min().unwrap_or_default()
    }

    pub(super) fn new(call: Call, length_ms: u64, until: Millis) -> Self {
        Self { call, grants: vec![Grant { call, length_ms, until: Some(until) }], refused: Vec::new() }
    }

    pub(super) fn extended(&mut self, call: Call, length_ms: u64, answer: Option<Result<Millis, ()>>) {
        match answer {
            Some(Err(())) => self.refused.push(call),
            Some(Ok(until)) => self.grants.push(Grant { call, length_ms, until: Some(until) }),
            None => self.grants.push(Grant { call, length_ms, until: None }),
        }
    }

    /// All answered requests that extend it.
    pub(super) fn answered(&self) -> impl Iterator<Item = &Call> {
        self.grants.iter().map(|asked| &asked.call)
    }

    /// The end that was answered first.
    pub(super) fn first_until(&self) -> Millis {
        self.grants[0].until.unwrap_or(0)
    }

    /// The instant until which it certainly lasts. An extension without an answer may be carried out as soon as it was sent,
    /// or at any later time, and shorten it.
    pub(super) fn certain_until(&self) -> Millis {
        certain(self.grants.iter())
    }

    /// The instant until which it certainly lasted, judging by requests before this call.
    pub(super) fn certain_before(&self, call: &Call) -> Millis {
        certain(self.grants.iter().filter(|asked| asked.call.asked.mono < call.asked.mono))
    }
}

fn certain<'a>(grants: impl Iterator<Item = &'a Grant>) -> Millis {
    let (mut certain, mut unanswered_ms) = (0, None::<u64>);
    for Grant { call, length_ms, until } in grants {
        certain = match until {
            Some(until) => unanswered_ms.map_or(*until, |ms| (*until).min(call.asked.wall + ms)),
            None => {
                unanswered_ms = Some(unanswered_ms.map_or(*length_ms, |ms| ms.min(*length_ms)));
                certain.min(call.asked.wall + length_ms)
            }
        };
    }
    certain
}
