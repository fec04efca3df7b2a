//! The cases that every ledger and registry passes.
