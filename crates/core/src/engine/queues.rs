//! Queues: their settings, kept in the registry, and their counts.

use super::parts::settings::REFRESH_EVERY;
use super::{Configured, Engine, Expected, Pause, QueueSettings, QueueStatus};
use crate::clock::Millis;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::limits::STEP_QUEUES_MAX;
use crate::model::name;
use crate::ports::{Document, OverflowDue, PutIf, Queues, Registry, after};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The registry's kind of document for a queue's settings.
const KIND: &str = "queue";

impl Engine {
    /// Reads all settings, before anything is served.
    pub(super) async fn load_settings(&self) -> Result<(), Error> {
        for (queue, settings, version) in read_settings(self.registry.as_ref()).await? {
            self.broker.limit(&queue, settings.limits(), version).await?;
            self.settings.set(queue, settings);
        }
        Ok(())
    }

    /// Reads all settings again.
    pub(super) async fn read_settings(&self) -> Result<(), Error> {
        let read = read_settings(self.registry.as_ref()).await?;
        for (queue, settings, version) in &read {
            self.tell_limits(queue, settings, *version).await?;
        }
        self.settings.set_all(read.into_iter().map(|(queue, settings, _)| (queue, settings)).collect());
        Ok(())
    }

    /// Takes over what another process may have set.
    pub(super) async fn take_over(&self, queue: &Arc<str>, settings: QueueSettings, version: u64) -> Result<(), Error> {
        if *self.settings.of(queue) != settings {
            self.tell_limits(queue, &settings, version).await?;
            self.settings.set(queue.clone(), settings);
        }
        Ok(())
    }

    /// Passes a queue's limits to the broker if they are new here: the process that set them may have died before.
    async fn tell_limits(&self, queue: &Arc<str>, settings: &QueueSettings, version: u64) -> Result<(), Error> {
        if self.settings.of(queue).limits() == settings.limits() {
            return Ok(());
        }
        self.broker.limit(queue, settings.limits(), version).await
    }

    /// Sets a queue's settings.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        self.reconfigure(queue, move |_| settings.clone()).await
    }

    /// Stops handing out a queue's jobs. Running jobs continue.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn pause(&self, queue: &str, pause: Pause) -> Result<QueueSettings, Error> {
        let paused_until = self.end_of(pause)?;
        let paused = move |known| QueueSettings { paused: true, paused_until, ..known };
        self.reconfigure(queue, paused).await
    }

    /// When a pause that begins now ends; `None` if it lasts until it is resumed. A length counts from
    /// [`now_at_most`](Self::now_at_most), so that the pause never ends early.
    pub(super) fn end_of(&self, pause: Pause) -> Result<Option<Millis>, Invalid> {
        pause.end(if matches!(pause, Pause::For(_)) { self.now_at_most() } else { self.now() })
    }

    /// Hands out a queue's jobs again.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn resume(&self, queue: &str) -> Result<QueueSettings, Error> {
        self.reconfigure(queue, |known| QueueSettings { paused: false, paused_until: None, ..known }).await
    }

    /// Ends pauses at their time, until the process stops.
    pub(super) async fn end_pauses(&self) {
        loop {
            let changed = self.settings.changed.notified();
            let (over, next) = self.settings.pauses(self.now(), STEP_QUEUES_MAX);
            for queue in over {
                let now = self.now();
                let end = move |known: QueueSettings| match known.paused_until {
                    Some(until) if until <= now => QueueSettings { paused: false, paused_until: None, ..known },
                    _ => known,
                };
                if let Err(error) = self.reconfigure(&queue, end).await {
                    tracing::warn!(%queue, %error, "the end of a pause could not be stored; trying again");
                    tokio::time::sleep(REFRESH_EVERY).await;
                }
            }
            match next {
                // The clock may be set, so it is read now and then.
                Some(next) => {
                    let sleep = tokio::time::sleep(self.broker.until(next).min(REFRESH_EVERY));
                    tokio::select! { biased; () = changed => {} () = sleep => {} }
                }
                None => changed.await,
            }
        }
    }

    /// Applies a function to a queue's settings and stores the result. Concurrent calls are made one after the other.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn reconfigure(
        &self,
        queue: &str,
        change: impl Fn(QueueSettings) -> QueueSettings + Send + 'static,
    ) -> Result<QueueSettings, Error> {
        Ok(self.reconfigure_if(queue, Expected::Anything, change).await?.0)
    }

    /// The same if the settings are as expected; also returns their new version.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Changed`].
    pub async fn reconfigure_if(
        &self,
        queue: &str,
        expected: Expected,
        change: impl Fn(QueueSettings) -> QueueSettings + Send + 'static,
    ) -> Result<(QueueSettings, u64), Error> {
        self.check_open()?;
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        self.run_to_completion(|engine| async move {
            let _one_at_a_time = engine.configuring.lock().await;
            let (settings, version) = engine.store_settings(&queue, expected, change).await?;
            engine.broker.limit(&queue, settings.limits(), version).await?;
            engine.settings.set(queue, settings.clone());
            Ok((settings, version))
        })
        .await
    }

    /// A queue's settings that this process has read. Cheap, since no store is asked.
    pub fn queue_settings(&self, queue: &str) -> Arc<QueueSettings> {
        self.settings.of(queue)
    }

    /// The queues that have a target, with their settings; cheap to ask often.
    pub fn queues_with_targets(&self) -> Vec<(Arc<str>, Arc<QueueSettings>)> {
        self.settings.with_targets()
    }

    /// Waits until settings may have changed since this call.
    pub fn settings_changed(&self) -> impl Future<Output = ()> + '_ {
        self.settings.changed.notified()
    }

    /// All queues that have jobs or settings, by name. If there may be many, ask for [some](Self::queues_from) at a time.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        let (mut all, mut from): (Vec<QueueStatus>, Arc<str>) = (Vec::new(), Arc::from(""));
        loop {
            let some = self.queues_from(&from, STEP_QUEUES_MAX).await?;
            let is_all = some.len() < STEP_QUEUES_MAX;
            all.extend(some);
            match all.last() {
                Some(last) if !is_all => from = after(&last.queue),
                _ => return Ok(all),
            }
        }
    }

    /// At most `limit` (and at most 1,000) queues that have jobs or settings, by name, from this name on. Fewer only at the
    /// end of the list.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn queues_from(&self, from: &str, limit: usize) -> Result<Vec<QueueStatus>, Error> {
        let limit = limit.min(STEP_QUEUES_MAX);
        let asked = Queues::From(Arc::from(from), limit);
        let mut queues: BTreeMap<Arc<str>, QueueStatus> = BTreeMap::new();
        let (counted, tallies) = tokio::try_join!(self.broker.counts(asked.clone()), async {
            if self.topology.has_ledger() { self.ledger.tallies(asked).await } else { Ok(Vec::new()) }
        })?;
        for (queue, counts, tally) in counted {
            let status = queues.entry(queue).or_default();
            (status.counts, status.tally) = (counts, tally.unwrap_or_default());
        }
        for (queue, tally) in tallies {
            queues.entry(queue).or_default().tally = tally;
        }
        for (queue, settings) in self.settings.from(from, limit) {
            queues.entry(queue).or_default().settings = settings.as_ref().clone();
        }
        // Each of the three answered its first ones, so the first ones of the union are complete.
        let mut statuses = Vec::with_capacity(queues.len().min(limit));
        for (queue, status) in queues.into_iter().take(limit) {
            let over = self.overflow_due(&queue).await?;
            statuses.push(QueueStatus { queue, ..status }.with_far(over));
        }
        Ok(statuses)
    }

    /// One queue, known or not.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        let counted = self.broker.counts(Queues::one(&queue)).await?.pop();
        let (counts, mut tally) = counted.map(|(_, counts, tally)| (counts, tally)).unwrap_or_default();
        if self.topology.has_ledger() {
            tally = self.ledger.tallies(Queues::one(&queue)).await?.pop().map(|(_, tally)| tally);
        }
        let settings = self.settings.of(&queue).as_ref().clone();
        let over = self.overflow_due(&queue).await?;
        let tally = tally.unwrap_or_default();
        Ok(QueueStatus { queue, counts, tally, settings, target_held_until: None }.with_far(over))
    }

    /// The same with its settings as they are stored just now, and their version: 0 if none were ever set.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn queue_versioned(&self, queue: &str) -> Result<(QueueStatus, u64), Error> {
        let status = self.queue(queue).await?;
        let Some((settings, version)) = read_one(self.registry.as_ref(), queue).await? else { return Ok((status, 0)) };
        Ok((QueueStatus { settings, ..status }, version))
    }

    /// Stores changed settings if the stored ones are as expected.
    async fn store_settings(
        &self,
        queue: &Arc<str>,
        expected: Expected,
        change: impl Fn(QueueSettings) -> QueueSettings,
    ) -> Result<(QueueSettings, u64), Error> {
        loop {
            let stored = read_one(self.registry.as_ref(), queue).await?;
            let (known, version) = stored.unwrap_or_default();
            expected.check("queue", queue, version)?;
            let settings = change(known);
            settings.check(queue)?;
            self.names.admit(queue)?;
            let shown = Configured::new(queue.clone(), settings.clone());
            let body = serde_json::to_string(&shown).expect("settings have only string keys");
            self.announce_change(queue).await?;
            if let PutIf::Stored(version) = self.registry.put_if(KIND, queue, &body, version).await? {
                return Ok((settings, version));
            }
        }
    }
}

impl QueueStatus {
    /// Counts jobs that wait in the ledger: due jobs of the overflow as ready, all others as scheduled.
    fn with_far(mut self, over: OverflowDue) -> Self {
        self.counts.ready += over.jobs;
        self.counts.oldest_due = self.counts.oldest_due.into_iter().chain(over.oldest_due).min();
        let near = self.counts.ready + self.counts.running;
        self.counts.scheduled = self.counts.scheduled.max(self.tally.pending.saturating_sub(near));
        self
    }
}

/// A queue's settings as they are stored, and their version.
pub(super) async fn read_one(registry: &dyn Registry, queue: &str) -> Result<Option<(QueueSettings, u64)>, Error> {
    let Some(document) = registry.document(KIND, queue).await? else { return Ok(None) };
    Ok(Some((parse(queue, &document.body)?, document.version)))
}

/// The settings of all queues that have some, by name, with their versions.
pub(super) async fn read_settings(registry: &dyn Registry) -> Result<Vec<(Arc<str>, QueueSettings, u64)>, Error> {
    let documents = registry.documents(KIND).await?.into_iter();
    let read = |Document { name, body, version }: Document| Ok((Arc::from(&*name), parse(&name, &body)?, version));
    documents.map(read).collect()
}

fn parse(queue: &str, body: &str) -> Result<QueueSettings, Error> {
    let read = serde_json::from_str(body).map(Configured::into_settings);
    read.map_err(|error| Error::Damaged(format!("the settings of the queue {queue:?}: {error}")))
}
