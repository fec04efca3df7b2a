//! A few seeds of the simulation; `cargo xtask sim` runs thousands.

use duetime_core::testing::sim;

#[test]
fn the_promises_hold_whenever_the_process_dies() {
    for seed in 1_000_000..1_000_010 {
        let report = sim::run(seed);
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        assert!(report.pushed > 0 && report.handed_out > 0 && report.deaths > 0, "seed {seed}: {report:?}");
    }
}

#[test]
fn the_promises_hold_for_many_processes_whatever_their_broker_forgets() {
    for seed in 1_000_000..1_000_008 {
        let report = sim::fleet::run(seed);
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        assert!(report.pushed > 0 && report.handed_out > 0, "seed {seed}: {report:?}");
    }
}

/// Nothing is decided by chance but by the seed: else a violation could not be looked into.
#[test]
fn a_seed_repeats_its_run() {
    for seed in [1_000_100, 1_000_101] {
        assert_eq!(sim::run(seed), sim::run(seed), "seed {seed}");
        assert_eq!(sim::fleet::run(seed), sim::fleet::run(seed), "seed {seed}");
    }
}
