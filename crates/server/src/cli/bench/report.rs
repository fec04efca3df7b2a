//! The measurements of a load, for people and programs.

use super::histogram::{Histogram, Percentiles};
use super::subject::Subject;
use crate::cli::exit::Result;
use crate::cli::output;
use indicatif::HumanCount;
use serde::Serialize;
use std::time::Duration;

/// The figures of one run.
#[derive(Serialize)]
pub(super) struct Report {
    load: &'static str,
    subject: String,
    setting: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<Figure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timings: Vec<Timing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

#[derive(Serialize)]
struct Timing {
    name: &'static str,
    #[serde(flatten)]
    percentiles: Percentiles,
    #[serde(skip)]
    bars: Vec<String>,
}

impl Report {
    pub(super) fn new(load: &'static str, subject: &str, setting: String) -> Self {
        let (figures, timings) = (Vec::new(), Vec::new());
        Self { load, subject: subject.to_owned(), setting, figures, timings, memory_bytes: None }
    }

    fn figure(mut self, name: &'static str, value: f64, unit: &'static str) -> Self {
        self.figures.push(Figure { name, value, unit });
        self
    }

    pub(super) fn rate(self, name: &'static str, jobs: usize, elapsed: Duration) -> Self {
        self.figure(name, jobs as f64 / elapsed.as_secs_f64(), "jobs/s")
    }

    pub(super) fn seconds(self, name: &'static str, elapsed: Duration) -> Self {
        self.figure(name, elapsed.as_secs_f64(), "s")
    }

    pub(super) fn timing(mut self, name: &'static str, histogram: &Histogram) -> Self {
        self.timings.push(Timing { name, percentiles: histogram.percentiles(), bars: histogram.bars() });
        self
    }

    /// Prints it with the memory of the subject, and closes the subject.
    pub(super) async fn finish(mut self, subject: Subject, json: bool) -> Result {
        self.memory_bytes = subject.memory_bytes();
        self.show(json)?;
        subject.close().await
    }

    fn show(&self, json: bool) -> Result {
        if json {
            return output::json(self);
        }
        output::say(format_args!("{}, {}\n{}", self.load, self.subject, self.setting))?;
        for Figure { name, value, unit } in &self.figures {
            let value = if *value >= 1_000.0 { HumanCount(*value as u64).to_string() } else { format!("{value:.3}") };
            output::say(format_args!("  {name:<28} {value:>12} {unit}"))?;
        }
        if let Some(bytes) = self.memory_bytes {
            output::say(format_args!("  {:<28} {:>12.1} MiB", "resident memory", bytes as f64 / f64::from(1 << 20)))?;
        }
        for Timing { name, percentiles, bars } in &self.timings {
            output::say(format_args!("\n{name}: {}", percentiles.line()))?;
            bars.iter().try_for_each(output::say)?;
        }
        Ok(())
    }
}
