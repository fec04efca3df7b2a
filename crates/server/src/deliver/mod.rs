//! Deliveries: due jobs of a queue with a target are sent there, instead of being reserved by workers.
//!
//! Each such queue has one [`Worker`] in every server, started and stopped as settings change. It holds leases like any
//! other worker, so no delivery is lost with a server, and the engine's guarantees about attempts, retries, `max_running`
//! and `rate` hold without further code here. This module covers how to send ([`webhook`], [`redis_list`], [`forward`]),
//! how to interpret an answer, and how much load a target can take ([`pace`]).
//!
//! Webhooks open no more connections than their share of descriptors: a quarter of it is for connections that are kept
//! ([`webhook::Sender`]), the rest for deliveries under way. A queue has an equal part of these. If there are more queues than that,
//! each has one delivery at a time, in turns.

mod delivery;
mod forward;
mod framework;
mod observe;
mod pace;
mod redis_list;
mod result;
pub(crate) mod webhook;

pub(crate) use delivery::{Policy, Setup};
pub(crate) use framework::{
    ADD_TO_BULLMQ, BULLMQ, BullmqJob, LARAVEL, SIDEKIQ, check_laravel, check_list, layout_names, list_words,
    parse_target,
};
pub(crate) use observe::DeliveryStats;
pub(crate) use pace::SharedPace;

use crate::file_watch::to_health;
use delivery::{Delivery, Executor};
use duetime::{Client, JobError, Worker};
use duetime_core::api::DegradedCode;
use duetime_core::engine::QueueSettings;
use duetime_core::limits::RESERVE_JOBS_MAX;
use duetime_core::model::target::Target;
use duetime_core::{Engine, Error as CoreError};
use redis_list::Servers;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use webhook::Sender;

/// Concurrent deliveries of a queue in one process, if the queue has no `max_running`.
const RUNNING_DEFAULT: usize = 256;
/// The upper bound if the queue has a `max_running`.
const RUNNING_MAX: usize = RESERVE_JOBS_MAX;
/// A lease is this much longer than a delivery may take, for the work before and after.
const LEASE_MARGIN: Duration = Duration::from_secs(30);
/// Longer deliveries extend their leases, so that a crash is noticed within this time.
const LEASE_MAX: Duration = Duration::from_secs(120);
/// How long a stop waits for running deliveries.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How often workers that ended unexpectedly are restarted.
const LOOK: Duration = Duration::from_secs(1);
/// How long changes of settings are collected, so that many need one look.
const CHANGES_WAIT: Duration = Duration::from_millis(10);
/// Of so many connections one may be kept while it is not used.
const KEPT_PART: usize = 4;

/// What an operator says of deliveries.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    webhook: webhook::Args,
    /// Redis whose lists may be targets, with user and password if it needs them:
    /// `redis://[user:password@]host[:port][/db]` or `rediss://…`; repeatable, or separated by commas
    #[arg(long, value_name = "URL", env = "DUETIME_DELIVER_REDIS", hide_env_values = true, value_delimiter = ',')]
    #[arg(help_heading = "Webhooks")]
    deliver_redis: Vec<String>,
}

/// Why nothing can be delivered.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub(crate) enum Error {
    /// An error of webhooks.
    Webhook(#[from] webhook::Error),
    /// An error of Redis.
    Redis(#[from] CoreError),
}

/// Why Redis servers that are named for deliveries cannot be used now.
pub(crate) async fn troubles(args: &Args) -> Vec<String> {
    match Servers::new(&args.deliver_redis) {
        Ok(servers) => servers.troubles().await,
        // It is among the refusals of the options.
        Err(_) => Vec::new(),
    }
}

impl Setup {
    /// Reads what the operator says. Must be called in a tokio runtime, which carries the connections.
    ///
    /// # Errors
    /// If a file cannot be used, or a URL is invalid.
    pub(crate) fn new(args: &Args) -> Result<Self, Error> {
        let sender = Sender::new(&args.webhook)?;
        let (rules, servers, keys) = (args.webhook.rules(), Servers::new(&args.deliver_redis)?, sender.keys());
        Ok(Self { sender, policy: Policy { rules, servers, keys }, observed: Arc::default() })
    }

    /// The targets that are allowed.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// The counts of deliveries.
    pub(crate) fn observed(&self) -> Arc<DeliveryStats> {
        self.observed.clone()
    }

    /// Delivers until it is stopped, over at most so many connections. Running deliveries may then finish, within a limit.
    pub(crate) async fn run(self, engine: Engine, connections: usize, stop: CancellationToken) {
        let kept = connections / KEPT_PART;
        let max = connections - kept;
        self.sender.admit(kept, max);
        let mut deliveries = Deliveries {
            client: Client::of_engine(engine.clone()),
            executor: Arc::new(Executor { engine: engine.clone(), setup: self }),
            by_queue: HashMap::new(),
            refused: HashSet::new(),
            max,
            each_max: Arc::new(AtomicUsize::new(max)),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        let (keys, health, stopped) = (deliveries.executor.setup.sender.keys(), to_health(&engine), stop.clone());
        deliveries.tasks.spawn(async move { stopped.run_until_cancelled(keys.watch(health)).await });
        let (servers, stopped) = (deliveries.executor.setup.policy.servers.clone(), stop.clone());
        deliveries.tasks.spawn(async move {
            for why in stopped.run_until_cancelled(servers.troubles()).await.into_iter().flatten() {
                tracing::warn!("deliveries fail until this Redis of --deliver-redis can be used: {why}");
            }
        });
        while !stop.is_cancelled() {
            let changed = engine.settings_changed();
            deliveries.look();
            deliveries.executor.setup.observed.look(&engine);
            tokio::select! {
                () = stop.cancelled() => {}
                () = changed => tokio::time::sleep(CHANGES_WAIT).await,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        deliveries.tasks.close();
        deliveries.tasks.wait().await;
    }
}

/// The workers of all queues that have targets.
struct Deliveries {
    client: Client,
    executor: Arc<Executor>,
    by_queue: HashMap<Arc<str>, Running>,
    /// Targets that the log says are refused.
    refused: HashSet<(Arc<str>, String)>,
    /// Deliveries of all queues at once: each has a connection.
    max: usize,
    /// An equal part of it for each queue, so that silent receivers of some leave the others theirs.
    each_max: Arc<AtomicUsize>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A worker, and by which settings it goes.
struct Running {
    target: Target,
    max_running: Option<u32>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn goes_by(&self, settings: &QueueSettings) -> bool {
        settings.target.as_ref() == Some(&self.target) && settings.max_running == self.max_running
    }
}

impl Deliveries {
    /// Stops workers whose settings have changed, and starts missing ones.
    fn look(&mut self) {
        let wanted: BTreeMap<Arc<str>, Arc<QueueSettings>> =
            self.executor.engine.queues_with_targets().into_iter().collect();
        self.by_queue.retain(|queue, running| {
            if running.task.is_finished() {
                // Its jobs come back when their leases end.
                tracing::error!(%queue, "deliveries of the queue ended unexpectedly and are restarted");
                return false;
            }
            let stays = wanted.get(queue).is_some_and(|settings| running.goes_by(settings));
            if !stays {
                tracing::info!(%queue, "the target of the queue was changed or removed; running deliveries are finished");
                running.stop.cancel();
                self.executor.setup.observed.set_pace(queue, None);
                self.executor.setup.observed.forget(&self.executor.engine, queue);
            }
            stays
        });
        let mut undelivered = None;
        for (queue, settings) in wanted {
            if let Some(target) = settings.target.as_ref().filter(|_| !self.by_queue.contains_key(&queue))
                && let Err(error) = self.start(queue.clone(), target, settings.max_running)
            {
                undelivered.get_or_insert(format!("queue {queue}: {error}"));
            }
        }
        self.each_max.store((self.max / self.by_queue.len().max(1)).max(1), Ordering::Relaxed);
        self.executor.engine.set_degraded(DegradedCode::Deliveries, undelivered);
    }

    fn start(&mut self, queue: Arc<str>, target: &Target, max_running: Option<u32>) -> Result<(), CoreError> {
        match Delivery::new(&queue, target, &self.executor.setup.policy) {
            Ok(delivery) => {
                tracing::info!(%queue, "jobs of the queue are delivered to its target");
                let stop = self.stop.child_token();
                let worker = self.worker(&queue, target.clone(), delivery, (max_running, stop.clone()));
                let (stopped, span) = (stop.clone().cancelled_owned(), tracing::info_span!("deliver", %queue));
                let work = async move {
                    if let Err(error) = worker.run_here_until(stopped).await {
                        tracing::error!(%error, "deliveries have ended");
                    }
                };
                let task = self.tasks.spawn(work.instrument(span));
                self.by_queue.insert(queue, Running { target: target.clone(), max_running, stop, task });
                Ok(())
            }
            // Its jobs wait: another server may be allowed to deliver them, or this one at its next start.
            Err(error) => {
                if self.refused.insert((queue.clone(), error.to_string())) {
                    tracing::error!(%queue, %error, "this server cannot deliver jobs of the queue, which wait; correct the \
                     target or the options of this server");
                }
                Err(error)
            }
        }
    }

    fn worker(
        &self,
        queue: &Arc<str>,
        target: Target,
        delivery: Delivery,
        (max_running, stop): (Option<u32>, CancellationToken),
    ) -> Worker {
        let max = max_running.map_or(RUNNING_DEFAULT, |max| usize::try_from(max).unwrap_or(RUNNING_MAX));
        let pace = SharedPace::new(max.min(RUNNING_MAX));
        self.executor.setup.observed.set_pace(queue, Some(pace.clone()));
        let worker = Worker::new(&self.client)
            .unnamed()
            .queue(queue.clone())
            .lease((delivery.timeout() + LEASE_MARGIN).min(LEASE_MAX))
            .stop_limit(STOP_MAX);
        let (room, executor, delivery) = (pace.clone(), self.executor.clone(), Arc::new((delivery, target)));
        let each_max = self.each_max.clone();
        worker.room(move |now| Ok(room.room(now)?.min(each_max.load(Ordering::Relaxed)))).fallback(
            move |context: duetime::Context| {
                let (pace, executor, delivery, stop) = (pace.clone(), executor.clone(), delivery.clone(), stop.clone());
                async move {
                    let (delivery, target) = &*delivery;
                    let turn = match context.job().options().target.as_deref().unwrap_or(target) {
                        Target::Url(endpoint) => {
                            stop.run_until_cancelled(executor.setup.sender.turn(context.queue(), &endpoint.url)).await
                        }
                        Target::RedisList(_) | Target::Queue(_) => None,
                    };
                    if stop.is_cancelled() {
                        return Err(JobError::release(Duration::ZERO));
                    }
                    // The queue's target was changed or removed a moment ago.
                    if executor.engine.queue_settings(context.queue()).target.as_ref() != Some(target) {
                        stop.cancel();
                        return Err(JobError::release(Duration::ZERO));
                    }
                    let began = Instant::now();
                    let delivered = delivery.run(&executor, context.job()).await;
                    executor.setup.observed.delivered(context.job(), &delivered, began.elapsed());
                    executor.setup.observed.judge(&executor.engine, context.job(), &delivered);
                    pace.ended(delivered.sign, began);
                    drop(turn);
                    delivered.into_handled(&context)
                }
            },
        )
    }
}
