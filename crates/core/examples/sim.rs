//! Runs the simulation of the engine for many seeds: `cargo xtask sim --seeds 2000`.

use duetime_core::testing::sim;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() -> ExitCode {
    let (seeds, from) = arguments();
    let next = AtomicU64::new(from);
    let totals = Mutex::new((0, 0, 0, Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let report = sim::run(seed);
                    let mut totals = totals.lock().expect("no panic under this lock");
                    totals.0 += report.pushed;
                    totals.1 += report.handed_out;
                    totals.2 += report.deaths;
                    totals.3.extend(report.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
                }
            });
        }
    });
    let (pushed, handed_out, deaths, violations) = totals.into_inner().expect("no panic under this lock");
    println!("{seeds} seeds from {from}: {pushed} jobs pushed, {handed_out} handed out, {deaths} deaths");
    for violation in violations.iter().take(20) {
        println!("{violation}");
    }
    println!("{} broken promises", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `--seeds N` (100 by default) and `--from SEED` (0 by default).
fn arguments() -> (u64, u64) {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments.get(at + 1).and_then(|n| n.parse().ok()).expect("a number follows the name"))
    };
    (number("--seeds", 100), number("--from", 0))
}
