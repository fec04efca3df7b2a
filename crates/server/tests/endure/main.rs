//! The release binary under everything at once, mixed at random by a seed: servers, brokers and databases are killed, Redis
//! is emptied, masters fail over, disks fill, clocks are set, connections are slow and cut. At the end of each round, one
//! account of every acknowledged job, lease, lock and fence lists everything that is wrong.
//!
//! `DUETIME_ENDURE_STORE` names the store: `file`, `redis`, `sentinel`, `cluster`, each of the last three with `+postgres`
//! or `+mysql` for a ledger beside it. `DUETIME_ENDURE_SECONDS` sets how long rounds continue, `DUETIME_ENDURE_SEED` the
//! first round. Each round is one line in the file `DUETIME_ENDURE_FILE`, if that is set.

#[path = "../common/mod.rs"]
mod common;
mod harm;
mod late;
mod round;
mod servers;
mod store;

use round::Round;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};
use store::Kind;

const SECONDS_DEFAULT: u64 = 10;
/// How long faults are injected in a round.
const ROUND: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_early_or_done_twice() {
    let Some(kind) = text("DUETIME_ENDURE_STORE") else { return println!("no store is named: nothing is tried") };
    let kind: Kind = kind.parse().unwrap();
    let length = Duration::from_secs(number("DUETIME_ENDURE_SECONDS").unwrap_or(SECONDS_DEFAULT));
    let first = number("DUETIME_ENDURE_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 1_000);
    let mut wrong = Vec::new();
    let begin = Instant::now();
    for seed in first.. {
        let ended = Round::run(kind, seed, ROUND.min(length)).await;
        println!("{ended}");
        append(&ended.line());
        wrong.extend(ended.wrong);
        if begin.elapsed() >= length {
            break;
        }
    }
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Adds a line to the file that sums up all runs.
fn append(line: &str) {
    let Some(path) = text("DUETIME_ENDURE_FILE") else { return };
    let mut file = OpenOptions::new().append(true).open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    writeln!(file, "{line}").unwrap();
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(name: &str) -> Option<u64> {
    text(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
