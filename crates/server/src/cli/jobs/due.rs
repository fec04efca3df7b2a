//! Options that say when.

use crate::cli::usage::span;
use duetime_core::Due;
use duetime_core::api::{Span, Timestamp};
use duetime_core::limits::DELAY_MS_MAX;

/// When a job is to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct When {
    /// Due after this long, such as 250ms, 30s, 15m, 1h30m or 7d
    #[arg(long, short, value_name = "DURATION", value_parser = span::<0, DELAY_MS_MAX>)]
    pub(crate) delay: Option<Span>,
    /// Due at this time, such as 2027-01-31T08:00:00Z or 2027-01-31T09:00:00+01:00
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub(crate) at: Option<Timestamp>,
}

impl When {
    /// The due time for the engine; `None` if no option was given.
    pub(crate) fn due(&self) -> Option<Due> {
        let delay = self.delay.map(Due::After);
        delay.or(self.at.map(Due::At))
    }
}
