//! A program of old code.

use crate::cli::support::{pid, wait};
use nix::sys::signal::{Signal, kill};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The folder of the programs.
pub(super) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/adopt/programs");

/// A program that reports its steps: a word and numbers on each line.
pub(super) struct Program {
    child: Option<Child>,
    told: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = Arc::new(Mutex::new(Vec::new()));
        let keep = told.clone();
        let read = move || lines.map(Result::unwrap).for_each(|line| keep.lock().unwrap().push(line));
        Self { child: Some(child), told, reader: Some(std::thread::spawn(read)) }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The numbers with a word.
    pub(super) fn told(&self, word: &str) -> Vec<u64> {
        let numbers = |line: &String| line.split_once(' ').filter(|(told, _)| *told == word)?.1.parse().ok();
        self.told.lock().unwrap().iter().filter_map(numbers).collect()
    }

    /// All that it has said so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// Waits for its end, which the end of its input or a signal may bring about. Answers whether it succeeded.
    pub(super) fn has_succeeded(&mut self) -> bool {
        let mut child = self.child.take().unwrap();
        drop(child.stdin.take());
        let has_succeeded = wait(child).success();
        self.reader.take().unwrap().join().unwrap();
        has_succeeded
    }

    pub(super) fn ended(&mut self) {
        assert!(self.has_succeeded());
    }

    /// Ends it with SIGTERM.
    pub(super) fn stop(&mut self) {
        kill(pid(self.child.as_ref().unwrap()), Signal::SIGTERM).unwrap();
        self.ended();
    }

    /// Ends it with SIGKILL.
    pub(super) fn kill(&mut self) {
        self.child.as_mut().unwrap().kill().unwrap();
        self.has_succeeded();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
