//! All tests of this crate's public API except the simulation, in one program, because each program links everything again.

mod engine;
mod ledger;
mod locks;
mod memory;
mod parsers;
mod rules;
