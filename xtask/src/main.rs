//! The project's chores, run as `cargo xtask <chore>`; the CI machine runs `test` and `lint` and nothing else.
//!
//! Each chore is a list of steps that are announced, timed and summed up (`report.rs`). A chore calls cargo and judges the
//! results; it decides nothing about the product itself.

mod book;
mod clients;
mod deps;
mod endure;
mod lint;
mod neighbours;
mod package;
mod process;
mod public;
mod repo;
mod report;
mod setup;
mod sim;
mod size;
mod test;
mod tidy;
mod upgrade;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", about = "The project's chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what is missing, then run all tests but those of `outside`
    Test,
    /// Run the heavy checks that seldom break: the shell client, packaging, every page of the dashboard, MariaDB twins, crates
    /// that use ours beside others with SQLite, many seeds of the simulation, links in the docs of private items
    Outside,
    /// Picture each page of the dashboard, in both themes and languages
    Screenshots,
    /// Make what people install, in `target/packages`: a Debian package, a tarball, an image
    Package(package::Args),
    /// Write the generated pages of the book, and build it where mdBook is installed
    Book,
    /// Check format, clippy, dependencies, tidiness, and the public items of the library
    Lint,
    /// Run only the tidy checks of `lint`: arrows, banned calls, file length, links, the book
    Tidy,
    /// Run only the dependency checks of `lint`: duplicates, licences, unused
    Deps,
    /// Compare the public items of the library with their list; `GOLDEN=write` writes the list
    Public,
    /// Count the lines of production code by crate
    Size,
    /// Run the engine's simulation, one run for each seed
    Sim {
        /// How many seeds to run
        #[arg(long, default_value_t = sim::SEEDS, value_name = "N")]
        seeds: u64,
        /// The first seed; with `--seeds 1` this replays one run
        #[arg(long, default_value_t = 0, value_name = "SEED")]
        from: u64,
    },
    /// Hold back, reorder, repeat and cut the calls of two engines on a real Redis, and judge what clients were told
    Interleave {
        /// For how many minutes
        #[arg(long, default_value_t = sim::INTERLEAVE_MINUTES, value_name = "N")]
        minutes: u64,
        /// The first world's seed; with `--minutes 0` this repeats its decisions alone
        #[arg(long, value_name = "SEED")]
        seed: Option<u64>,
    },
    /// Kill the real server with SIGKILL under load, over and over, and account for every job
    Kill {
        /// How many times to kill it
        #[arg(long, default_value_t = sim::KILL_ROUNDS, value_name = "N")]
        rounds: u32,
    },
    /// Measure the dashboard over many jobs: pages under load, and the lateness of jobs with open pages
    Scale {
        /// How many jobs in a file; a tenth of them in Redis beside PostgreSQL
        #[arg(long, default_value_t = sim::SCALE_JOBS, value_name = "N")]
        jobs: u64,
    },
    /// Kill workers, servers and Redis itself under load, and account for every job
    Chaos {
        /// How many jobs; a half and a third of them where masters die, and where Redis is started again
        #[arg(long, default_value_t = sim::CHAOS_JOBS, value_name = "N")]
        jobs: u64,
        /// Over how many seconds, in the same parts
        #[arg(long, default_value_t = sim::CHAOS_SECONDS, value_name = "N")]
        seconds: u64,
        /// The seed of a run, to repeat its choices
        #[arg(long, value_name = "SEED")]
        seed: Option<u64>,
    },
    /// Kill, empty, fail over, fill, slow and cut everything, mixed at random, and account for every job, lease and lock
    Endure {
        /// For how many minutes
        #[arg(long, default_value_t = endure::MINUTES, value_name = "N")]
        minutes: u64,
        /// `file`, `redis`, `sentinel`, `cluster`; the last three also with `+postgres` or `+mysql`
        #[arg(long, default_value = "redis+postgres", value_name = "S")]
        store: String,
        /// The first round's seed; with it a run makes the same choices
        #[arg(long, value_name = "SEED")]
        seed: Option<u64>,
        /// Only print what all runs add up to
        #[arg(long)]
        sum: bool,
    },
    /// Send the real server requests that are wrong in every way
    Fuzz {
        /// For how many seconds
        #[arg(long, default_value_t = sim::FUZZ_SECONDS, value_name = "N")]
        seconds: u64,
    },
    /// Replace servers of an older version one by one under load, beside MariaDB and PostgreSQL, and account for every job
    Upgrade {
        /// The older version: a commit, a tag, `HEAD~30`
        #[arg(long, value_name = "REVISION")]
        from: String,
    },
    /// Resolve, build and run our library beside other crates that link SQLite: sqlx, SeaORM, Diesel, rusqlite
    Neighbours,
    /// Install the programs that the tests need, if they are missing
    Setup,
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().chore {
        Chore::Test => test::run(),
        Chore::Outside => test::outside(),
        Chore::Screenshots => shown(&test::screenshots()),
        Chore::Package(args) => shown(&package::run(args)),
        Chore::Book => shown(&book::run()),
        Chore::Lint => lint::run(),
        Chore::Tidy => lint::run_tidy(),
        Chore::Deps => lint::run_deps(),
        Chore::Public => shown(&public::run()),
        Chore::Size => shown(&size::print()),
        Chore::Sim { seeds, from } => shown(&sim::simulate(seeds, from)),
        Chore::Interleave { minutes, seed } => shown(&sim::interleave(minutes * 60, seed)),
        Chore::Kill { rounds } => shown(&sim::kill(rounds)),
        Chore::Scale { jobs } => shown(&sim::scale(jobs)),
        Chore::Chaos { jobs, seconds, seed } => shown(&sim::chaos(jobs, seconds, seed)),
        Chore::Endure { sum: true, .. } => shown(&endure::sum()),
        Chore::Endure { minutes, store, seed, .. } => shown(&endure::run(minutes, &store, seed)),
        Chore::Fuzz { seconds } => shown(&sim::fuzz(seconds)),
        Chore::Upgrade { from } => shown(&upgrade::run(&from)),
        Chore::Neighbours => shown(&neighbours::run()),
        Chore::Setup => shown(&setup::install_for_outside()),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the error of a chore that has a single step.
fn shown(result: &Result<(), String>) -> bool {
    if let Err(error) = result {
        eprintln!("error: {error}");
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
