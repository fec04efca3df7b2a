//! Counts of the claims so far.

use super::look;
use super::source::{Claim, Part};
use crate::cli::exit::{DATA, ERROR, Failure, Result, TRY_LATER};
use crate::cli::output::{self, note, snippet};
use crate::cli::progress::Progress;
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// How often JSON is printed while jobs are taken.
const EVERY: Duration = Duration::from_secs(10);
/// Refusals that are printed one by one.
const TOLD_MAX: u64 = 20;

/// Counts. The same JSON every ten seconds, and at the end.
#[derive(Serialize)]
pub(super) struct Report {
    layout: String,
    /// Claims, with those of earlier runs.
    pub(super) claimed: u64,
    /// Claims that are new jobs.
    pub(super) adopted: u64,
    /// Claims that an earlier run had pushed.
    pub(super) repeated: u64,
    /// Claims that are no jobs, and go back.
    pub(super) refused: u64,
    /// Claims that are being pushed.
    pub(super) in_flight: u64,
    /// Claims that stay for the next run.
    pub(super) left_claimed: u64,
    /// The lateness of the last claim, if the source shows it.
    pub(super) lag_ms: Option<u64>,
    /// The contents of the source at the end; `None` if they could not be read.
    pub(super) there: Option<Vec<Part>>,
    has_ended: bool,
    #[serde(skip)]
    is_json: bool,
    #[serde(skip)]
    printed: Instant,
    #[serde(skip)]
    progress: Progress,
}

impl Report {
    pub(super) fn new(layout: String, is_json: bool) -> Self {
        Self {
            layout,
            claimed: 0,
            adopted: 0,
            repeated: 0,
            refused: 0,
            in_flight: 0,
            left_claimed: 0,
            lag_ms: None,
            there: None,
            has_ended: false,
            is_json,
            printed: Instant::now(),
            progress: Progress::telling(),
        }
    }

    /// One is no job.
    pub(super) fn refuse(&mut self, claim: &Claim, why: &str) {
        self.refused += 1;
        match self.refused {
            ..=TOLD_MAX => {
                let job = claim
                    .job
                    .as_ref()
                    .map_or_else(|_| String::new(), |job| format!("; payload: {}", snippet(&job.payload)));
                note!("refused {}: {why}{job}", claim.id);
            }
            refused if refused == TOLD_MAX + 1 => note!("more are refused; they are only counted"),
            _ => {}
        }
    }

    /// Shows the current counts.
    pub(super) fn show(&mut self) -> Result {
        let Self { claimed, refused, in_flight, .. } = self;
        let lag = self.lag_ms.map_or_else(String::new, |ms| format!(", {}.{} s late", ms / 1_000, ms % 1_000 / 100));
        self.progress.tell(format!("{claimed} claimed, {in_flight} in flight, {refused} refused{lag}"));
        if self.is_json && self.printed.elapsed() >= EVERY {
            self.printed = Instant::now();
            output::json(self)?;
        }
        Ok(())
    }

    /// Prints it at the end. The exit code tells whether all, some or none became jobs.
    pub(super) fn end(mut self, result: Result) -> Result {
        self.progress.done();
        (self.has_ended, self.in_flight) = (true, 0);
        if self.is_json {
            output::json(&self)?;
        } else {
            let Self { adopted, repeated, refused, .. } = self;
            let adopted = output::count(adopted, "job");
            output::say(format_args!("{adopted} adopted, {repeated} adopted before, {refused} refused"))?;
            for Part { name, due, later, left, unchecked, why_left } in self.there.iter().flatten() {
                let name = look::name(name);
                let why = why_left.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                let others = match unchecked {
                    0 => String::new(),
                    others => format!(", {others} not checked"),
                };
                output::say(format_args!("still in {name}: {due} due, {later} later, {left} not taken{why}{others}"))?;
            }
        }
        if self.left_claimed > 0 {
            let left = output::count(self.left_claimed, "job");
            note!("{left} still claimed in the source: run the same command again to finish them");
        }
        result?;
        match (self.left_claimed, self.refused, self.adopted + self.repeated) {
            (1.., ..) => Err(Failure::quiet(TRY_LATER)),
            (0, 0, _) => Ok(()),
            (0, _, 0) => Err(Failure::quiet(ERROR)),
            _ => Err(Failure::quiet(DATA)),
        }
    }
}
