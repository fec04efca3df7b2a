//! Builders of requests, so that callers need not name what they leave out.

use super::{Patch, Query, Source, TakeRequest};
use crate::model::job::{Due, Payload};
use crate::model::states::States;
use std::sync::Arc;

impl Query {
    /// Only jobs of this queue.
    #[must_use]
    pub fn queue(self, queue: impl Into<Arc<str>>) -> Self {
        Self { queue: Some(queue.into()), ..self }
    }

    /// Only jobs in this state, or in one of these.
    #[must_use]
    pub fn state(self, state: impl Into<States>) -> Self {
        Self { state: state.into(), ..self }
    }

    /// Only jobs with this tag.
    #[must_use]
    pub fn tag(self, tag: impl Into<Arc<str>>) -> Self {
        Self { tag: Some(tag.into()), ..self }
    }

    /// Only jobs with this key.
    #[must_use]
    pub fn key(self, key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Only jobs of this kind.
    #[must_use]
    pub fn kind(self, kind: impl Into<Arc<str>>) -> Self {
        Self { kind: Some(kind.into()), ..self }
    }
}

impl Patch {
    /// Sets another due time.
    #[must_use]
    pub fn due(self, due: Due) -> Self {
        Self { due: Some(due), ..self }
    }

    /// Sets another priority; 0 is the most urgent.
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Sets another payload.
    #[must_use]
    pub fn payload(self, payload: impl Into<Payload>) -> Self {
        Self { payload: Some(payload.into()), ..self }
    }
}

impl TakeRequest {
    /// A take of one job from this source.
    pub fn new(from: impl Into<Source>) -> Self {
        Self { from: from.into(), limit: 1, due_from: None, due_to: None, request_id: None }
    }

    /// Sets the maximum number of jobs: 1 to 1000; by default 1.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sets the id by which a repeat gets the same jobs.
    #[must_use]
    pub fn request_id(self, request_id: impl Into<Arc<str>>) -> Self {
        Self { request_id: Some(request_id.into()), ..self }
    }
}
