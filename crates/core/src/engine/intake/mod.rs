//! The way in of jobs: pushes, imports, and whatever else makes a job.

mod forward;
mod import;
mod push;

use crate::engine::admission::Admission;
use crate::engine::base::Base;
use crate::engine::editor::Editor;
use crate::engine::host::Generations;
use crate::engine::ids::Ids;
use crate::engine::queues::{Gate, Settings};
use crate::engine::recorder::Recorder;
use crate::engine::supervisor::Supervisor;
use crate::ports::{Broker, Ledger};
use crate::request::Options;
pub use import::check_whole;
pub(in crate::engine) use push::{Needs, conflict, repeated};
use std::sync::Arc;

/// Takes in new jobs.
pub(in crate::engine) struct Intake {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    admission: Arc<Admission>,
    recorder: Arc<Recorder>,
    editor: Arc<Editor>,
    ids: Arc<Ids>,
    settings: Arc<Settings>,
    pub(in crate::engine) gate: Arc<Gate>,
    supervisor: Arc<Supervisor>,
    generations: Arc<Generations>,
    options: Options,
}

impl Intake {
    pub(in crate::engine) fn new(
        base: &Base,
        admission: Arc<Admission>,
        recorder: Arc<Recorder>,
        editor: Arc<Editor>,
        ids: Arc<Ids>,
        (settings, gate): (Arc<Settings>, Arc<Gate>),
        generations: Arc<Generations>,
    ) -> Self {
        let Base { stores, options, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            admission,
            recorder,
            editor,
            ids,
            settings,
            gate,
            supervisor: supervisor.clone(),
            generations,
            options: *options,
        }
    }
}
