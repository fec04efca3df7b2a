//! Shared test support for the engine and stores: conformance suites, plain models, clocks, fixtures, the simulation, and
//! the account of a real system.

pub mod account;
pub mod broker_suite;
pub mod clock;
mod edits;
pub mod fixtures;
pub mod fuzz;
mod heads;
pub mod ledger_suite;
mod life;
pub mod locks_suite;
pub mod model_ledger;
mod model_totals;
pub mod mortal;
pub mod random;
pub mod shared;
mod shared_locks;
pub mod sim;
mod skewed;
pub mod tokio_clock;

use crate::model::id::Receipt;
pub use clock::ManualClock;
pub use fuzz::{fuzz, fuzz_part};
pub use model_ledger::ModelLedger;
pub use random::Random;
pub use shared::Shared;
pub use tokio_clock::TokioClock;

/// Whether a worker adds a job when it completes this lease: decided by the receipt alone, so a judge knows it too.
pub(crate) fn adds_a_job(receipt: Receipt) -> bool {
    receipt.epoch % 8 == 3
}
