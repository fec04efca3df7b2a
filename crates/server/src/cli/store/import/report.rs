//! The results of importing the lines.

use crate::cli::exit::{ERROR, Failure, Result};
use crate::cli::output::{self, count, note};
use crate::cli::store::export_line::Sums;
use serde::Serialize;
use std::fmt::Display;

/// Counts. Refused lines are reported at once, on standard error.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// Jobs that are new here; with `--check` those that may come.
    pub(super) imported: u64,
    /// Jobs that were here, and are as they were.
    pub(super) known: u64,
    /// Jobs of both kinds that have another id here.
    pub(super) renamed: u64,
    /// Lines that were refused.
    pub(super) refused: u64,
    /// Queues whose settings were imported, or are the same here.
    pub(super) queues: u64,
    /// Queues that have other settings here, which stay.
    pub(super) queues_kept: u64,
    /// Schedules that were imported, or are the same here.
    pub(super) schedules: u64,
    /// Schedules that differ from the ones here, which stay.
    pub(super) schedules_kept: u64,
    /// Why the end is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cut_off: Option<String>,
}

impl Report {
    /// A line is no good.
    pub(super) fn refuse(&mut self, number: u64, why: impl Display) {
        self.refused += 1;
        note!("line {number}: {why}");
    }

    /// Compares the imported counts with those of the last line.
    pub(super) fn compare(&mut self, seen: Sums, said: Option<Sums>) {
        let Sums { queues, schedules, jobs } = seen;
        self.cut_off = match said {
            None => Some("the last line `end` is missing: the export is incomplete".to_owned()),
            Some(said) if said != seen => Some(format!(
                "lines are missing: the last line counts {} jobs, {} queues and {} schedules, but there are {jobs}, {queues} \
                 and {schedules}",
                said.jobs, said.queues, said.schedules
            )),
            Some(_) => None,
        };
    }

    /// Tells it; fails where something was refused or is missing.
    pub(super) fn end(&self, is_check: bool, json: bool) -> Result {
        if json {
            output::json(self)?;
        } else {
            self.say(is_check)?;
        }
        if let Some(why) = &self.cut_off {
            note!("duetime: {why}");
        }
        if self.refused > 0 || self.cut_off.is_some() { Err(Failure::quiet(ERROR)) } else { Ok(()) }
    }

    fn say(&self, is_check: bool) -> Result {
        let Self { imported, known, renamed, refused, queues, queues_kept, schedules, schedules_kept, .. } = self;
        if is_check {
            return output::say(format_args!(
                "valid: {}, {} and {}; not valid: {}",
                count(*imported, "job"),
                count(*queues, "queue"),
                count(*schedules, "schedule"),
                count(*refused, "line")
            ));
        }
        let (imported, refused) = (count(*imported, "job"), count(*refused, "line"));
        output::say(format_args!("{imported} imported, {known} already in the store, {refused} refused"))?;
        if *renamed > 0 {
            output::say(format_args!(
                "{renamed} got another id that fits this store's partitions: only the low 10 bits differ"
            ))?;
        }
        if queues + queues_kept > 0 {
            let queues = count(*queues, "queue");
            output::say(format_args!("settings of {queues} imported, {queues_kept} left as they are"))?;
        }
        if schedules + schedules_kept > 0 {
            let schedules = count(*schedules, "schedule");
            output::say(format_args!("{schedules} imported, {schedules_kept} left as they are"))?;
        }
        Ok(())
    }
}
