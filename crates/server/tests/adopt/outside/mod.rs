//! `cargo xtask outside`: real programs, and hundreds of kills.

mod frameworks;
mod sets;
