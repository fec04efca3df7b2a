//! The system under test: an engine, or servers of one over a network.

use crate::clock::Millis;
use crate::engine::{
    Answers, CancelOutcome, Engine, JobRef, LockRequest, Outcome, Patch, QueueSettings, Reservation, ReserveRequest,
    Settlement, TakeRequest,
};
use crate::error::Error;
use crate::json::Span;
use crate::model::id::{JobId, Receipt};
use crate::model::job::NewJob;
use crate::ports::Grant;
use async_trait::async_trait;
use std::sync::Arc;

/// Each request is answered once. If the error says that it may be tried again, it may or may not have been carried out.
#[async_trait]
pub trait System: Send + Sync {
    /// Pushes jobs without keys; returns their ids and due times.
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Answers<(JobId, Millis)>, Error>;
    /// As [`Engine::reserve`].
    async fn reserve(&self, request: ReserveRequest) -> Result<Reservation, Error>;
    /// As [`Engine::take`].
    async fn take(&self, request: TakeRequest) -> Result<Reservation, Error>;
    /// Extends one lease; returns its end.
    async fn extend(&self, receipt: Receipt, lease_ms: u64) -> Result<Millis, Error>;
    /// Ends one lease.
    async fn settle(&self, receipt: Receipt, outcome: Outcome) -> Result<Settlement, Error>;
    /// Cancels one job.
    async fn cancel(&self, id: JobId) -> Result<CancelOutcome, Error>;
    /// As [`Engine::update`].
    async fn update(&self, id: JobId, patch: Patch) -> Result<(), Error>;
    /// As [`Engine::configure`].
    async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<(), Error>;
    /// As [`Engine::acquire`].
    async fn acquire(&self, request: LockRequest) -> Result<Grant, Error>;
    /// As [`Engine::renew`].
    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Grant, Error>;
    /// As [`Engine::release_lock`].
    async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error>;
}

#[async_trait]
impl System for Engine {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Answers<(JobId, Millis)>, Error> {
        let pushed = Self::push(self, jobs).await?;
        Ok(pushed.into_iter().map(|answer| answer.map(|pushed| (pushed.job.id, pushed.job.due_at.0))).collect())
    }

    async fn reserve(&self, request: ReserveRequest) -> Result<Reservation, Error> {
        Self::reserve(self, request).await
    }

    async fn take(&self, request: TakeRequest) -> Result<Reservation, Error> {
        Self::take(self, request).await
    }

    async fn extend(&self, receipt: Receipt, lease_ms: u64) -> Result<Millis, Error> {
        let extended = Self::extend(self, vec![(receipt, Some(lease_ms))]).await.pop();
        Ok(extended.expect("an answer for each")?.lease_until.0)
    }

    async fn settle(&self, receipt: Receipt, outcome: Outcome) -> Result<Settlement, Error> {
        Self::settle(self, vec![(receipt, outcome)]).await.pop().expect("an answer for each")
    }

    async fn cancel(&self, id: JobId) -> Result<CancelOutcome, Error> {
        Self::cancel(self, vec![JobRef::from(id)]).await.pop().expect("an answer for each")
    }

    async fn update(&self, id: JobId, patch: Patch) -> Result<(), Error> {
        Self::update(self, JobRef::from(id), patch).await.map(drop)
    }

    async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<(), Error> {
        Self::configure(self, queue, settings).await.map(drop)
    }

    async fn acquire(&self, request: LockRequest) -> Result<Grant, Error> {
        Self::acquire(self, request).await
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Grant, Error> {
        Self::renew(self, name, owner, fence, Span(ttl_ms)).await
    }

    async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error> {
        Self::release_lock(self, name, owner, fence).await
    }
}
