//! Several processes that share a broker and a ledger. Each of them dies between any two steps and is replaced by another,
//! or is frozen for a while. The broker is emptied, falls back to a copy of itself, or is unavailable. So is the ledger,
//! whose answers may also be lost.
//!
//! For any loss of the broker and any reading of its clock afterwards, no receipt and no fence is issued twice, no version
//! of a job stands for two states, and limits hold.
//!
//! If the broker lost some of its memory, the following is allowed:
//! - Jobs that were running then run again, and so do jobs whose end was not recorded.
//! - It hands out nothing that was recorded as ended before. Emptied, it takes no receipt from before.
//! - Having fallen back, it may undo edits that are not recorded yet. Leases that began until the leader has compared its jobs
//!   once more, as the registry says ([`COMPARED`]), continue.

use super::actors::{Actor, LIMITED, Pace};
use super::history::Shared as SharedHistory;
use super::moment::At;
use super::{Report, exports};
use crate::clock::Clock;
use crate::engine::{Engine, Options, Stores};
use crate::json::{Span, Timestamp};
use crate::limits::MINUTE_MS;
use crate::model::job::Job;
use crate::ports::{BROKER, Broker, BrokerClock, COMPARED, Detail, Registry};
use crate::testing::mortal::{Life, MortalBroker, MortalInbox, MortalLedger, MortalLocks, MortalRegistry};
use crate::testing::shared::Presence;
use crate::testing::{ModelLedger, Random, Shared, TokioClock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often the registry is checked for a finished comparison.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The greatest age of the copy to which the broker falls back.
const COPY_EVERY_MS: u64 = 1_000;
/// The greatest difference of a memory's clock from that of the first.
const CLOCKS_APART_MS: u64 = 40_000;
/// The longest time that a process is frozen.
const FROZEN_MAX: Duration = Duration::from_secs(9);
/// Within this time from the end of all faults a job that is due is in the broker.
const LATE_MAX: Duration = Duration::from_secs(3);
/// How long a job may be in neither store while it is moved.
const MOVED_WITHIN: Duration = Duration::from_secs(1);
/// Within this time from the end of all faults every job has ended: the latest due time, the horizon's audit, and retries.
const END_WITHIN: Duration = Duration::from_secs(30 * 60);

/// State that the processes share.
#[derive(Clone)]
struct Fleet {
    broker: Shared,
    ledger: ModelLedger,
    clock: Arc<TokioClock>,
    history: SharedHistory,
    /// The memory of the broker.
    memory: Arc<AtomicU64>,
    is_calm: Arc<AtomicBool>,
    lives: Arc<Mutex<Vec<Arc<Life>>>>,
    deaths: Arc<AtomicU64>,
    /// In most runs there is room for a few jobs only.
    memory_max: Option<u64>,
}

/// Runs the simulation with this seed.
pub fn run(seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without input and output can be built");
    runtime.block_on(async {
        let clock = Arc::new(TokioClock::new());
        let mut random = Random::new(seed ^ 0x0f1e_e700);
        // So that buckets begin at any moment of a run.
        tokio::time::sleep(Duration::from_millis(random.within(0..10 * MINUTE_MS))).await;
        let fleet = Fleet {
            broker: Shared::new(clock.clone()),
            ledger: ModelLedger::default(),
            clock,
            history: SharedHistory::default(),
            memory: Arc::default(),
            is_calm: Arc::default(),
            lives: Arc::default(),
            deaths: Arc::default(),
            memory_max: *random.of(&[None, Some(2_000), Some(6_000), Some(20_000)]),
        };
        fleet.live(&mut random).await
    })
}

impl Fleet {
    async fn live(&self, random: &mut Random) -> Report {
        let (history, clock, memory) = (self.history.clone(), self.clock.clone(), self.memory.clone());
        self.broker.on_lease(Arc::new(move |lease, is_take, broker| {
            let mut history = history.lock().expect("no panic under this lock");
            if is_take {
                // A take that fails gives the job back, which is due from then on.
                history.started.insert(lease.job.id);
                return;
            }
            let at = at(broker, &clock, &memory);
            history.handed_out(lease, at);
            if *lease.job.queue == *LIMITED {
                let wrong = history.given.beyond(broker.memory().running(LIMITED));
                history
                    .violations
                    .extend(wrong.map(|wrong| format!("the job {} was handed out {wrong}", lease.job.id)));
            }
        }));
        let history = self.history.clone();
        self.broker.on_grant(Arc::new(move |name, fence| {
            let mut history = history.lock().expect("no panic under this lock");
            let wrong = history.given.granted(name, fence);
            history.violations.extend(wrong);
        }));
        self.broker.blur_clock(random.within(0..200), random.within(0..200));
        let nodes = random.within(1..5);
        for _ in 0..nodes {
            let (fleet, random) = (self.clone(), Random::new(random.any()));
            tokio::spawn(async move { fleet.keep_node(random).await });
        }
        let lawgiver = self.start(Life::plain()).await.expect("nothing is away");
        let filler = tokio::spawn(self.actor(&lawgiver, Random::new(random.any())).fill_for_ever());
        let remover = tokio::spawn(self.actor(&lawgiver, Random::new(random.any())).remove_for_ever());
        let lawgiver = tokio::spawn(self.actor(&lawgiver, Random::new(random.any())).limit_for_ever());
        tokio::spawn(self.clone().copy_for_ever(Random::new(random.any())));
        tokio::spawn(self.clone().look_for_ever());
        let time = Duration::from_millis(random.within(20_000..120_000));
        drop(tokio::time::timeout(time, self.do_harm(Random::new(random.any()))).await);
        lawgiver.abort();
        filler.abort();
        remover.abort();
        self.be_calm();
        // Until then frozen processes continue what they had begun, such as pausing a queue.
        tokio::time::sleep(FROZEN_MAX).await;
        let engine = self.start(Life::plain()).await.expect("nothing is away");
        let observer = self.actor(&engine, Random::new(random.any()));
        self.check_lateness().await;
        let is_done = observer.settle_down(END_WITHIN).await;
        let mut history = self.history.lock().expect("no panic under this lock");
        if !is_done {
            history.violations.push("some jobs do not end".into());
        }
        history.check_end(&self.ledger, observer.at());
        Report {
            violations: history.violations.clone(),
            pushed: history.ids().len(),
            handed_out: history.handed_out,
            extended: history.extended,
            deaths: self.deaths.load(Ordering::SeqCst),
            digest: history.digest(&self.ledger),
        }
    }

    /// Once nothing is wrong any more, what is due is soon in the broker, whatever a process left undone when it died.
    async fn check_lateness(&self) {
        if self.memory_max.is_some() {
            // It may wait in the overflow.
            return;
        }
        tokio::time::sleep(LATE_MAX - MOVED_WITHIN).await;
        let late = self.not_held().await;
        // A job may just be on its way.
        tokio::time::sleep(MOVED_WITHIN).await;
        let mut still_late = self.not_held().await;
        still_late.retain(|job| late.iter().any(|late| (late.id, late.version) == (job.id, job.version)));
        let mut history = self.history.lock().expect("no panic under this lock");
        history.violations.extend(still_late.iter().map(|job| format!("is due, and not in the broker: {job:?}")));
    }

    /// Pushed jobs that have long been due and are not in the broker. One with a key may have to wait for another.
    async fn not_held(&self) -> Vec<Job> {
        let known = self.history.lock().expect("no panic under this lock").ids();
        let due_by = self.broker.now().saturating_sub(LATE_MAX.as_millis() as u64);
        let mut due = self.ledger.jobs();
        due.retain(|job| {
            job.is_pending() && job.key.is_none() && job.due_at <= Timestamp(due_by) && known.contains(&job.id)
        });
        let ids: Vec<_> = due.iter().map(|job| job.id).collect();
        let held = self.broker.memory().get(&ids, Detail::Head).await.expect("a memory is always there");
        due.into_iter().zip(held).filter(|(_, held)| held.is_none()).map(|(job, _)| job).collect()
    }

    /// Keeps one process going: a new one starts when one dies.
    async fn keep_node(self, mut random: Random) {
        let steps_max = *random.of(&[300, 2_000, 6_000]);
        loop {
            let steps = if self.is_calm() { None } else { Some(random.within(20..steps_max)) };
            let life = Life::random(random.any(), steps);
            self.lives.lock().expect("no panic under this lock").push(life.clone());
            let started = tokio::select! {
                biased;
                started = self.start(life.clone()) => started,
                () = life.death() => None,
            };
            if let Some(engine) = started {
                let mut actor = || self.actor(&engine, Random::new(random.any()));
                let is_calm = self.is_calm();
                let mut actors = tokio::task::JoinSet::new();
                for _ in 0..2 {
                    actors.spawn(actor().work_for_ever(is_calm));
                }
                if !is_calm {
                    actors.spawn(actor().push_for_ever());
                    actors.spawn(actor().meddle_for_ever());
                    actors.spawn(actor().take_for_ever());
                    actors.spawn(actor().schedule_for_ever());
                    tokio::select! {
                        biased;
                        () = life.death() => {}
                        () = self.calm() => {
                            // The callers are gone; the process is not.
                            self.history.lock().expect("no panic under this lock").callers_went = true;
                            actors.shutdown().await;
                            actors.spawn(actor().work_for_ever(true));
                        }
                    }
                }
                // The results of a dead process's tasks are ignored.
                actors.detach_all();
                if self.is_calm() && !life.is_over() {
                    return;
                }
                if is_calm {
                    return;
                }
            }
            self.deaths.fetch_add(u64::from(life.is_over()), Ordering::SeqCst);
            self.check_export().await;
            let ms = random.within(1..3_000);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    fn stores(&self, life: Arc<Life>) -> Stores {
        let (broker, ledger) = (Arc::new(self.broker.clone()), Arc::new(self.ledger.clone()));
        Stores {
            broker: Arc::new(MortalBroker { broker: broker.clone(), life: life.clone() }),
            ledger: Arc::new(MortalLedger { ledger: ledger.clone(), life: life.clone() }),
            reports: ledger.clone(),
            leases: None,
            inbox: Some(Arc::new(MortalInbox { inbox: ledger.clone(), life: life.clone() })),
            registry: Arc::new(MortalRegistry { registry: ledger, life: life.clone() }),
            locks: Arc::new(MortalLocks { locks: broker, life }),
            events: None,
        }
    }

    async fn start(&self, life: Arc<Life>) -> Option<Engine> {
        let options = Options { horizon: Span(MINUTE_MS), memory_max: self.memory_max, ..Options::default() };
        Engine::start(self.stores(life), options).await.ok()
    }

    /// Exports everything, as if all processes had died now.
    async fn check_export(&self) {
        let wrong = exports::check(self.stores(Life::plain()), &self.broker, &self.ledger, self.clock.clone()).await;
        self.history.lock().expect("no panic under this lock").violations.extend(wrong);
    }

    fn actor(&self, engine: &Engine, random: Random) -> Actor {
        Actor {
            engine: engine.clone(),
            history: self.history.clone(),
            ledger: self.ledger.clone(),
            clock: self.clock.clone(),
            random,
            life: self.memory.clone(),
            pace: Pace::BRISK,
        }
    }

    /// Until it is stopped.
    async fn do_harm(&self, mut random: Random) {
        let rest_ms = *random.of(&[1_500, 5_000, 12_000]);
        loop {
            let ms = random.within(50..rest_ms);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            match random.within(0..100) {
                0..20 => self.lose_memory(false, &mut random).await,
                20..45 => self.lose_memory(true, &mut random).await,
                45..60 => {
                    let presence = *random.of(&[Presence::Away, Presence::Mute, Presence::Stalled]);
                    let ms = random.within(1..8_000);
                    self.be_absent(presence, ms).await;
                }
                60..75 => {
                    self.ledger.set_away(true);
                    let ms = random.within(1..8_000);
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    if random.percent(50) {
                        self.lose_memory(false, &mut random).await;
                    }
                    self.ledger.set_away(false);
                    // What could not be recorded is in the outbox.
                    self.check_export().await;
                }
                75..85 => {
                    let Some(life) = self.some_life(&mut random) else { continue };
                    life.mute(Some("apply"));
                    let ms = random.within(1..8_000);
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    life.mute(None);
                }
                _ => {
                    let Some(life) = self.some_life(&mut random) else { continue };
                    let ms = random.within(100..FROZEN_MAX.as_millis() as u64);
                    life.freeze(Duration::from_millis(ms));
                }
            }
        }
    }

    fn some_life(&self, random: &mut Random) -> Option<Arc<Life>> {
        let mut lives = self.lives.lock().expect("no panic under this lock");
        lives.retain(|life| !life.is_over());
        if lives.is_empty() { None } else { Some(random.of(&lives).clone()) }
    }

    /// It takes its time, so that no instant belongs to both memories.
    async fn lose_memory(&self, falls_back: bool, random: &mut Random) {
        let ms = random.within(5..3_000);
        let by_ms = if random.percent(30) { 0 } else { random.within(0..CLOCKS_APART_MS) as i64 };
        let by_ms = if random.percent(70) { -by_ms } else { by_ms };
        self.broker.set_presence(Presence::Away);
        if !falls_back {
            self.broker.flush_by(by_ms);
        } else if !self.broker.fall_back_by(by_ms) {
            return self.broker.set_presence(Presence::There);
        }
        let memory = self.memory.fetch_add(1, Ordering::SeqCst) + 1;
        {
            let mut history = self.history.lock().expect("no panic under this lock");
            history.memory_lost(&self.ledger, falls_back);
            if !falls_back {
                history.emptied_in = Some(memory);
            }
        }
        self.be_absent(Presence::Away, ms).await;
    }

    async fn be_absent(&self, presence: Presence, ms: u64) {
        self.broker.set_presence(presence);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        self.broker.set_presence(Presence::There);
    }

    async fn copy_for_ever(self, mut random: Random) {
        loop {
            let ms = random.within(50..COPY_EVERY_MS);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            if self.is_calm() {
                return;
            }
            self.broker.copy();
        }
    }

    /// Checks whether the broker was compared with the ledger, and whether that kept its promise.
    async fn look_for_ever(self) {
        for look in 0_u64.. {
            tokio::time::sleep(LOOK_EVERY).await;
            let compared = self.ledger.document(BROKER, COMPARED).await.ok().flatten();
            let is_compared = compared.is_some_and(|document| document.body == self.broker.incarnation_now());
            let mut history = self.history.lock().expect("no panic under this lock");
            if is_compared && history.is_unfenced {
                history.fenced(&self.ledger);
            }
            if look % 50 == 0 {
                history.check_keys(&self.ledger, self.at());
            }
            if self.is_calm() && !history.is_unfenced {
                return;
            }
        }
    }

    fn at(&self) -> At {
        at(&self.broker, &self.clock, &self.memory)
    }

    fn be_calm(&self) {
        self.broker.set_presence(Presence::There);
        self.ledger.set_away(false);
        self.is_calm.store(true, Ordering::SeqCst);
        self.lives.lock().expect("no panic under this lock").iter().for_each(|life| life.calm());
    }

    fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    async fn calm(&self) {
        while !self.is_calm() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn at(broker: &Shared, clock: &TokioClock, memory: &AtomicU64) -> At {
    At { wall: broker.now(), mono: clock.mono(), life: memory.load(Ordering::SeqCst), wall_steps: 0 }
}
