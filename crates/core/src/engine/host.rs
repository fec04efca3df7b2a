//! The engine as the host of its broker: it provides what a memory begins with, and is woken.
//!
//! A memory begins with its own generation and the limits of queues, both from the registry. A shared one is
//! [compared](super::comparison) with the ledger before.
//!
//! The generation is raised before it is used. A process that dies in between leaves an unused number; if two raise it at
//! once, they get different ones. So versions, epochs and fences of one memory are above those of all earlier memories,
//! whatever its clock says.

use super::base::Base;
use super::comparison::Comparison;
use super::consumers::Consumers;
use super::queues::read_settings;
use crate::clock::Millis;
use crate::engine::consumers::waiting::Waiting;
use crate::error::Error;
use crate::model::id::{generation_above, generation_at};
use crate::model::job::Job;
use crate::ports::{BROKER, Beginning, Broker, GENERATION, Host, PutIf, Registry};
use async_trait::async_trait;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Weak};

/// A handle of an engine that does not keep it alive: brokers keep it, and may be the registry, too.
pub(super) struct EngineHost {
    waiting: Arc<Waiting>,
    registry: Weak<dyn Registry>,
    /// None unless several processes share the broker beside a ledger.
    comparison: Option<Weak<Comparison>>,
    /// False for a broker that is its own ledger: it has no generations, since their record would be lost with it.
    raises: bool,
    /// The engine's clock at its start. A backup of the registry knows only generations from before it.
    started_at: Millis,
}

#[async_trait]
impl Host for EngineHost {
    async fn beginning(&self) -> Result<Beginning, Error> {
        let registry = self.registry.upgrade().ok_or(Error::Stopping)?;
        let generation = if self.raises { raise(registry.as_ref(), generation_at(self.started_at)).await? } else { 0 };
        let settings = read_settings(registry.as_ref()).await?.into_iter();
        let limits = settings.map(|(queue, settings, version)| (queue, settings.limits(), version)).collect();
        Ok(Beginning { generation, limits })
    }

    async fn compare(&self, partition: u16, memory: &str) -> Result<(), Error> {
        let Some(comparison) = &self.comparison else { return Ok(()) };
        comparison.upgrade().ok_or(Error::Stopping)?.before_begin(partition, memory).await
    }

    fn wake(&self, queue: Option<&Arc<str>>) {
        match queue {
            Some(queue) => self.waiting.at_queues.wake_first(queue),
            None => self.waiting.at_queues.wake_first_of_each(),
        }
    }
}

/// The generations of memories.
pub(super) struct Generations {
    broker: Arc<dyn Broker>,
    registry: Arc<dyn Registry>,
}

impl Generations {
    pub(super) fn new(base: &Base) -> Self {
        Self { broker: base.stores.broker.clone(), registry: base.stores.registry.clone() }
    }

    /// The host of the engine's broker.
    pub(super) fn host(&self, consumers: &Consumers, comparison: &Arc<Comparison>, now: Millis) -> Arc<dyn Host> {
        let (registry, raises) = (Arc::downgrade(&self.registry), !self.broker.is_ledger());
        let comparison = self.broker.shares_ledger().then(|| Arc::downgrade(comparison));
        Arc::new(EngineHost { waiting: consumers.waiting.clone(), registry, comparison, raises, started_at: now })
    }

    /// Makes later memories begin above the numbers of these jobs.
    pub(super) async fn pass_numbers(&self, jobs: &[Job]) -> Result<(), Error> {
        let Some(last) = jobs.iter().map(|job| job.version).max() else { return Ok(()) };
        if self.broker.is_ledger() || generation(self.registry.as_ref()).await?.0 >= generation_above(last) {
            return Ok(());
        }
        raise(self.registry.as_ref(), generation_above(last)).await.map(drop)
    }
}

/// The last generation that was begun, and the version of its document.
async fn generation(registry: &dyn Registry) -> Result<(u64, u64), Error> {
    let Some(document) = registry.document(BROKER, GENERATION).await? else { return Ok((0, 0)) };
    let number = document.body.split(' ').next().unwrap_or_default();
    let generation = number
        .parse()
        .map_err(|_| Error::Damaged(format!("the broker's generation in the registry is {number:?}, not a number")))?;
    Ok((generation, document.version))
}

/// Raises the generation by one, or to `least` if that is more.
async fn raise(registry: &dyn Registry, least: u64) -> Result<u64, Error> {
    loop {
        let (last, version) = generation(registry).await?;
        let next = least.max(last + 1);
        // After a lost reply, a registry compares the stored body with its own to see whether it was stored. The unique part
        // keeps one process from taking the document of another for its own.
        let unique = RandomState::new().build_hasher().finish();
        let body = format!("{next} {unique:016x}");
        if let PutIf::Stored(_) = registry.put_if(BROKER, GENERATION, &body, version).await? {
            tracing::debug!(generation = next, "the broker begins with an empty memory");
            return Ok(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Document;
    use std::sync::Mutex;

    /// A registry that loses the reply to each first attempt to store a document, and tries again.
    #[derive(Default)]
    struct Unsure {
        stored: Mutex<Option<Document>>,
        /// The result of a read: the document from before the last change.
        before: Mutex<Option<Document>>,
    }

    #[async_trait]
    impl Registry for Unsure {
        async fn document(&self, _: &str, _: &str) -> Result<Option<Document>, Error> {
            Ok(self.before.lock().unwrap().clone())
        }

        async fn documents(&self, _: &str) -> Result<Vec<Document>, Error> {
            Ok(Vec::new())
        }

        async fn put_if(&self, _: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
            let mut stored = self.stored.lock().unwrap();
            let found = stored.as_ref().map_or(0, |document| document.version);
            let is_own = stored.as_ref().is_some_and(|document| document.body == body);
            if found == version + 1 && is_own {
                return Ok(PutIf::Stored(found));
            }
            if found != version {
                *self.before.lock().unwrap() = stored.clone();
                return Ok(PutIf::Mismatch(found));
            }
            *stored = Some(Document { name: name.to_owned(), body: body.to_owned(), version: version + 1 });
            Ok(PutIf::Stored(version + 1))
        }

        async fn remove(&self, _: &str, _: &str, _: Option<u64>) -> Result<bool, Error> {
            Ok(false)
        }
    }

    /// Both read the generation before either has raised it, and both replies are lost.
    #[tokio::test]
    async fn two_who_raise_the_generation_at_once_get_two() {
        let registry = Unsure::default();
        let (one, other) = (raise(&registry, 7).await.unwrap(), raise(&registry, 7).await.unwrap());
        assert_eq!((one, other), (7, 8));
    }
}
