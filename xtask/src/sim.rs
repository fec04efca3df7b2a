//! The chores that look for lost jobs and other harm: the seeded simulation of the engine, interleavings on a real Redis,
//! the real server under SIGKILL and under malformed requests, and many processes on one failing Redis.
//!
//! They live beside the code that they test (`crates/core/src/testing/sim/`, `crates/store/tests/interleave/`,
//! `crates/server/tests/kill/`, `crates/server/tests/redis_chaos/`); here they are only called.

use std::process::Command;

use crate::repo::Metadata;
use crate::{process, setup, test};

/// Default seeds of `cargo xtask sim`.
pub(crate) const SEEDS: u64 = 2_000;

/// The variable that sets how many seeds of the simulation the tests run.
pub(crate) const SIM_SEEDS: &str = "DUETIME_SIM_SEEDS";

/// The variable that sets how long the tests try interleavings, in seconds.
pub(crate) const INTERLEAVE_SECONDS: &str = "DUETIME_INTERLEAVE_SECONDS";

/// Default minutes of `cargo xtask interleave`.
pub(crate) const INTERLEAVE_MINUTES: u64 = 10;

/// Default rounds of `cargo xtask kill`; `cargo xtask test` leaves the number to the test itself.
pub(crate) const KILL_ROUNDS: u32 = 200;

/// Default jobs of `cargo xtask chaos`, and the time over which they are due; `cargo xtask test`
/// leaves both to the test itself.
pub(crate) const CHAOS_JOBS: u64 = 200_000;
pub(crate) const CHAOS_SECONDS: u64 = 60;

/// Jobs of `cargo xtask scale` if no number is asked for.
pub(crate) const SCALE_JOBS: u64 = 10_000_000;

/// Default seconds of `cargo xtask fuzz`; `cargo xtask test` leaves them to the test itself.
pub(crate) const FUZZ_SECONDS: u64 = 600;

/// Runs the simulation for the seeds `from`, `from + 1`, ... `from + seeds - 1`.
pub(crate) fn simulate(seeds: u64, from: u64) -> Result<(), String> {
    let mut command = process::cargo(["test", "--release", "-p", "duetime-core", "--features", "testing"]);
    command.args(["--test", "simulation", "the_promises", "--", "--nocapture"]);
    command.env(SIM_SEEDS, seeds.to_string()).env("DUETIME_SIM_FROM", from.to_string());
    process::run(command)
}

/// Runs two engines on a real Redis for this long, with calls held back, reordered, repeated and cut by a seed.
pub(crate) fn interleave(seconds: u64, seed: Option<u64>) -> Result<(), String> {
    let mut command = long_test("interleave", &[]);
    command.env(INTERLEAVE_SECONDS, seconds.to_string());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 1_000);
    command.env("DUETIME_INTERLEAVE_SEED", seed.to_string());
    process::run(command)
}

/// Runs the kill test with `rounds` rounds against the release binary, showing its progress.
pub(crate) fn kill(rounds: u32) -> Result<(), String> {
    let mut command = long_test("kill", &[]);
    command.env("DUETIME_KILL_ROUNDS", rounds.to_string());
    with_server(command)
}

/// Rounds of a parser's fuzzing in a second, in a debug build.
const PARSER_ROUNDS: u64 = 2_000;

/// Feeds every parser mutations of its corpus: the tests whose names begin with `whatever`, and those of `parsers`.
fn fuzz_parsers(seconds: u64) -> Result<(), String> {
    let filter = "test(/^parsers::|whatever/)";
    let mut command =
        process::cargo(["nextest", "run", "--workspace", "--all-features", "--profile", "long", "-E", filter]);
    command.env("DUETIME_FUZZ_ROUNDS", (seconds * PARSER_ROUNDS).to_string());
    process::run(command)
}

/// Runs the fuzz test for this long against the release binary, showing its progress.
pub(crate) fn fuzz(seconds: u64) -> Result<(), String> {
    fuzz_parsers(seconds)?;
    let mut command = long_test("fuzz", &[]);
    command.env("DUETIME_FUZZ_SECONDS", seconds.to_string());
    with_server(command)
}

/// Measures the dashboard of the release binary over this many jobs, and shows the tables.
pub(crate) fn scale(jobs: u64) -> Result<(), String> {
    setup::install_missing()?;
    let mut command = process::cargo(["nextest", "run", "-p", "duetime-server", "--all-features", "--profile", "long"]);
    command.args(["--no-capture", "scale::"]);
    command.env("DUETIME_SCALE_JOBS", jobs.to_string());
    with_server(command)
}

/// Runs the chaos test with this many jobs over this many seconds, showing its progress. The workers are the test's own
/// program, so that is built for release, and the server with it.
pub(crate) fn chaos(jobs: u64, seconds: u64, seed: Option<u64>) -> Result<(), String> {
    setup::install_missing()?;
    let mut command = long_test("redis_chaos", &["--release"]);
    command.env("DUETIME_CHAOS_JOBS", jobs.to_string()).env("DUETIME_CHAOS_SECONDS", seconds.to_string());
    if let Some(seed) = seed {
        command.env("DUETIME_CHAOS_SEED", seed.to_string());
    }
    process::run(command)
}

/// Builds the server in release mode, and runs a test that uses it.
pub(crate) fn with_server(mut test: Command) -> Result<(), String> {
    let binary = test::server_binary(&Metadata::read()?);
    test::build_server()?;
    test.env(test::SERVER_BINARY, binary);
    process::run(test)
}

/// Runs one test program without time limits and shows its output. It is built with the same features as the workspace's tests.
pub(crate) fn long_test(name: &str, arguments: &[&str]) -> Command {
    let which = [&["--workspace", "--all-features", "--test", name], arguments].concat();
    // The profile `long` (`.config/nextest.toml`) has no time limits.
    if setup::has_nextest() {
        process::cargo(["nextest", "run", "--profile", "long", "--no-capture"].iter().chain(&which))
    } else {
        process::cargo(["test"].iter().chain(&which).chain(&["--", "--nocapture", "--test-threads=1"]))
    }
}
