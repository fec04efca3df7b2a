//! A bar on the terminal; nothing in a pipe.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(200);

/// How far a load has come. Cheap to clone.
#[derive(Clone)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(what: &'static str, jobs: usize) -> Self {
        let bar = ProgressBar::new(jobs as u64).with_message(what);
        let style = ProgressStyle::with_template("{msg:<16} {wide_bar} {human_pos}/{human_len} {per_sec:>12} {eta:>4}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(super) fn add(&self, jobs: usize) {
        self.0.inc(jobs as u64);
    }

    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}
