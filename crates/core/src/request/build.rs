//! Builders of requests, so that callers need not name what they leave out.

use super::{LockRequest, Patch, Query, Source, TakeRequest};
use crate::json::Timestamp;
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

    /// Only jobs due from this instant on.
    #[must_use]
    pub fn due_from(self, at: impl Into<Timestamp>) -> Self {
        Self { due_from: Some(at.into()), ..self }
    }

    /// Only jobs due up to this instant.
    #[must_use]
    pub fn due_to(self, at: impl Into<Timestamp>) -> Self {
        Self { due_to: Some(at.into()), ..self }
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

    /// Takes only jobs due from this instant on.
    #[must_use]
    pub fn due_from(self, at: impl Into<Timestamp>) -> Self {
        Self { due_from: Some(at.into()), ..self }
    }

    /// Takes only jobs due up to this instant, which must not be in the future.
    #[must_use]
    pub fn due_to(self, at: impl Into<Timestamp>) -> Self {
        Self { due_to: Some(at.into()), ..self }
    }

    /// Sets the id by which a repeat gets the same jobs.
    #[must_use]
    pub fn request_id(self, request_id: impl Into<Arc<str>>) -> Self {
        Self { request_id: Some(request_id.into()), ..self }
    }
}

impl LockRequest {
    /// Keeps the place in line for a moment after the wait, for another request that continues it.
    #[must_use]
    pub fn keep_place(self, keep: bool) -> Self {
        Self { keep_place: keep, ..self }
    }
}
