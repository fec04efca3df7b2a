//! How long a holder may count on what it holds.

use super::{Call, Millis};

/// A lease or a lock: what was granted, and what was asked for since.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) call: Call,
    grants: Vec<Asked>,
    /// It was told that it had ended.
    pub(super) refused: Vec<Call>,
}

#[derive(Debug)]
struct Asked {
    call: Call,
    length_ms: u64,
    /// Until when, where that was told.
    until: Option<Millis>,
}

impl Span {
    pub(super) fn new(call: Call, length_ms: u64, until: Millis) -> Self {
        Self { call, grants: vec![Asked { call, length_ms, until: Some(until) }], refused: Vec::new() }
    }

    pub(super) fn extended(&mut self, call: Call, length_ms: u64, answer: Option<Result<Millis, ()>>) {
        match answer {
            Some(Err(())) => self.refused.push(call),
            Some(Ok(until)) => self.grants.push(Asked { call, length_ms, until: Some(until) }),
            None => self.grants.push(Asked { call, length_ms, until: None }),
        }
    }

    /// All that it rests on.
    pub(super) fn told(&self) -> impl Iterator<Item = &Call> {
        self.grants.iter().map(|asked| &asked.call)
    }

    /// What was told at first.
    pub(super) fn first_until(&self) -> Millis {
        self.grants[0].until.unwrap_or(0)
    }

    /// It lasts until then at the least. An extension that was not answered may have been carried out as soon as it was
    /// asked for, and have shortened it.
    pub(super) fn certain_until(&self) -> Millis {
        certain(self.grants.iter())
    }

    /// It lasted until then at the least, by what was asked for before this call.
    pub(super) fn certain_before(&self, call: &Call) -> Millis {
        certain(self.grants.iter().filter(|asked| asked.call.asked.mono < call.asked.mono))
    }
}

fn certain<'a>(grants: impl Iterator<Item = &'a Asked>) -> Millis {
    grants.fold(0, |certain, asked| asked.until.unwrap_or_else(|| certain.min(asked.call.asked.wall + asked.length_ms)))
}
