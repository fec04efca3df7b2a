//! The output of the demo.

use super::jobs::{CANCELLED, JOBS};
use crate::cli::exit::Result;
use crate::cli::output;
use crate::cli::terminal::is_colourful;
use crate::cli::time::{late, short};
use duetime::Context;
use serde_json::json;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Prints, and counts.
pub(super) struct Show {
    json: bool,
    colourful: bool,
    begin: Instant,
    counted: Mutex<Counted>,
}

#[derive(Clone, Default)]
struct Counted {
    lateness: Vec<Duration>,
    succeeded: usize,
    failed: usize,
    early: usize,
}

impl Show {
    pub(super) fn new(json: bool) -> Self {
        Self { json, colourful: is_colourful(&std::io::stdout()), begin: Instant::now(), counted: Mutex::default() }
    }

    pub(super) fn begin(&self) -> Result {
        self.say(&format!("Pushing {} jobs, due over the next 5 seconds, into a temporary store.\n", JOBS.len()))?;
        self.say(&self.painted("1", &format!("  {:>8}  {:<16} {:>9}", "AFTER", "JOB", "LATE BY")))
    }

    pub(super) fn cancelled(&self, kind: &str) -> Result {
        self.say(&format!("  {}  {kind:<16} {:>9}  {}", self.after(), "", self.painted("33", "cancelled, never runs")))
    }

    /// A job has run.
    pub(super) fn ran(&self, context: &Context, succeeded: bool) -> Result {
        let late = late(context.due_at().0);
        let (late, early) = (late.unwrap_or_default(), late.is_none());
        {
            let mut counted = self.counted();
            counted.lateness.push(late);
            counted.succeeded += usize::from(succeeded);
            counted.failed += usize::from(!succeeded);
            counted.early += usize::from(early);
        }
        let (kind, attempt) = (&**context.kind(), context.attempt());
        if self.json {
            let late_us = late.as_micros();
            return output::json(
                &json!({ "kind": kind, "attempt": attempt, "succeeded": succeeded, "late_us": late_us }),
            );
        }
        let what = match (succeeded, attempt) {
            (true, 1) => self.painted("32", "done"),
            (true, _) => self.painted("32", &format!("done, at attempt {attempt}")),
            (false, _) => self.painted("31", "failed, runs again 1.5 s later"),
        };
        self.say(&format!("  {}  {kind:<16} {:>9}  {what}", self.after(), short(late)))
    }

    pub(super) fn end(&self) -> Result {
        let Counted { mut lateness, succeeded, failed, early } = self.counted().clone();
        lateness.sort_unstable();
        let median = lateness.get(lateness.len() / 2).copied().unwrap_or_default();
        let max = lateness.last().copied().unwrap_or_default();
        let cancelled = JOBS.iter().filter(|job| job.kind == CANCELLED).count();
        if self.json {
            return output::json(&json!({
                "succeeded": succeeded, "failed_attempts": failed, "cancelled": cancelled, "early": early,
                "late_us_median": median.as_micros(), "late_us_max": max.as_micros(),
            }));
        }
        self.say(&format!(
            "\nAll {succeeded} ran, {} early; {failed} failed at first and was retried, {cancelled} was cancelled. \
             Late by {} at the median, {} at most.",
            if early == 0 { "none".to_owned() } else { early.to_string() },
            short(median),
            short(max)
        ))?;
        self.say("Next: `duetime serve` in one terminal, `duetime push --delay 10s hello` in another.")
    }

    pub(super) fn succeeded(&self) -> usize {
        self.counted().succeeded
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, line: &str) -> Result {
        if self.json { Ok(()) } else { output::say_styled(line) }
    }

    fn after(&self) -> String {
        format!("{:>6.2} s", self.begin.elapsed().as_secs_f64())
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colourful { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
