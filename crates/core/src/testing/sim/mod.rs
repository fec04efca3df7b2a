//! The simulation: the real engine and memory broker over a model ledger, with its own clock, under pushers, workers, a
//! taker and a meddler, while the process dies between any two steps and the ledger is unavailable at times. After each run
//! the promises are checked. A seed repeats a run.
//!
//! There are two worlds: one process alone, and a [`fleet`] of processes that share a broker.

mod actors;
mod exports;
pub mod fleet;
mod given;
mod history;
mod known_job;
mod moment;
mod removing;
mod replacing;

use crate::engine::{Engine, Options, Stores};
use crate::json::Span;
use crate::limits::{HOUR_MS, MINUTE_MS};
use crate::memory::Memory;
use crate::model::job::Job;
use crate::ports::{Broker, Detail};
use crate::testing::mortal::{Life, MortalBroker, MortalLeases, MortalLedger};
use crate::testing::tokio_clock::{Past, TokioClock};
use crate::testing::{ModelLedger, Random};
use actors::{Actor, Pace};
use history::Shared;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The result of a run.
#[derive(Debug, PartialEq)]
pub struct Report {
    /// Broken promises.
    pub violations: Vec<String>,
    /// The number of pushed jobs.
    pub pushed: usize,
    /// The number of leases.
    pub handed_out: u64,
    /// The number of answered extensions of leases.
    pub extended: u64,
    /// The number of deaths of the process.
    pub deaths: u64,
    /// A digest of all that happened: of each request and answer, and of the rows that are left.
    pub digest: u64,
}

/// State that outlives a process.
struct World {
    seed: u64,
    ledger: ModelLedger,
    history: Shared,
    clock: Past,
}

/// Runs the simulation with this seed.
pub fn run(seed: u64) -> Report {
    let mut random = Random::new(seed);
    let mut world = World { seed, ledger: ModelLedger::default(), history: Shared::default(), clock: Past::default() };
    let deaths = random.within(1..5);
    for life in 0..deaths {
        let steps = random.within(20..2_000);
        world.live(life, Some(steps));
    }
    world.live(deaths, None);
    let history = world.history.lock().expect("no panic under this lock");
    Report {
        violations: history.violations.clone(),
        pushed: history.ids().len(),
        handed_out: history.handed_out,
        extended: history.extended,
        deaths,
        digest: history.digest(&world.ledger),
    }
}

impl World {
    /// One life of the process: until it dies after this many steps, or until all jobs are done.
    fn live(&mut self, life: u64, steps: Option<u64>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without input and output can be built");
        let mut random = Random::new(self.seed ^ (life + 1).wrapping_mul(0x5851_f42d_4c95_7f2d));
        self.clock = runtime.block_on(async {
            let clock = Arc::new(TokioClock::following(self.clock));
            if life > 0 && random.percent(40) {
                // The clock is set while the process is down.
                clock.step_wall(random.within(0..2 * HOUR_MS) as i64 - HOUR_MS as i64);
            }
            self.run_life(life, steps, clock.clone(), &mut random).await;
            clock.past()
        });
    }

    async fn run_life(&self, life: u64, steps: Option<u64>, clock: Arc<TokioClock>, random: &mut Random) {
        let process = Life::random(random.any(), steps);
        self.ledger.set_away(false);
        let memory = Arc::new(Memory::new(clock.clone()));
        let stores = Stores {
            broker: Arc::new(MortalBroker { broker: memory.clone(), life: process.clone() }),
            ledger: Arc::new(MortalLedger { ledger: Arc::new(self.ledger.clone()), life: process.clone() }),
            leases: Some(Arc::new(MortalLeases { leases: Arc::new(self.ledger.clone()), life: process.clone() })),
            ..Stores::one_process(clock.clone(), Arc::new(self.ledger.clone()))
        };
        // In most lives there is room for a few jobs only.
        let memory_max = *random.of(&[None, Some(2_000), Some(6_000), Some(20_000)]);
        let options = Options { horizon: Span(20 * MINUTE_MS), memory_max, ..Options::default() };
        let engine = tokio::select! {
            biased;
            engine = Engine::start(stores, options) => engine.expect("the model's rows can be read"),
            () = process.death() => return,
        };
        let mut actor = || Actor {
            engine: engine.clone(),
            history: self.history.clone(),
            ledger: self.ledger.clone(),
            clock: clock.clone(),
            random: Random::new(random.any()),
            life: Arc::new(AtomicU64::new(life)),
            pace: Pace::SLOW,
        };
        let first = actor();
        let leased = self.ledger.jobs().into_iter().filter(|job| job.lease_until.is_some()).map(|job| job.id);
        let restored = memory.get(&leased.collect::<Vec<_>>(), Detail::Whole).await.expect("a memory is always there");
        let restored: Vec<Job> = restored.into_iter().flatten().collect();
        {
            let mut history = self.history.lock().expect("no panic under this lock");
            history.restarted(&self.ledger, first.at());
            history.restored(&restored, first.at());
        }
        for _ in 0..3 {
            tokio::spawn(actor().work_for_ever(steps.is_none()));
        }
        if steps.is_some() {
            tokio::spawn(actor().push_for_ever());
            tokio::spawn(actor().push_for_ever());
            tokio::spawn(actor().meddle_for_ever());
            tokio::spawn(actor().take_for_ever());
            tokio::spawn(actor().schedule_for_ever());
            process.death().await;
        } else {
            let is_done = first.settle_down(Duration::from_secs(48 * 3_600)).await;
            let mut history = self.history.lock().expect("no panic under this lock");
            if !is_done {
                history.violations.push("some jobs do not end".into());
            }
            history.check_end(&self.ledger, first.at());
        }
    }
}
