//! For tests: conformance suites of the ports, a clock that is set by hand, and fixtures.

pub mod broker_suite;
pub mod clock;
pub mod fixtures;

pub use clock::ManualClock;
