//! `cargo xtask outside`: real programs, and hundreds of kills.

mod bullmq;
mod frameworks;
mod sets;
