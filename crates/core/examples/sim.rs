//! Runs the simulation of the engine for many seeds: `cargo xtask sim --seeds 2000`.

use duetime_core::testing::sim::{self, Report};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is run: a name, and the run of a seed.
type World = (&'static str, fn(u64) -> Report);

/// Both worlds; in the order in which they are run.
const WORLDS: [World; 2] = [("alone", sim::run), ("fleet", sim::fleet::run)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let number = |name, default| after(name).map_or(default, |n| n.parse().expect("a number follows the name"));
    let (seeds, from) = (number("--seeds", 100), number("--from", 0));
    let worlds = WORLDS.iter().filter(|(name, _)| after("--world").is_none_or(|only| only == name));
    let broken: usize = worlds.map(|world| simulate(*world, seeds, from)).sum();
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs so many seeds of a world; answers how many promises were broken.
fn simulate((name, run): World, seeds: u64, from: u64) -> usize {
    let next = AtomicU64::new(from);
    let totals = Mutex::new((0, 0, 0, 0));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let report = run(seed);
                    report.violations.iter().take(5).for_each(|violation| println!("{name} {seed}: {violation}"));
                    let mut totals = totals.lock().expect("no panic under this lock");
                    totals.0 += report.pushed;
                    totals.1 += report.handed_out;
                    totals.2 += report.deaths;
                    totals.3 += report.violations.len();
                }
            });
        }
    });
    let (pushed, handed_out, deaths, violations) = totals.into_inner().expect("no panic under this lock");
    println!("{name}: {seeds} seeds from {from}: {pushed} jobs pushed, {handed_out} handed out, {deaths} deaths");
    println!("{name}: {violations} broken promises");
    violations
}
