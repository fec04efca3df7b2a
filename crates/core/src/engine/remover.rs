//! Deletes queues: the records of their jobs, then their settings, then their names.
//!
//! The queue is shown until all else is gone, so whoever finds one that was half deleted, because a process died or a store
//! failed, deletes it again. Each record is deleted in the version in which its job ended: a job that is retried meanwhile
//! lives. So does one that is pushed: it keeps the queue from being deleted, or makes it anew.

use crate::api::DeletedQueue;
use crate::engine::base::Base;
use crate::engine::editor::Editor;
use crate::engine::queues::{QueueCounter, Settings};
use crate::engine::recorder::Recorder;
use crate::engine::schedules::read_schedules;
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::json::Timestamp;
use crate::model::name;
use crate::ports::{Broker, Counts, Ledger, Registry, Tally};
use crate::request::QueueStatus;
use std::sync::Arc;

/// How often records are deleted if other jobs end meanwhile.
const ROUNDS: usize = 5;

/// Deletes queues.
pub(in crate::engine) struct QueueRemover {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    registry: Arc<dyn Registry>,
    queues: Arc<QueueCounter>,
    settings: Arc<Settings>,
    editor: Arc<Editor>,
    recorder: Arc<Recorder>,
    supervisor: Arc<Supervisor>,
}

impl QueueRemover {
    pub(in crate::engine) fn new(
        base: &Base,
        queues: Arc<QueueCounter>,
        settings: Arc<Settings>,
        editor: Arc<Editor>,
        recorder: Arc<Recorder>,
    ) -> Self {
        let Base { stores, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            registry: stores.registry.clone(),
            queues,
            settings,
            editor,
            recorder,
            supervisor: supervisor.clone(),
        }
    }

    pub(in crate::engine) async fn delete(self: &Arc<Self>, queue: &str, force: bool) -> Result<DeletedQueue, Error> {
        self.supervisor.check_open()?;
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        let begin = Timestamp(self.broker.now_at_most());
        let schedules = if force { Vec::new() } else { self.schedules_of(&queue).await? };
        let mut deleted = DeletedQueue::default();
        if force {
            deleted.cancelled = self.editor.cancel_made_by(&queue, begin).await?.cancelled;
        }
        for _ in 0..ROUNDS {
            let status = self.unused(&queue, &schedules).await?;
            let Tally { succeeded, failed, cancelled, .. } = status.tally;
            deleted.existed |= status.tally != Tally::default();
            if succeeded + failed + cancelled == 0 {
                deleted.existed |= self.remove(queue).await?;
                return Ok(deleted);
            }
            deleted.deleted += self.editor.delete_ended(&queue).await?;
        }
        Err(Error::Unavailable(format!("the records of the jobs of the queue {queue:?} could not all be deleted")))
    }

    /// The schedules that push to a queue.
    async fn schedules_of(&self, queue: &Arc<str>) -> Result<Vec<Arc<str>>, Error> {
        let all = read_schedules(self.registry.as_ref(), self.broker.now()).await?.into_iter();
        Ok(all.filter(|status| status.schedule.job.queue == *queue).map(|status| status.name).collect())
    }

    /// The state of a queue in which no job waits or runs.
    async fn unused(&self, queue: &Arc<str>, schedules: &[Arc<str>]) -> Result<QueueStatus, Error> {
        let mut status = self.queues.queue(queue).await?;
        if status.tally.pending > 0 && !self.broker.is_ledger() && self.broker.backlog() > 0 {
            // Jobs that have just ended are pending until that is recorded.
            self.recorder.drain_older(0).await;
            status = self.queues.queue(queue).await?;
        }
        if live(&status.counts) == 0 && status.tally.pending == 0 && schedules.is_empty() {
            return Ok(status);
        }
        let Counts { scheduled, ready, running, .. } = status.counts;
        let waiting = (scheduled + ready).max(status.tally.pending.saturating_sub(running));
        let (queue, schedules) = (queue.clone(), schedules.to_vec());
        Err(Error::QueueInUse { queue, waiting, running, schedules })
    }

    /// Removes what is left of a queue without jobs; returns whether there was something.
    async fn remove(self: &Arc<Self>, queue: Arc<str>) -> Result<bool, Error> {
        self.supervisor
            .complete(self, |remover| async move {
                let version = remover.settings.remove(&queue).await?;
                let was_known = remover.broker.remove_queue(&queue, version).await?;
                remover.ledger.remove_queue(&queue).await?;
                Ok(version > 0 || was_known)
            })
            .await
    }
}

/// The number of jobs that have not ended.
fn live(counts: &Counts) -> u64 {
    counts.scheduled + counts.ready + counts.running
}
