//! What tests of stores share: suites that every implementation of a port passes with the same cases.

pub mod ledger_suite;
