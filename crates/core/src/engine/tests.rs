//! The services of an engine whose loops do not run. A test calls them itself, and time stands still until the test lets it
//! pass.

use super::base::Base;
use super::services::{Loops, Services, begin, compose};
use super::stores::Stores;
use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Due, Job, NewJob};
use crate::ports::{Detail, Ledger as _};
use crate::request::{Options, Outcome, Reservation, ReserveRequest, Settlement};
use crate::testing::mortal::{Life, MortalBroker, MortalLedger};
use crate::testing::{ModelLedger, Shared, TokioClock};
use std::sync::Arc;
use std::time::Duration;

/// The queue of a job that names none.
pub(super) const QUEUE: &str = "default";
/// Beyond the horizon, and the bucket after it.
const FAR: Duration = Duration::from_secs(2 * 3_600);

/// The services, and the stores below them.
pub(super) struct Fixture {
    pub(super) base: Base,
    pub(super) services: Services,
    pub(super) loops: Loops,
    pub(super) ledger: ModelLedger,
    /// Counts the calls of broker and ledger, and can lose their answers.
    pub(super) life: Arc<Life>,
}

impl Fixture {
    /// One process: a broker in memory beside a ledger. Needs a runtime whose time is paused.
    pub(super) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// The same with these options.
    pub(super) async fn with(options: Options) -> Self {
        let ledger = ModelLedger::default();
        let stores = Stores::one_process(Arc::new(TokioClock::new()), Arc::new(ledger.clone()));
        let fixture = Self::over(stores, ledger, options).await;
        fixture.loops.loader.advance().await.unwrap();
        fixture
    }

    /// One of several processes that share a broker and this ledger. None of them leads yet.
    pub(super) async fn sharing(broker: &Shared, ledger: &ModelLedger) -> Self {
        Self::sharing_with(broker, ledger, Options::default()).await
    }

    /// The same with these options.
    pub(super) async fn sharing_with(broker: &Shared, ledger: &ModelLedger, options: Options) -> Self {
        let (broker, ledger) = (Arc::new(broker.clone()), ledger.clone());
        let own = Stores::one_process(Arc::new(TokioClock::new()), Arc::new(ledger.clone()));
        let stores = Stores { broker: broker.clone(), locks: broker, leases: None, ..own };
        let fixture = Self::over(stores, ledger, options).await;
        fixture.loops.loader.advance_watermark();
        fixture
    }

    async fn over(stores: Stores, ledger: ModelLedger, options: Options) -> Self {
        let life = Life::plain();
        let stores = Stores {
            broker: Arc::new(MortalBroker { broker: stores.broker, life: life.clone() }),
            ledger: Arc::new(MortalLedger { ledger: stores.ledger, life: life.clone() }),
            ..stores
        };
        let base = Base::new(stores, options);
        let (services, loops) = compose(&base);
        begin(&base, &services, &loops).await.unwrap();
        Self { base, services, loops, ledger, life }
    }

    pub(super) fn now(&self) -> Millis {
        self.base.stores.broker.now()
    }

    /// Pushes a job, which must be new.
    pub(super) async fn push(&self, job: NewJob) -> Job {
        self.services.intake.push(vec![job]).await.unwrap().remove(0).unwrap().job
    }

    /// Leases due jobs of the queue [`QUEUE`].
    pub(super) async fn lease(&self, limit: usize) -> Vec<Job> {
        let request = ReserveRequest::new(QUEUE).limit(limit);
        let Reservation { leases, .. } = self.services.handout.reserve(request, Into::into).await.unwrap().claim();
        leases.into_iter().map(|lease| lease.job).collect()
    }

    /// Pushes a job and leases it.
    pub(super) async fn running(&self, job: NewJob) -> Job {
        self.push(job).await;
        self.lease(1).await.remove(0)
    }

    /// Ends a lease.
    pub(super) async fn settle(&self, receipt: Receipt, outcome: Outcome) -> Result<Settlement, Error> {
        self.services.settler.settle(vec![(receipt, outcome)]).await.remove(0)
    }

    /// Imports jobs with the ids that follow this one.
    pub(super) async fn take_ids_after(&self, job: &Job) {
        let imported = (1..=9).map(|n| {
            let id = JobId::in_partition(job.id.sequence() + n, job.id.partition());
            let mut imported = Job { id, kind: "imported".into(), ..job.clone() };
            imported.set_imported(true);
            imported
        });
        self.ledger.record(imported.collect(), 0).await.unwrap();
    }

    /// The job as the broker has it.
    pub(super) async fn held(&self, id: JobId) -> Option<Job> {
        self.base.stores.broker.get(&[id], Detail::Whole).await.unwrap().remove(0)
    }

    /// The job as the ledger has it.
    pub(super) fn row(&self, id: JobId) -> Option<Job> {
        self.ledger.jobs().into_iter().find(|job| job.id == id)
    }
}

/// A job of the queue [`QUEUE`], due at once.
pub(super) fn job() -> NewJob {
    NewJob::new(*b"payload")
}

/// A job that is due after this time.
pub(super) fn due_in(time: Duration) -> NewJob {
    NewJob { due: Due::after(time), ..job() }
}

/// A job that the broker does not hold yet.
pub(super) fn far() -> NewJob {
    due_in(FAR)
}

/// Lets time pass, and tasks run that work has begun.
pub(super) async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
