//! All tests of this crate's public side, but the simulation, in one program: each program links everything anew.

mod engine;
mod ledger;
mod locks;
mod memory;
mod parsers;
mod rules;
