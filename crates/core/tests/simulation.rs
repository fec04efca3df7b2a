//! The simulation of both worlds. `DUETIME_SIM_SEEDS` says how many seeds each runs (2 where it is not set),
//! `DUETIME_SIM_FROM` the first; a seed repeats its run. `cargo xtask sim` runs thousands.

use duetime_core::testing::sim::{self, Report};

const SEEDS_DEFAULT: u64 = 2;
/// After how many seeds a long run says how far it is.
const SHOW_EVERY: u64 = 100;

#[test]
fn the_promises_hold_whenever_the_process_dies() {
    hold("alone", sim::run);
}

#[test]
fn the_promises_hold_for_many_processes_whatever_their_broker_forgets() {
    hold("fleet", sim::fleet::run);
}

/// Nothing is decided by chance but by the seed: else a violation could not be looked into.
#[test]
fn a_seed_repeats_its_run() {
    let seed = 1_000_100;
    assert_eq!(sim::run(seed), sim::run(seed));
    assert_eq!(sim::fleet::run(seed), sim::fleet::run(seed));
}

fn hold(world: &str, run: fn(u64) -> Report) {
    let (seeds, from) = (of_environment("DUETIME_SIM_SEEDS", SEEDS_DEFAULT), of_environment("DUETIME_SIM_FROM", 0));
    let (mut pushed, mut handed_out, mut deaths, mut broken) = (0, 0, 0, Vec::new());
    for seed in from..from + seeds {
        let report = run(seed);
        broken.extend(report.violations.iter().map(|violation| format!("{world} {seed}: {violation}")));
        pushed += report.pushed;
        handed_out += report.handed_out;
        deaths += report.deaths;
        if (seed + 1 - from).is_multiple_of(SHOW_EVERY) {
            println!("{world}: {} seeds, {} broken promises", seed + 1 - from, broken.len());
        }
    }
    println!("{world}: {seeds} seeds from {from}: {pushed} jobs pushed, {handed_out} handed out, {deaths} deaths");
    assert!(broken.is_empty(), "{} broken promises:\n{}", broken.len(), broken.join("\n"));
    assert!(pushed > 0 && handed_out > 0, "nothing was tried");
}

fn of_environment(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
