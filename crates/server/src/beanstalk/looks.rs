//! Looks at jobs and tubes.

use super::command::Tube;
use super::connection::Connection;
use super::door::Door;
use super::stats;
use crate::access::Scope;
use duetime_core::engine::QueueStatus;
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::model::name::QUEUE_DEFAULT;
use duetime_core::{Error, Job, JobId, State};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// Jobs of a tube with a priority below this are urgent.
const URGENT_BELOW: u32 = 1_024;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) async fn peek(&mut self, id: u64) {
        let Some(id) = JobId::new(id) else { return self.reply.line("NOT_FOUND") };
        let found = self.visible(id, Scope::Read).await.map(Some);
        self.found(found).await;
    }

    pub(super) async fn peek_ready(&mut self) {
        self.peek_first(State::Ready, |job| (job.priority, job.due_at, job.id)).await;
    }

    pub(super) async fn peek_delayed(&mut self) {
        self.peek_first(State::Scheduled, |job| (0, job.due_at, job.id)).await;
    }

    pub(super) async fn peek_buried(&mut self) {
        self.peek_first(State::Failed, |job| (0, 0, job.id)).await;
    }

    /// Shows the first of a page of jobs of the tube in use.
    async fn peek_first<K: Ord>(&mut self, state: State, rank: impl Fn(&Job) -> K) {
        let tube = self.state.used.clone();
        if !self.state.may(Scope::Read, &tube) {
            return self.reply.line(self.state.forbidden());
        }
        let jobs = self.door.find(&tube, state, PAGE_JOBS_MAX).await;
        self.found(jobs.map(|jobs| jobs.into_iter().min_by_key(rank))).await;
    }

    async fn found(&mut self, found: Result<Option<Job>, Error>) {
        match found {
            Ok(Some(job)) if self.claim(job.payload.len()).await.is_err() => self.reply.line("OUT_OF_MEMORY"),
            Ok(Some(job)) => self.reply.job("FOUND", job.id, &job.payload),
            Ok(None) => self.reply.line("NOT_FOUND"),
            Err(error) => self.reply.failure(&error),
        }
    }

    pub(super) async fn stats_job(&mut self, id: u64) {
        let Some(id) = JobId::new(id) else { return self.reply.line("NOT_FOUND") };
        let yaml = self.visible(id, Scope::Read).await.map(|job| {
            let deadline = self.state.held.get(id).map(|lease| lease.deadline);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let settings = self.door.engine.queue_settings(&job.queue);
            stats::of_job(&job, settings.lease.map(|span| span.0), left, self.door.engine.now())
        });
        self.reply.yaml(yaml);
    }

    pub(super) async fn stats_tube(&mut self, tube: Tube) {
        if !self.state.may(Scope::Read, &tube) {
            return self.reply.line("NOT_FOUND");
        }
        let yaml = async {
            let status = self.door.engine.queue(&tube).await?;
            let known = self.door.tubes.of(&tube).unwrap_or_default();
            if !known.is_referenced() && !is_there(&status) {
                return Err(Error::NotFound(JobId::MIN));
            }
            let urgent = self.door.urgent(&status).await?;
            Ok(stats::of_tube(&status, &known, urgent, self.door.engine.now()))
        };
        let yaml = yaml.await;
        self.reply.yaml(yaml);
    }

    pub(super) async fn stats(&mut self) {
        if !self.state.caller.may_all(Scope::Read) {
            return self.reply.line(self.state.forbidden());
        }
        let door = self.door.clone();
        let _turn = door.all_tubes.lock().await;
        let yaml = self.door.stats().await;
        self.reply.yaml(yaml);
    }

    pub(super) async fn list_tubes(&mut self) {
        let door = self.door.clone();
        let _turn = door.all_tubes.lock().await;
        let yaml = self.door.tubes_with_jobs().await.map(|queues| {
            let names = queues.into_iter().map(|status| status.queue).collect();
            let tubes = self.door.tubes.ordered(names);
            let is_readable = |tube: &Tube| {
                self.state.may(Scope::Read, tube) || *tube == self.state.used || self.state.watched.contains(tube)
            };
            stats::list(tubes.iter().filter(|tube| is_readable(tube)))
        });
        match yaml {
            Ok(yaml) if self.claim(yaml.len()).await.is_err() => self.reply.line("OUT_OF_MEMORY"),
            yaml => self.reply.yaml(yaml),
        }
    }

    pub(super) fn list_watched(&mut self) {
        self.reply.yaml(Ok(stats::list(self.state.watched.iter())));
    }
}

impl Door {
    /// All tubes that are there because of their jobs, or a pause.
    pub(super) async fn tubes_with_jobs(&self) -> Result<Vec<QueueStatus>, Error> {
        let mut queues = self.engine.queues().await?;
        queues.retain(is_there);
        Ok(queues)
    }

    /// True if a tube exists: a client uses it, or it has jobs.
    pub(super) async fn has_tube(&self, tube: &str) -> Result<bool, Error> {
        let is_known = tube == QUEUE_DEFAULT || self.tubes.of(tube).is_some_and(|known| known.is_referenced());
        Ok(is_known || is_there(&self.engine.queue(tube).await?))
    }

    /// The number of urgent jobs among the first ready ones in due order.
    pub(super) async fn urgent(&self, status: &QueueStatus) -> Result<u64, Error> {
        if status.counts.ready == 0 {
            return Ok(0);
        }
        let jobs = self.find(&status.queue, State::Ready, PAGE_JOBS_MAX).await?;
        Ok(jobs.iter().filter(|job| job.priority < URGENT_BELOW).count() as u64)
    }
}

fn is_there(status: &QueueStatus) -> bool {
    let counts = &status.counts;
    let jobs = counts.ready + counts.scheduled + counts.running + status.tally.failed;
    jobs > 0 || status.settings.paused || *status.queue == *QUEUE_DEFAULT
}
