//! The two chores that look for lost jobs: the seeded simulation of the engine, and the real server under SIGKILL.
//!
//! Both live with what they test (`crates/core/examples/sim.rs`, `crates/server/tests/kill/`); here they are only
//! called.

use crate::repo::Metadata;
use crate::{process, setup, test};

/// Seeds that `cargo xtask test` runs.
pub(crate) const SEEDS_IN_TEST: u64 = 2_000;

/// Rounds of `cargo xtask kill` where none are asked for; `cargo xtask test` leaves the number to the test itself.
pub(crate) const KILL_ROUNDS: u32 = 200;

/// Runs the simulation for the seeds `from`, `from + 1`, ... `from + seeds - 1`.
pub(crate) fn simulate(seeds: u64, from: u64) -> Result<(), String> {
    let mut command =
        process::cargo(["run", "--release", "-p", "duetime-core", "--features", "testing", "--example", "sim", "--"]);
    command.args(["--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    process::run(command)
}

/// Runs the kill test with `rounds` rounds against the release binary, showing its progress.
pub(crate) fn kill(rounds: u32) -> Result<(), String> {
    let metadata = Metadata::read()?;
    test::build_server()?;
    // The profile `long` (`.config/nextest.toml`) lets a test run for as long as it likes.
    let mut command = if setup::has_nextest() {
        process::cargo([
            "nextest",
            "run",
            "--profile",
            "long",
            "--no-capture",
            "-p",
            "duetime-server",
            "--test",
            "kill",
        ])
    } else {
        process::cargo(["test", "-p", "duetime-server", "--test", "kill", "--", "--nocapture"])
    };
    command.env("DUETIME_KILL_ROUNDS", rounds.to_string()).env(test::SERVER_BINARY, test::server_binary(&metadata));
    process::run(command)
}
