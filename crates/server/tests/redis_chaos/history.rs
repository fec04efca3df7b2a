//! A worker's history: each lease when it gets it, each end before it is requested and when it is answered.
//!
//! A line is written in one call before the worker goes on, so that a kill loses at most the last one.

use duetime_core::{Job, JobId, Millis, Receipt};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// A line.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// A job was handed out.
    Leased { receipt: Receipt, due_at: Millis, started_at: Millis, until: Millis, seen_at: Millis },
    /// Its completion is about to be asked for.
    Ending { receipt: Receipt },
    /// It was answered: whether it counts, or the lease had ended before.
    Ended { receipt: Receipt, at: Millis, counts: bool },
    /// An answer that must never come.
    Wrong(String),
}

pub(crate) struct History(File);

impl History {
    pub(crate) fn create(path: &Path) -> Self {
        Self(File::create_new(path).expect("a new history"))
    }

    fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("the history is written");
    }

    pub(crate) fn leased(&mut self, jobs: &[Job], seen_at: Millis) {
        let mut text = String::new();
        for job in jobs {
            let (started_at, until) = (job.started_at.unwrap_or_default().0, job.lease_until.unwrap_or_default().0);
            writeln!(text, "leased {} {} {started_at} {until} {seen_at}", job.receipt(), job.due_at.0)
                .expect("a string");
        }
        self.write(&text);
    }

    pub(crate) fn ending(&mut self, receipts: &[Receipt]) {
        self.write(&receipts.iter().map(|receipt| format!("ending {receipt}\n")).collect::<String>());
    }

    pub(crate) fn ended(&mut self, ends: &[(Receipt, bool)], at: Millis) {
        self.write(
            &ends.iter().map(|(receipt, counts)| format!("ended {receipt} {at} {counts}\n")).collect::<String>(),
        );
    }

    pub(crate) fn wrong(&mut self, what: &str) {
        self.write(&format!("wrong {}\n", what.replace('\n', " ")));
    }
}

/// All whole lines; a kill may have cut the last one short.
pub(crate) fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| parse(line.trim_end())).collect()
}

fn parse(line: &str) -> Line {
    let (what, rest) = line.split_once(' ').expect("a word and more");
    let words: Vec<&str> = rest.split(' ').collect();
    let receipt = || -> Receipt { words[0].parse().expect("a receipt") };
    let number = |n: usize| -> u64 { words[n].parse().expect("a number") };
    match what {
        "leased" => {
            let (due_at, started_at, until, seen_at) = (number(1), number(2), number(3), number(4));
            Line::Leased { receipt: receipt(), due_at, started_at, until, seen_at }
        }
        "ending" => Line::Ending { receipt: receipt() },
        "ended" => Line::Ended { receipt: receipt(), at: number(1), counts: words[2] == "true" },
        _ => Line::Wrong(rest.to_owned()),
    }
}

/// A lease, as its holder wrote it down.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub(crate) worker: usize,
    pub(crate) due_at: Millis,
    pub(crate) started_at: Millis,
    pub(crate) until: Millis,
    pub(crate) seen_at: Millis,
    pub(crate) is_ending: bool,
    /// When its end was answered, and whether it counts.
    pub(crate) ended: Option<(Millis, bool)>,
}

/// Leases by job and epoch.
pub(crate) type Leases = std::collections::BTreeMap<JobId, std::collections::BTreeMap<u64, HeldLease>>;
