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
    /// Queues whose settings were imported.
    pub(super) queues: u64,
    /// Queues that have the same settings here.
    pub(super) queues_known: u64,
    /// Queues that have other settings here, which stay.
    pub(super) queues_kept: u64,
    /// Schedules that were imported.
    pub(super) schedules: u64,
    /// Schedules that are the same here.
    pub(super) schedules_known: u64,
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
        let Self { imported, known, renamed, refused, queues, queues_known, queues_kept, .. } = self;
        let Self { schedules, schedules_known, schedules_kept, .. } = self;
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
        let settings = |imported: u64| format!("settings of {}", count(imported, "queue"));
        say_set_up(*queues, *queues_known, *queues_kept, settings)?;
        say_set_up(*schedules, *schedules_known, *schedules_kept, |imported| count(imported, "schedule"))?;
        Ok(())
    }
}

/// Tells how many were imported, were there already, and differ, if there are any.
fn say_set_up(imported: u64, known: u64, kept: u64, named: impl Fn(u64) -> String) -> Result {
    if imported + known + kept == 0 {
        return Ok(());
    }
    let kept = if kept == 0 { String::new() } else { format!(", {kept} differ and stay as they are") };
    output::say(format_args!("{} imported, {known} already in the store{kept}", named(imported)))
}
