//! The ends of jobs and of leases: delete, release, bury; and touch, which puts a lease's end off.

use super::command::Release;
use super::connection::Connection;
use super::leases::{Lease, lease_ms};
use super::marks::JobMarks;
use crate::access::Scope;
use duetime_core::api::Span;
use duetime_core::engine::{Ending, Outcome};
use duetime_core::rules;
use duetime_core::{Error, Job, JobId, JobRef, State};
use std::sync::{Arc, LazyLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// The message of a buried job.
static BURIED: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("buried"));

/// Tries for a job that others change at the same time.
pub(super) const TRIES: usize = 5;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) async fn delete(&mut self, ids: Vec<u64>) {
        let ids: Vec<Option<JobId>> = ids.into_iter().map(JobId::new).collect();
        self.door.counters.count("delete", ids.len());
        // An id that comes twice in one batch is not found the second time.
        let leases: Vec<Option<Lease>> =
            ids.iter().map(|id| self.held((*id)?).and_then(|lease| self.state.held.remove(lease.receipt.id))).collect();
        let complete = |lease: &Lease| (lease.receipt, Ending::Outcome(Outcome::complete(None)));
        let endings: Vec<_> = leases.iter().flatten().map(complete).collect();
        let mut ended =
            if endings.is_empty() { Vec::new() } else { self.door.engine.end_leases(endings).await }.into_iter();
        for (id, lease) in ids.into_iter().zip(leases) {
            let Some(id) = id else {
                self.reply.line("NOT_FOUND");
                continue;
            };
            let deleted = match lease.map(|lease| (ended.next(), lease)) {
                Some((Some(Ok(_)), lease)) => {
                    self.door.tubes.change(&lease.tube, |known| known.deletes += 1);
                    Ok(())
                }
                // The lease has expired: the job may be ready again, and anyone may reserve it.
                None | Some((None | Some(Err(Error::LeaseLost(_))), _)) => self.delete_waiting(id).await,
                // Held on, so that the client may ask again.
                Some((Some(Err(error)), lease)) => {
                    self.state.held.put_back(lease);
                    Err(error)
                }
            };
            self.reply.done("DELETED", deleted);
        }
    }

    /// A lease that this connection holds, of a tube that it may still work on.
    pub(super) fn held(&self, id: JobId) -> Option<Lease> {
        self.state.held.get(id).filter(|lease| self.state.may(Scope::Work, &lease.tube)).cloned()
    }

    async fn delete_waiting(&mut self, id: JobId) -> Result<(), Error> {
        for _ in 0..TRIES {
            let job = self.visible(id, Scope::Change).await?;
            if job.lease_until.is_some() {
                break;
            }
            let target = JobRef { id, version: Some(job.version) };
            match self.door.engine.delete(vec![target]).await.pop() {
                Some(Err(Error::VersionMismatch { .. })) => {}
                Some(Ok(())) => {
                    self.door.tubes.change(&job.queue, |known| known.deletes += 1);
                    return Ok(());
                }
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        Err(Error::NotFound(id))
    }

    /// A job as the protocol sees it: completed and cancelled jobs do not exist, nor do jobs that the caller has no right
    /// to.
    ///
    /// # Errors
    /// [`Error::NotFound`]; of the stores.
    pub(super) async fn visible(&self, id: JobId, scope: Scope) -> Result<Job, Error> {
        let job = self.door.engine.job(id).await?;
        let is_there = !matches!(job.state(self.door.engine.now()), State::Succeeded | State::Cancelled);
        if is_there && self.state.may(scope, &job.queue) { Ok(job) } else { Err(Error::NotFound(id)) }
    }

    pub(super) async fn release(&mut self, Release { id, priority, delay_ms }: Release) {
        let release = rules::Release { delay: Span(delay_ms), priority: Some(priority) };
        let marked = |marked| JobMarks { delay_ms: Some(delay_ms), ..marked };
        self.end(id, |lease| Ending::Return(release, marked(JobMarks::of(lease.marks.as_ref())).shared()), "RELEASED")
            .await;
    }

    pub(super) async fn bury(&mut self, id: u64, priority: u32) {
        let park = rules::Park { message: BURIED.clone(), priority: Some(priority) };
        let marked = |marked: JobMarks| JobMarks { buries: marked.buries + 1, ..marked };
        self.end(id, |lease| Ending::Park(park, marked(JobMarks::of(lease.marks.as_ref())).shared()), "BURIED").await;
    }

    /// Ends a lease that this connection holds.
    async fn end(&mut self, id: u64, ending: impl FnOnce(&Lease) -> Ending, word: &str) {
        let Some(lease) = JobId::new(id).and_then(|id| self.held(id)) else {
            return self.reply.line("NOT_FOUND");
        };
        match self.door.engine.end_leases(vec![(lease.receipt, ending(&lease))]).await.pop() {
            Some(Err(error)) => {
                // If the end could not be recorded, the client may ask again.
                if matches!(error, Error::LeaseLost(_)) {
                    self.state.held.remove(lease.receipt.id);
                }
                self.reply.failure(&error);
            }
            ended => {
                self.state.held.remove(lease.receipt.id);
                // A release ends a job that is too old.
                let has_failed = ended.is_some_and(|ended| ended.is_ok_and(|ended| ended.state == State::Failed));
                self.reply.line(if has_failed { "BURIED" } else { word });
            }
        }
    }

    pub(super) async fn touch(&mut self, id: u64) {
        let Some(lease) = JobId::new(id).and_then(|id| self.held(id)) else {
            return self.reply.line("NOT_FOUND");
        };
        let extend = vec![(lease.receipt, Some(lease_ms(lease.ttr)))];
        match self.door.engine.extend(extend).await.pop() {
            Some(Err(error)) => self.reply.failure(&error),
            answer => {
                self.state.held.touch(lease.receipt.id, Instant::now());
                // A job that was cancelled elsewhere is gone for the client. It is still held, so that a `delete` counts.
                let is_cancelled = answer.is_some_and(|answer| answer.is_ok_and(|extension| extension.cancel_asked));
                self.reply.line(if is_cancelled { "NOT_FOUND" } else { "TOUCHED" });
            }
        }
    }
}
