//! The simulation of both worlds. `DUETIME_SIM_SEEDS` says how many seeds each runs (2 if it is not set),
//! `DUETIME_SIM_FROM` the first (2 if it is not set, since the histories are of those before); a seed repeats its run.
//! `cargo xtask sim` runs thousands.

use std::sync::atomic::{AtomicU64, Ordering};

use duetime_core::testing::sim::{self, Report};

const SEEDS_DEFAULT: u64 = 2;
/// The seeds whose histories are kept.
const KEPT: std::ops::Range<u64> = 0..2;
/// The seeds after which a long run shows its progress.
const SHOW_EVERY: u64 = 100;

#[test]
fn the_promises_hold_whenever_the_process_dies() {
    hold("alone", sim::run);
}

#[test]
fn the_promises_hold_for_many_processes_whatever_their_broker_forgets() {
    hold("fleet", sim::fleet::run);
}

/// A seed repeats its run; otherwise a violation could not be investigated.
#[test]
fn histories_are_as_they_were() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/histories.txt");
    let line = |world: &str, seed: u64, report: Report| {
        assert!(report.violations.is_empty(), "{world} {seed}: {:?}", report.violations);
        format!("{world} {seed} {:016x}\n", report.digest)
    };
    let alone = KEPT.map(|seed| line("alone", seed, sim::run(seed)));
    let found: String = alone.chain(KEPT.map(|seed| line("fleet", seed, sim::fleet::run(seed)))).collect();
    if std::env::var_os("HISTORIES").is_some_and(|value| value == "write") {
        std::fs::write(file, &found).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), found, "HISTORIES=write writes them again");
}

/// Runs the seeds on all cores: each run uses one.
fn hold(world: &str, run: fn(u64) -> Report) {
    let (seeds, from) =
        (of_environment("DUETIME_SIM_SEEDS", SEEDS_DEFAULT), of_environment("DUETIME_SIM_FROM", KEPT.end));
    let next = AtomicU64::new(0);
    let take = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number > 0 && number < seeds && number.is_multiple_of(SHOW_EVERY) {
            println!("{world}: {number} of {seeds} seeds");
        }
        (number < seeds).then(|| (from + number, run(from + number)))
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let reports: Vec<(u64, Report)> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..cores).map(|_| scope.spawn(|| std::iter::from_fn(take).collect::<Vec<_>>())).collect();
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    let (mut pushed, mut handed_out, mut deaths, mut broken) = (0, 0, 0, Vec::new());
    for (seed, report) in reports {
        broken.extend(report.violations.iter().map(|violation| format!("{world} {seed}: {violation}")));
        pushed += report.pushed;
        handed_out += report.handed_out;
        deaths += report.deaths;
    }
    println!("{world}: {seeds} seeds from {from}: {pushed} jobs pushed, {handed_out} handed out, {deaths} deaths");
    assert!(broken.is_empty(), "{} broken promises:\n{}", broken.len(), broken.join("\n"));
    assert!(pushed > 0 && handed_out > 0, "nothing was tried");
}

fn of_environment(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
