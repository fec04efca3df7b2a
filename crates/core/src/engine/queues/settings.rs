//! The settings of queues, as they are set and stored.

use super::changes::Change;
use super::documents::{KIND, read_one, read_settings};
use super::{REFRESH_EVERY, Settings};
use crate::api::each_follow_up;
use crate::clock::Millis;
use crate::engine::precondition::Precondition;
use crate::engine::timers::Timer;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::json::Timestamp;
use crate::limits::{STEP_QUEUES_MAX, TARGETS_BYTES_MAX};
use crate::model::name;
use crate::model::options::JobOptions;
use crate::model::target::Target;
use crate::ports::{Broker, PutIf};
use crate::request::{Configured, Pause, QueueSettings};
use std::sync::Arc;
use std::time::Duration;

impl Settings {
    /// Reads all settings, before anything is served. A broker that takes no limits yet gets them from the registry when its memory
    /// begins.
    pub(in crate::engine) async fn load(&self) -> Result<(), Error> {
        let read = read_settings(self.registry.as_ref()).await?;
        for (queue, settings, _) in &read {
            self.set(queue.clone(), settings.clone());
        }
        for (queue, settings, version) in read {
            match self.broker.limit(&queue, settings.limits(), version).await {
                Err(Error::Unavailable(why)) => tracing::debug!(%queue, why, "the broker takes no limits yet"),
                limited => limited?,
            }
        }
        Ok(())
    }

    /// Reads all settings again.
    pub(in crate::engine) async fn read_settings(&self) -> Result<(), Error> {
        let read = read_settings(self.registry.as_ref()).await?;
        for (queue, settings, version) in &read {
            self.tell_limits(queue, settings, *version).await?;
        }
        self.set_all(read.into_iter().map(|(queue, settings, _)| (queue, settings)).collect());
        Ok(())
    }

    /// Takes over what another process may have set.
    pub(in crate::engine) async fn take_over(
        &self,
        queue: &Arc<str>,
        settings: QueueSettings,
        version: u64,
    ) -> Result<(), Error> {
        if *self.of(queue) != settings {
            self.tell_limits(queue, &settings, version).await?;
            self.set(queue.clone(), settings);
        }
        Ok(())
    }

    /// Whether a job with these options may have its target in this queue, and the jobs that follow it theirs.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the field.
    pub(in crate::engine) fn check_targets(&self, queue: &str, options: &JobOptions) -> Result<(), Error> {
        self.options.check_target(options.target.as_deref())?;
        if options.target.is_some() && self.of(queue).target.is_none() {
            let expected = "left out, because the queue has no target in its settings: its jobs are handed to workers";
            return Err(Error::invalid("target", expected, format!("one, for the queue {queue:?}")));
        }
        each_follow_up(options, |next| self.check_targets(&next.queue, &next.options))
    }

    /// Passes a queue's limits to the broker if they are new here: the process that set them may have died before.
    async fn tell_limits(&self, queue: &Arc<str>, settings: &QueueSettings, version: u64) -> Result<(), Error> {
        if self.of(queue).limits() == settings.limits() {
            return Ok(());
        }
        self.broker.limit(queue, settings.limits(), version).await
    }

    pub(in crate::engine) async fn configure(
        self: &Arc<Self>,
        queue: &str,
        settings: QueueSettings,
    ) -> Result<QueueSettings, Error> {
        self.reconfigure(queue, move |_| settings.clone()).await
    }

    /// Pauses a queue, for the holder of a token with this name. A pause that lasts already keeps its begin.
    pub(in crate::engine) async fn pause(
        self: &Arc<Self>,
        queue: &str,
        pause: Pause,
        by: Option<Arc<str>>,
    ) -> Result<QueueSettings, Error> {
        let paused_until = end_of(pause, self.broker.as_ref())?.map(Timestamp);
        let now = Timestamp(self.broker.now());
        let paused = move |known: QueueSettings| {
            let paused_at = known.paused_at.filter(|_| known.paused).or(Some(now));
            QueueSettings { paused: true, paused_until, paused_at, paused_by: by.clone(), ..known }
        };
        self.reconfigure(queue, paused).await
    }

    pub(in crate::engine) async fn resume(self: &Arc<Self>, queue: &str) -> Result<QueueSettings, Error> {
        self.reconfigure(queue, QueueSettings::resumed).await
    }

    /// Ends pauses at their time, until the process stops.
    pub(in crate::engine) async fn end_pauses(self: &Arc<Self>) {
        loop {
            let changed = self.changed.notified();
            let (over, next) = self.pauses(self.broker.now(), STEP_QUEUES_MAX);
            for queue in over {
                if let Err(error) = self.end_pause(&queue).await {
                    tracing::warn!(%queue, %error, "the end of a pause could not be stored; trying again");
                    tokio::time::sleep(REFRESH_EVERY).await;
                }
            }
            // The clock may be set, so it is read now and then.
            let look_again = if next.is_some() { REFRESH_EVERY } else { Duration::MAX };
            let sleep = self.timers.sleep(Timer::Pauses, next, look_again);
            tokio::select! { biased; () = changed => {} () = sleep => {} }
        }
    }

    /// Ends the pause of a queue if its time is over. Another process may have changed the settings, or deleted them: they are
    /// not made anew.
    async fn end_pause(self: &Arc<Self>, queue: &Arc<str>) -> Result<(), Error> {
        let version = {
            let _one_at_a_time = self.configuring.lock().await;
            match read_one(self.registry.as_ref(), queue).await? {
                None => {
                    self.unset(queue);
                    return Ok(());
                }
                Some((settings, version)) if !settings.is_pause_over(self.broker.now()) => {
                    return self.take_over(queue, settings, version).await;
                }
                Some((_, version)) => version,
            }
        };
        match self.reconfigure_if(queue, Precondition::Version(version), QueueSettings::resumed).await {
            // It was changed just now, so the next look decides.
            Ok(_) | Err(Error::Changed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(in crate::engine) async fn reconfigure(
        self: &Arc<Self>,
        queue: &str,
        change: impl Fn(QueueSettings) -> QueueSettings + Send + 'static,
    ) -> Result<QueueSettings, Error> {
        Ok(self.reconfigure_if(queue, Precondition::Anything, change).await?.0)
    }

    pub(in crate::engine) async fn reconfigure_if(
        self: &Arc<Self>,
        queue: &str,
        expected: Precondition,
        change: impl Fn(QueueSettings) -> QueueSettings + Send + 'static,
    ) -> Result<(QueueSettings, u64), Error> {
        self.supervisor.check_open()?;
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        self.supervisor
            .complete(self, |all| async move {
                let _one_at_a_time = all.configuring.lock().await;
                let (settings, version) = all.store_settings(&queue, expected, change).await?;
                all.broker.limit(&queue, settings.limits(), version).await?;
                all.set(queue, settings.clone());
                Ok((settings, version))
            })
            .await
    }

    pub(in crate::engine) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Whether there is room for this target of this queue.
    fn check_room(&self, queue: &str, target: Option<&Target>) -> Result<(), Error> {
        let Some(bytes) = target.map(Target::held_bytes) else { return Ok(()) };
        let others = self.with_targets().into_iter().filter(|(other, _)| **other != *queue);
        let all: usize = others.filter_map(|(_, settings)| settings.target.as_ref().map(Target::held_bytes)).sum();
        if all + bytes > TARGETS_BYTES_MAX {
            let expected =
                format!("smaller: the targets of all queues together take at most {TARGETS_BYTES_MAX} bytes");
            return Err(Error::invalid("target", expected, format!("{} with this one of {bytes}", all + bytes)));
        }
        Ok(())
    }

    /// Stores changed settings if the stored ones are as expected.
    async fn store_settings(
        &self,
        queue: &Arc<str>,
        expected: Precondition,
        change: impl Fn(QueueSettings) -> QueueSettings,
    ) -> Result<(QueueSettings, u64), Error> {
        loop {
            let stored = read_one(self.registry.as_ref(), queue).await?;
            let (known, version) = stored.unwrap_or_default();
            expected.check("queue", queue, version)?;
            let target = known.target.clone();
            let settings = change(known);
            settings.check(queue)?;
            // A stored one is no reason to refuse another change.
            if settings.target != target {
                self.options.check_target(settings.target.as_ref())?;
                self.check_room(queue, settings.target.as_ref())?;
            }
            self.names.admit(queue)?;
            let shown = Configured::new(queue.clone(), settings.clone());
            let body = serde_json::to_string(&shown).expect("settings have only string keys");
            self.announce(Change::Set(queue.clone())).await?;
            if let PutIf::Stored(version) = self.registry.put_if(KIND, queue, &body, version).await? {
                return Ok((settings, version));
            }
        }
    }
}

/// When a pause that begins now ends; `None` if it lasts until it is resumed. A length counts from the latest time that the broker's
/// clock can read, so that the pause never ends early.
pub(in crate::engine) fn end_of(pause: Pause, broker: &dyn Broker) -> Result<Option<Millis>, Invalid> {
    pause.end(if matches!(pause, Pause::For(_)) { broker.now_at_most() } else { broker.now() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE};
    use crate::model::target::Target;
    use crate::request::Options;

    #[tokio::test(start_paused = true)]
    async fn settings_change_only_if_they_are_as_expected() {
        let fixture = Fixture::new().await;
        let settings = &fixture.services.queues.settings;
        let set = |expected, max_running| {
            let change = move |known| QueueSettings { max_running, ..known };
            async move { Ok::<_, Error>(settings.reconfigure_if(QUEUE, expected, change).await?.1) }
        };
        let first = set(Precondition::Nothing, Some(1)).await.unwrap();
        assert_eq!(set(Precondition::Nothing, Some(2)).await.unwrap_err().code(), "version_mismatch");
        let second = set(Precondition::Version(first), Some(3)).await.unwrap();
        assert_eq!(set(Precondition::Version(first), Some(4)).await.unwrap_err().code(), "version_mismatch");
        assert!(second > first && settings.of(QUEUE).max_running == Some(3));
    }

    /// Every process holds them all.
    #[tokio::test(start_paused = true)]
    async fn all_targets_together_have_a_bound_in_bytes() {
        let fixture = Fixture::new().await;
        let settings = &fixture.services.queues.settings;
        let target: Target = r#"{"url":"http://127.0.0.1/"}"#.parse().unwrap();
        let count = TARGETS_BYTES_MAX / target.held_bytes();
        let large = QueueSettings { target: Some(target), ..QueueSettings::default() };
        (0..count).for_each(|n| settings.set(format!("q{n}").into(), large.clone()));
        let configure = async |queue: &str| settings.configure(queue, large.clone()).await;
        let refused = configure("another").await.unwrap_err().to_string();
        assert!(refused.contains("all queues together"), "{refused}");
        configure("q0").await.unwrap();
        settings.set("q1".into(), QueueSettings::default());
        configure("another").await.unwrap();
    }

    /// The code that delivers knows fewer layouts than when it was set.
    #[tokio::test(start_paused = true)]
    async fn a_stored_target_that_would_be_refused_today_does_not_keep_others_from_changing() {
        let list_check = |_: &_| Err(Invalid::new("as", "a layout that is known here", "an old one"));
        let fixture = Fixture::with(Options { list_check, ..Options::default() }).await;
        let target: Target = serde_json::from_str(r#"{"redis_list": {"url": "redis://h", "key": "k"}}"#).unwrap();
        let set = QueueSettings { target: Some(target), ..QueueSettings::default() };
        let body = serde_json::to_string(&Configured::new(QUEUE.into(), set.clone())).unwrap();
        fixture.base.stores.registry.put_if(KIND, QUEUE, &body, 0).await.unwrap();
        let settings = &fixture.services.queues.settings;
        settings.pause(QUEUE, Pause::UntilResumed, None).await.unwrap();
        assert_eq!(settings.configure("other", set).await.unwrap_err().code(), "invalid");
    }
}
