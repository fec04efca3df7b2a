//! Deliveries: where a queue has a target, its due jobs are sent there in place of waiting for workers.
//!
//! Of each such queue there is one [`Deliverer`] in every server, started and stopped as settings change. It holds a
//! lease like any worker, so a delivery is lost with no server, and what the engine promises of attempts, retries,
//! `max_running` and `rate` holds for it without a word here. What is here: how to send ([`webhook`], [`redis_list`],
//! [`forward`]), what an answer means, and how much a target can bear ([`pace`]).

mod crew;
mod deliverer;
mod delivery;
mod errand;
mod forward;
mod observe;
mod outbox;
mod pace;
mod redis_list;
pub(crate) mod webhook;

pub(crate) use errand::Policy;
pub(crate) use observe::Observed;
pub(crate) use pace::Pace;

use crew::Report;
use deliverer::{Deliverer, RequestIds};
use duetime::{Extension, Handout, Settlement};
use duetime_core::engine::{Answers, QueueSettings};
use duetime_core::target::Target;
use duetime_core::{Engine, Error as CoreError, Receipt};
use errand::Errand;
use outbox::Group;
use redis_list::Servers;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use webhook::Sender;

/// How often it is looked which queues have which targets.
const LOOK: Duration = Duration::from_secs(1);

/// What an operator says of deliveries.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    webhook: webhook::Args,
    /// A Redis whose lists may be targets of queues, with user and password where it wants them:
    /// `redis://[user:password@]host[:port][/db]` or `rediss://…`; several by repeating it, or with a comma between
    #[arg(long, value_name = "URL", env = "DUETIME_DELIVER_REDIS", hide_env_values = true, value_delimiter = ',')]
    #[arg(help_heading = "Webhooks")]
    deliver_redis: Vec<String>,
}

/// Why nothing can be delivered.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub(crate) enum Error {
    /// What is said of webhooks.
    Webhook(#[from] webhook::Error),
    /// What is said of Redis.
    Redis(#[from] CoreError),
}

/// What deliveries are made with.
struct Means {
    engine: Engine,
    sender: Sender,
    policy: Policy,
    request_ids: RequestIds,
    observed: Arc<Observed>,
}

impl Means {
    fn request_id(&self) -> Arc<str> {
        self.request_ids.next()
    }
}

/// What a deliverer hears.
enum Event {
    Reserved(Result<Handout, CoreError>),
    Ended(Report),
    Settled(Group, Answers<Settlement>),
    Extended(Vec<Receipt>, Instant, Answers<Extension>),
    /// A call of the engine panicked.
    Panicked,
}

/// How deliveries are set up, before there is an engine.
pub(crate) struct Setup {
    sender: Sender,
    policy: Policy,
    observed: Arc<Observed>,
}

impl Setup {
    /// Reads what the operator says. Must be called in a tokio runtime, which carries the connections.
    ///
    /// # Errors
    /// Where a file cannot be used, or a URL is none.
    pub(crate) fn new(args: &Args) -> Result<Self, Error> {
        let sender = Sender::new(&args.webhook)?;
        let (rules, servers, keys) = (args.webhook.rules(), Servers::new(&args.deliver_redis)?, sender.keys());
        Ok(Self { sender, policy: Policy { rules, servers, keys }, observed: Arc::default() })
    }

    /// What may be a target.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// What becomes of deliveries.
    pub(crate) fn observed(&self) -> Arc<Observed> {
        self.observed.clone()
    }

    /// Delivers until it is stopped, and then what is under way, within a limit.
    pub(crate) async fn run(self, engine: Engine, stop: CancellationToken) {
        let Self { sender, policy, observed } = self;
        let means = Means { engine, sender, policy, request_ids: RequestIds::new(), observed };
        let mut deliveries = Deliveries {
            means: Arc::new(means),
            by_queue: HashMap::new(),
            refused: HashSet::new(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        while !stop.is_cancelled() {
            deliveries.look();
            // The time-out is when to look again.
            let _ = tokio::time::timeout(LOOK, stop.cancelled()).await;
        }
        deliveries.tasks.close();
        deliveries.tasks.wait().await;
    }
}

/// All deliverers.
struct Deliveries {
    means: Arc<Means>,
    by_queue: HashMap<Arc<str>, Running>,
    /// Targets that were said to be refused.
    refused: HashSet<(Arc<str>, String)>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A deliverer, and by which settings it goes.
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
    /// Stops those whose settings are others now, and starts what is missing.
    fn look(&mut self) {
        let wanted: HashMap<Arc<str>, Arc<QueueSettings>> =
            self.means.engine.queues_with_targets().into_iter().collect();
        self.by_queue.retain(|queue, running| {
            if running.task.is_finished() {
                // Its jobs come back when their leases end.
                tracing::error!(%queue, "the queue's deliverer panicked and is started again");
                return false;
            }
            let stays = wanted.get(queue).is_some_and(|settings| running.goes_by(settings));
            if !stays {
                tracing::info!(%queue, "the queue's target is another or gone: what is under way is finished");
                running.stop.cancel();
            }
            stays
        });
        for (queue, settings) in wanted {
            if let Some(target) = settings.target.as_ref().filter(|_| !self.by_queue.contains_key(&queue)) {
                self.start(queue, target, settings.max_running);
            }
        }
    }

    fn start(&mut self, queue: Arc<str>, target: &Target, max_running: Option<u32>) {
        match Errand::new(&queue, target, &self.means.policy) {
            Ok(errand) => {
                tracing::info!(%queue, "the queue's jobs are delivered to its target");
                let stop = self.stop.child_token();
                let deliverer = Deliverer::new(queue.clone(), errand, max_running, self.means.clone(), stop.clone());
                let task = self.tasks.spawn(deliverer.run());
                self.by_queue.insert(queue, Running { target: target.clone(), max_running, stop, task });
            }
            // Its jobs wait: another server may be allowed to deliver them, or this one at its next start.
            Err(error) => {
                if self.refused.insert((queue.clone(), error.to_string())) {
                    tracing::error!(%queue, %error, "this server does not deliver the queue's jobs, which wait");
                }
            }
        }
    }
}
