//! `cargo xtask outside`: real programs, and hundreds of kills.

mod bullmq;
mod frameworks;
mod kills;
mod million;
mod php;
mod program;
