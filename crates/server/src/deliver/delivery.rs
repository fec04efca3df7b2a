//! A target, read and ready to be delivered to.

use super::forward;
use super::observe::DeliveryStats;
use super::redis_list::{List, Servers};
use super::result::{DeliveryResult, Sign};
use super::webhook::{Keys, Route, Rules, Sender};
use duetime_core::model::target::{Endpoint, Target};
use duetime_core::{Engine, Error, Job};
use std::sync::Arc;
use std::time::Duration;

/// The time limit of deliveries other than webhooks: far longer than they take.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The targets that the operator allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(super) rules: Rules,
    pub(super) servers: Servers,
    pub(super) keys: Arc<Keys>,
}

impl Policy {
    /// Checks whether a queue's jobs may be delivered there. Names are not resolved yet.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the part.
    pub(crate) fn check(&self, queue: &str, target: &Target) -> Result<(), Error> {
        Delivery::new(queue, target, self)?;
        let Target::Url(Endpoint { key: Some(key), .. }) = target else { return Ok(()) };
        // Also each delivery looks: keys and their queues change.
        let bound = self.keys.of(Some(&**key), queue);
        let expected = "the name of a key for this queue in the file of --webhook-keys";
        bound.map(drop).map_err(|_| Error::invalid("target.key", expected, format!("{key:?}")))
    }
}

/// How deliveries are set up, before there is an engine.
pub(crate) struct Setup {
    pub(super) sender: Sender,
    pub(super) policy: Policy,
    pub(super) observed: Arc<DeliveryStats>,
}

/// Makes deliveries.
pub(super) struct Executor {
    pub(super) engine: Engine,
    pub(super) setup: Setup,
}

/// How each job of a queue is delivered.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Send it.
    Webhook(Box<Route>),
    /// Append it.
    RedisList(List),
    /// Push a copy.
    HandOn(Arc<str>),
}

impl Delivery {
    /// # Errors
    /// [`Error::Invalid`] if it may not be delivered there.
    pub(super) fn new(queue: &str, target: &Target, policy: &Policy) -> Result<Self, Error> {
        target.check()?;
        Ok(match target {
            Target::Url(endpoint) => Self::Webhook(Box::new(Route::new(endpoint, policy.rules)?)),
            Target::RedisList(list) => Self::RedisList(policy.servers.list(list)?),
            Target::Queue(other) if **other == *queue => {
                return Err(Error::invalid("target.queue", "another queue", format_args!("{queue:?} itself")));
            }
            Target::Queue(other) => Self::HandOn(other.clone()),
        })
    }

    /// How long one delivery may take.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Webhook(route) => route.timeout(),
            Self::RedisList(_) | Self::HandOn(_) => TIME_MAX,
        }
    }

    /// Delivers a job, to its own target if it has one. The state of that target says nothing about the queue's target or
    /// other jobs' own targets, unless both are lists on one server.
    pub(super) async fn run(&self, executor: &Executor, job: &Job) -> DeliveryResult {
        let Some(target) = &job.options().target else { return self.send(executor, job).await };
        match Self::new(&job.queue, target, &executor.setup.policy) {
            Ok(own) => {
                let delivered = own.send(executor, job).await;
                if self.is_beside(&own) { delivered } else { DeliveryResult { sign: Sign::None, ..delivered } }
            }
            // Not final: the operator can correct the options of the server.
            Err(error) => {
                DeliveryResult::failed(format!("this server does not deliver to the job's target: {error}"), Sign::None)
            }
        }
    }

    fn is_beside(&self, own: &Self) -> bool {
        matches!((self, own), (Self::RedisList(list), Self::RedisList(own)) if list.is_beside(own))
    }

    async fn send(&self, Executor { engine, setup }: &Executor, job: &Job) -> DeliveryResult {
        match self {
            Self::Webhook(route) => setup.sender.send(route, job, engine.now()).await,
            Self::RedisList(list) => list.append(&job.payload, engine.now()).await,
            Self::HandOn(queue) => forward::hand_on(engine, job, queue).await,
        }
    }
}
