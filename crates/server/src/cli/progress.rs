//! A bar on the terminal; nothing in a pipe.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(200);

/// The progress of something. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(what: &'static str, jobs: usize) -> Self {
        let template = "{msg:<16} {wide_bar} {human_pos}/{human_len} {per_sec:>12} {eta:>4}";
        Self::show(what, ProgressBar::new(jobs as u64), template)
    }

    /// Of something with an unknown end.
    pub(crate) fn counting(what: &'static str) -> Self {
        Self::show(what, ProgressBar::no_length(), "{msg:<16} {human_pos} {per_sec:>12}")
    }

    /// A line of text that changes.
    pub(crate) fn telling() -> Self {
        Self::show("", ProgressBar::no_length(), "{wide_msg}")
    }

    pub(crate) fn tell(&self, text: String) {
        self.0.set_message(text);
    }

    fn show(what: &'static str, bar: ProgressBar, template: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let bar = bar.with_message(what);
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
