//! The store that jobs go to, in batches.

use super::report::Report;
use crate::cli::exit::Result;
use crate::cli::output::note;
use crate::cli::push_batch::{self, BATCH_BYTES, BATCH_JOBS, is_of_a_job};
use crate::cli::target::{MEMORY, Target};
use crate::engine_options::engine_options;
use duetime::{Client, OpenOptions};
use duetime_core::api::Span;
use duetime_core::engine::{Imported, Options, QueueSettings};
use duetime_core::{Job, JobId, Schedule};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A store, and the entries to record in it. Without a store, they are only counted.
#[derive(Default)]
pub(super) struct Sink {
    client: Option<Client>,
    /// The settings of its queues before the import.
    settings: HashMap<Arc<str>, QueueSettings>,
    /// Its schedules before the import.
    schedules: HashMap<Arc<str>, Schedule>,
    /// With the number of its line.
    waiting: Vec<(u64, Job)>,
    bytes: usize,
}

impl Sink {
    /// Opens the store; a missing file is created.
    pub(super) async fn open(target: &Target) -> Result<Self> {
        target.check_is_store()?;
        let client = match &target.store {
            // An import hands out no jobs, so jobs that are due soon need not be in memory.
            Some(path) if path != Path::new(MEMORY) => {
                let options = Options { horizon: Span(0), ..engine_options() };
                Client::open_with(path, OpenOptions::default().engine(options)).await?
            }
            _ => target.open().await?,
        };
        let queues = client.queues().list().await?.into_iter();
        let settings = queues.map(|status| (status.queue, status.settings)).collect();
        let schedules = client.schedules().list().await?.into_iter();
        let schedules = schedules.map(|status| (status.name, status.schedule)).collect();
        Ok(Self { client: Some(client), settings, schedules, waiting: Vec::new(), bytes: 0 })
    }

    /// Sets a queue up, unless it is.
    pub(super) async fn configure(
        &mut self,
        number: u64,
        queue: Arc<str>,
        settings: QueueSettings,
        report: &mut Report,
    ) -> Result {
        match self.settings.get(&queue) {
            Some(known) if *known == settings => report.queues_known += 1,
            Some(known) if *known != QueueSettings::default() => {
                report.queues_kept += 1;
                note!("line {number}: the queue {queue} already has other settings, which stay");
            }
            _ => {
                if let Some(client) = &self.client {
                    client.queues().replace(&queue, settings.clone()).await?;
                    self.settings.insert(queue, settings);
                }
                report.queues += 1;
            }
        }
        Ok(())
    }

    /// Sets a schedule, unless there is one of this name.
    pub(super) async fn set_schedule(
        &mut self,
        number: u64,
        name: Arc<str>,
        schedule: Schedule,
        report: &mut Report,
    ) -> Result {
        let Some(client) = &self.client else {
            report.schedules += 1;
            return Ok(());
        };
        match self.schedules.get(&name) {
            Some(known) if *known == schedule => report.schedules_known += 1,
            Some(_) => {
                report.schedules_kept += 1;
                note!("line {number}: the schedule {name} already exists with other values, and stays");
            }
            None => match client.schedules().set(&name, schedule.clone()).await {
                Ok(_) => {
                    self.schedules.insert(name, schedule);
                    report.schedules += 1;
                }
                Err(error) if is_of_a_job(&error) => report.refuse(number, error),
                Err(error) => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Takes a job, and records the waiting jobs if there are many.
    pub(super) async fn add(&mut self, number: u64, job: Job, report: &mut Report) -> Result {
        if self.client.is_none() {
            report.imported += 1;
            return Ok(());
        }
        self.bytes += job.payload.len();
        self.waiting.push((number, job));
        if self.waiting.len() < BATCH_JOBS && self.bytes < BATCH_BYTES {
            return Ok(());
        }
        self.flush(report).await
    }

    /// Records what waits.
    pub(super) async fn flush(&mut self, report: &mut Report) -> Result {
        let Some(client) = &self.client else { return Ok(()) };
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let jobs: Vec<Job> = waiting.iter().map(|(_, job)| job.clone()).collect();
        let answers = push_batch::send(jobs, |jobs| async move { client.embedded()?.import(jobs).await }).await;
        for ((number, job), answer) in waiting.iter().zip(answers) {
            note(*number, job.id, answer, report)?;
        }
        Ok(())
    }

    /// Lets go of the store.
    pub(super) async fn close(self) -> Result {
        match self.client {
            Some(client) => Ok(client.close().await?),
            None => Ok(()),
        }
    }
}

fn note(number: u64, id: JobId, answer: std::result::Result<Imported, duetime::Error>, report: &mut Report) -> Result {
    match answer {
        Ok(imported) => {
            report.renamed += u64::from(imported.id != id);
            if imported.is_new {
                report.imported += 1;
            } else {
                report.known += 1;
            }
            Ok(())
        }
        Err(error) if is_of_a_job(&error) => {
            report.refuse(number, error);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
