//! Writes log lines in a separate thread, since their reader may be slow, blocked or gone, and the disk may be full. The
//! queue is bounded. Lines beyond the bound, and lines that could not be written, are lost and counted; the loss is logged
//! once lines can be written again.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes that wait at most.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Takes lines; a cheap handle.
#[derive(Clone)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Default)]
struct LogState {
    /// Whole lines.
    waiting: Vec<u8>,
    is_writing: bool,
    /// Lines lost so far, and how many of them the log has reported.
    lost: u64,
    told: u64,
}

impl Lines {
    /// Writes to this from now on, for as long as the process lives. Without a thread all lines are lost.
    pub(super) fn start(out: impl Write + Send + 'static) -> Self {
        let lines = Self(Arc::default());
        let own = lines.clone();
        // If no thread can be started, there is no log to report that to.
        let _ = std::thread::Builder::new().name("duetime-log".to_owned()).spawn(move || own.work(out));
        lines
    }

    /// Takes one line, or loses it.
    pub(super) fn add(&self, line: &[u8]) {
        let mut state = self.state();
        if state.waiting.len() + line.len() > WAITING_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.0.changed.notify_all();
    }

    /// The number of lost lines.
    pub(super) fn lost(&self) -> u64 {
        self.state().lost
    }

    /// Waits until nothing waits, at most for this long.
    pub(super) fn flush(&self, time_max: Duration) {
        let busy = |state: &mut LogState| state.is_writing || !state.waiting.is_empty();
        drop(self.0.changed.wait_timeout_while(self.state(), time_max, busy));
    }

    fn work(self, mut out: impl Write) {
        // Whether the last write may have ended within a line.
        let mut is_torn = false;
        loop {
            let mut state = self.state();
            while state.waiting.is_empty() {
                state.is_writing = false;
                self.0.changed.notify_all();
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_writing = true;
            let lines = std::mem::take(&mut state.waiting);
            drop(state);
            let begin: &[u8] = if is_torn { b"\n" } else { b"" };
            let written = out.write_all(begin).and_then(|()| out.write_all(&lines)).and_then(|()| out.flush());
            is_torn = written.is_err();
            let mut state = self.state();
            if is_torn {
                state.lost += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
                continue;
            }
            let lost = state.lost;
            let untold = lost - std::mem::replace(&mut state.told, lost);
            drop(state);
            if untold > 0 {
                tracing::warn!(lines = untold, "log lines were lost: standard error was not read fast enough");
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The formatter writes each line in one piece.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Lets through one write for each permission; the write fails if the permission is false.
    struct Gate {
        permissions: mpsc::Receiver<bool>,
        out: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.permissions.recv().unwrap_or(true) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.out.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gate() -> (Lines, mpsc::Sender<bool>, Arc<Mutex<Vec<u8>>>) {
        let (allow, permissions) = mpsc::channel();
        let out = Arc::default();
        (Lines::start(Gate { permissions, out: Arc::clone(&out) }), allow, out)
    }

    #[test]
    fn a_reader_that_stands_still_holds_nobody_up() {
        let (lines, allow, out) = gate();
        lines.add(b"first\n");
        let line = [b'x'; 1 << 10];
        for _ in 0..3 * WAITING_BYTES_MAX / line.len() {
            lines.add(&line);
        }
        let lost = lines.lost();
        assert!(lost >= (WAITING_BYTES_MAX / line.len()) as u64, "{lost}");
        // It reads again.
        drop(allow);
        lines.flush(Duration::from_secs(60));
        assert!(out.lock().unwrap().starts_with(b"first\nxxx"));
        assert_eq!(lines.lost(), lost);
    }

    #[test]
    fn lines_that_cannot_be_written_are_lost_and_counted() {
        let (lines, allow, out) = gate();
        for (line, is_allowed) in [(&b"one\ntwo\n"[..], false), (b"three\n", true), (b"four\n", true)] {
            // Also for the end of the line that was torn.
            allow.send(is_allowed).unwrap();
            allow.send(true).unwrap();
            lines.add(line);
            lines.flush(Duration::from_secs(60));
        }
        assert_eq!(lines.lost(), 2);
        assert!(out.lock().unwrap().ends_with(b"\nthree\nfour\n"));
    }
}
