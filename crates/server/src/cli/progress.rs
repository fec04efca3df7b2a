//! A bar on the terminal; nothing in a pipe.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(200);

/// How far something has come. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(what: &'static str, jobs: usize) -> Self {
        let bar = ProgressBar::new(jobs as u64).with_message(what);
        let style = ProgressStyle::with_template("{msg:<16} {wide_bar} {human_pos}/{human_len} {per_sec:>12} {eta:>4}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.tick();
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Of something whose end is not known.
    pub(crate) fn counting(what: &'static str) -> Self {
        let bar = ProgressBar::no_length().with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg:<16} {human_pos} {per_sec:>12}") {
            bar.set_style(style);
        }
        bar.tick();
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(crate) fn add(&self, jobs: usize) {
        self.0.inc(jobs as u64);
    }

    pub(crate) fn done(&self) {
        self.0.finish_and_clear();
    }
}
