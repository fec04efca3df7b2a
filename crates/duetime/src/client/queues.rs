//! Queues: their state, their settings and their pauses.

use super::{Client, ask, forward};
use crate::error::Error;
use duetime_core::Invalid;
use duetime_core::api::{DeletedQueue, DueCounts, Failures, History, HistorySpan, QueueChanges};
use duetime_core::engine::{Pause, QueueSettings, QueueStatus};

/// The queues: see [`Client::queues`].
#[derive(Clone, Copy, Debug)]
pub struct Queues<'c> {
    client: &'c Client,
}

impl Client {
    /// Shows, sets up, pauses and empties queues. A queue exists as soon as its name is used.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::Client;
    /// use duetime::queue::{Pause, QueueSettings};
    ///
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// let at_most_two = QueueSettings::default().max_running(2);
    /// client.queues().set_up("mail", at_most_two).await?;
    /// client.queues().pause("mail", Pause::UntilResumed).await?;
    /// assert!(client.queues().get("mail").await?.settings.paused);
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    pub fn queues(&self) -> Queues<'_> {
        Queues { client: self }
    }
}

impl Queues<'_> {
    /// Returns all queues that have jobs or settings, by name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(self) -> Result<Vec<QueueStatus>, Error> {
        ask!(self.client => queues())
    }

    /// Returns a queue. A name that was never used is an empty queue.
    ///
    /// # Errors
    /// If its name is malformed.
    pub async fn get(self, queue: &str) -> Result<QueueStatus, Error> {
        ask!(self.client => queue(&queue))
    }

    /// Sets up a queue when a program starts. What has a value in `settings` is set; everything else stays as it is, and so
    /// does a pause that an operator has set. Each field is one setting: [`retention`](QueueSettings::retention) too. Repeating
    /// the call changes nothing.
    ///
    /// # Errors
    /// Same as [`get`](Self::get), if a setting is out of bounds, and if `settings` names a pause.
    pub async fn set_up(self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        if settings.paused || settings.paused_until.is_some() {
            let expected = "left out of a set-up, which leaves pauses alone: call `queues().pause`";
            return Err(Invalid::new("paused", expected, "a pause").into());
        }
        self.change(queue, QueueChanges::named(&settings)).await
    }

    /// Changes some settings of a queue. The others stay, even if somebody else changes them at the same time.
    ///
    /// # Errors
    /// Same as [`get`](Self::get), and if a setting is out of bounds.
    pub async fn change(self, queue: &str, changes: QueueChanges) -> Result<QueueSettings, Error> {
        forward!(self.client => change_settings(queue, changes))
    }

    /// Replaces everything that is set for a queue, for example when a store is copied. What `settings` does not name gets its
    /// default, and a pause that an operator has set ends. A program calls [`set_up`](Self::set_up) at its start instead.
    ///
    /// # Errors
    /// Same as [`change`](Self::change).
    pub async fn replace(self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        ask!(self.client => configure(&queue, settings))
    }

    /// Pauses a queue: no jobs are handed out, and running ones finish.
    ///
    /// # Errors
    /// Same as [`get`](Self::get), and if the pause ends in the past or is too long.
    pub async fn pause(self, queue: &str, pause: Pause) -> Result<QueueSettings, Error> {
        ask!(self.client => pause(&queue, pause))
    }

    /// Resumes a paused queue.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub async fn resume(self, queue: &str) -> Result<QueueSettings, Error> {
        ask!(self.client => resume(&queue))
    }

    /// Cancels every waiting job of a queue and returns how many.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub async fn purge(self, queue: &str) -> Result<u64, Error> {
        ask!(self.client => purge(&queue))
    }

    /// Deletes a queue in which no job waits or runs: its settings, its counts, and the records of its jobs. So a queue that comes
    /// from a typing error disappears. A job that is pushed later makes the queue anew, with default settings. Repeating the
    /// call deletes nothing more.
    ///
    /// # Errors
    /// Same as [`get`](Self::get), and with the code `queue_in_use` if jobs wait or run, or a schedule pushes to the queue.
    pub async fn delete(self, queue: &str) -> Result<DeletedQueue, Error> {
        let force = false;
        ask!(self.client => delete_queue(&queue, force))
    }

    /// Cancels the jobs of a queue and deletes it, even if a schedule pushes to it. Running jobs are asked to stop.
    ///
    /// # Errors
    /// Same as [`get`](Self::get), and with the code `queue_in_use` while jobs run: repeat the call until none does.
    pub async fn force_delete(self, queue: &str) -> Result<DeletedQueue, Error> {
        let force = true;
        ask!(self.client => delete_queue(&queue, force))
    }

    /// Returns the throughput and lateness of the last hour or day, for one queue or for all. Each engine or server counts
    /// only its own work.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub async fn history(self, queue: Option<&str>, span: HistorySpan) -> Result<History, Error> {
        forward!(self.client => history(queue, span))
    }

    /// Returns unfinished jobs by due time, for one queue or for all. They are counted in the background. Until the first
    /// count is complete, `as_of` is `None`: ask again.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub async fn due_counts(self, queue: Option<&str>) -> Result<DueCounts, Error> {
        forward!(self.client => due_counts(queue))
    }

    /// Returns the latest failed jobs, grouped by queue, kind and message, for one queue or for all. They are read in the
    /// background. Until the first read is complete, `as_of` is `None`: ask again.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub async fn failures(self, queue: Option<&str>) -> Result<Failures, Error> {
        forward!(self.client => failures(queue))
    }
}
