//! The services of an engine, and how they are put together. Each one knows only services that are made before it here.

use super::admission::Admission;
use super::base::Base;
use super::comparison::Comparison;
use super::consumers::Consumers;
use super::editor::Editor;
use super::follow_ups::FollowUps;
use super::handout::Handout;
use super::host::Generations;
use super::ids::Ids;
use super::inbox::InboxMover;
use super::intake::Intake;
use super::leader::Leader;
use super::loader::Loader;
use super::locks::LockDesk;
use super::observatory::Observatory;
use super::overflow::Overflow;
use super::pruner::Pruner;
use super::queues::{Gate, QueueCounter, Settings};
use super::reaper::Reaper;
use super::reconciler::Reconciler;
use super::recorder::Recorder;
use super::remover::QueueRemover;
use super::schedules::Schedules;
use super::search::Search;
use super::settler::Settler;
use super::stores::Stores;
use super::takes::Takes;
use super::timers::Timers;
use super::vitals::Vitals;
use crate::error::Error;
use std::sync::Arc;

/// What callers ask.
pub(super) struct Services {
    pub(super) vitals: Vitals,
    pub(super) intake: Arc<Intake>,
    pub(super) handout: Arc<Handout>,
    pub(super) takes: Arc<Takes>,
    pub(super) settler: Arc<Settler>,
    pub(super) editor: Arc<Editor>,
    pub(super) search: Arc<Search>,
    pub(super) queues: QueueServices,
    pub(super) schedules: Arc<Schedules>,
    pub(super) locks: Arc<LockDesk>,
    pub(super) observatory: Observatory,
    pub(super) timers: Arc<Timers>,
}

/// What callers ask about queues.
pub(super) struct QueueServices {
    pub(super) settings: Arc<Settings>,
    pub(super) counter: Arc<QueueCounter>,
    pub(super) remover: Arc<QueueRemover>,
}

/// What runs by itself.
pub(super) struct Loops {
    pub(super) leader: Arc<Leader>,
    pub(super) loader: Arc<Loader>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) reconciler: Arc<Reconciler>,
    pub(super) comparison: Arc<Comparison>,
    pub(super) reaper: Arc<Reaper>,
    pub(super) pruner: Arc<Pruner>,
    pub(super) mover: Option<Arc<InboxMover>>,
    pub(super) ids: Arc<Ids>,
    pub(super) generations: Arc<Generations>,
    pub(super) consumers: Arc<Consumers>,
}

/// Makes all services.
pub(super) fn compose(base: &Base) -> (Services, Loops) {
    let Stores { broker, ledger, locks, inbox, .. } = &base.stores;
    let ids = Arc::new(Ids::new(ledger.clone()));
    let leader = Arc::new(Leader::new(broker.as_ref(), locks.clone()));
    let consumers = Arc::new(Consumers::new(broker.clone(), base.timers.clone()));
    let settings = Arc::new(Settings::new(base));
    let overflow = Arc::new(Overflow::new(broker.clone(), ledger.clone()));
    let loader = Arc::new(Loader::new(base, leader.clone(), overflow.clone()));
    let comparison = Arc::new(Comparison::new(base, loader.clone()));
    let generations = Arc::new(Generations::new(base));
    let admission = Arc::new(Admission::new(base, loader.clone(), ids.clone()));
    let queues = Arc::new(QueueCounter::new(base, settings.clone(), overflow.clone()));
    let gate = Arc::new(Gate::new(base, settings.clone(), queues.clone()));
    let search = Arc::new(Search::new(base, loader.clone(), queues.clone()));
    let recorder = Arc::new(Recorder::new(base, loader.clone(), admission.clone(), ids.clone()));
    let follow_ups = Arc::new(FollowUps::new(base, admission.clone(), ids.clone(), settings.clone()));
    let editor = Arc::new(Editor::new(
        base,
        loader.clone(),
        admission.clone(),
        follow_ups.clone(),
        recorder.clone(),
        search.clone(),
    ));
    let reconciler = Reconciler::new(
        base,
        loader.clone(),
        (overflow.clone(), comparison.clone()),
        editor.clone(),
        settings.clone(),
        leader.clone(),
    );
    let remover = Arc::new(QueueRemover::new(base, queues.clone(), settings.clone(), editor.clone(), recorder.clone()));
    let intake = Arc::new(Intake::new(
        base,
        admission.clone(),
        recorder.clone(),
        editor.clone(),
        ids.clone(),
        (settings.clone(), gate.clone()),
        generations.clone(),
    ));
    let settler = Arc::new(Settler::new(
        base,
        follow_ups.clone(),
        recorder.clone(),
        consumers.clone(),
        ids.clone(),
        settings.clone(),
    ));
    let handout = Arc::new(Handout::new(
        base,
        loader.clone(),
        recorder.clone(),
        settler.clone(),
        settings.clone(),
        consumers.clone(),
    ));
    let takes = Arc::new(Takes::new(
        base,
        admission.clone(),
        follow_ups.clone(),
        recorder.clone(),
        handout.clone(),
        consumers.clone(),
    ));
    let reaper =
        Arc::new(Reaper::new(base, follow_ups, recorder.clone(), settler.clone(), takes.clone(), comparison.clone()));
    let pruner = Arc::new(Pruner::new(base, settings.clone(), editor.clone(), leader.clone()));
    let mover = inbox.clone().map(|inbox| {
        Arc::new(InboxMover::new(base, inbox, admission.clone(), intake.clone(), leader.clone(), ids.clone()))
    });
    let schedules = Arc::new(Schedules::new(base, intake.clone(), leader.clone(), admission, ids.clone()));
    let observatory = Observatory::new(base, &queues, (&settings, &gate), &recorder, &overflow, &consumers, &search);
    let vitals = Vitals::new(base, loader.clone(), recorder.clone(), leader.clone());
    let locks = Arc::new(LockDesk::new(base));
    let services = Services {
        vitals,
        intake,
        handout,
        takes,
        settler,
        editor,
        search,
        queues: QueueServices { settings, counter: queues, remover },
        schedules,
        locks,
        observatory,
        timers: base.timers.clone(),
    };
    let reconciler = Arc::new(reconciler);
    let loops =
        Loops { leader, loader, recorder, reconciler, comparison, reaper, pruner, mover, ids, generations, consumers };
    (services, loops)
}

/// Begins the memory of the broker if nobody has, and reads the settings of queues. Nothing is served and no loop runs before.
pub(super) async fn begin(base: &Base, services: &Services, loops: &Loops) -> Result<(), Error> {
    let broker = &base.stores.broker;
    broker.begin(loops.generations.host(&loops.consumers, &loops.comparison, broker.now())).await?;
    loops.consumers.begin(broker.now());
    services.locks.begin().await?;
    services.queues.settings.load().await
}
