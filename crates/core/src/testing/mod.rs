//! What tests of the engine and of stores share: plain models, conformance suites, the simulation.

pub mod ledger_suite;
pub mod model_ledger;
pub mod random;
pub mod sim;
pub mod tokio_clock;

pub use model_ledger::ModelLedger;
pub use random::Random;
pub use tokio_clock::TokioClock;
