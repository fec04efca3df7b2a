//! What most programs need: `use duetime::prelude::*`.

#[cfg(feature = "derive")]
pub use crate::Job;
pub use crate::schedule::{Cron, Every};
pub use crate::worker::{Attempt, Cancelled};
pub use crate::{Client, Context, JobError, JobType, State, Worker};
pub use serde::{Deserialize, Serialize};
pub use std::sync::Arc;
pub use std::time::Duration;
