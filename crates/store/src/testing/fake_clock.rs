//! A wall clock that a test can set for a program, with libfaketime from Debian's package `faketime`.

use duetime_core::{Clock, SystemClock};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

/// How far a program's clock may be from what was set, in milliseconds.
const APART_MS_MAX: i64 = 2;

/// The clock of programs that are started with its [environment](Self::environment).
#[derive(Debug)]
pub struct FakeClock {
    /// Its offset, for programs.
    file: PathBuf,
    off_ms: AtomicI64,
}

impl FakeClock {
    /// A clock without offset, whose file is in this folder.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn new(folder: &Path) -> Self {
        let clock = Self { file: folder.join("clock"), off_ms: AtomicI64::new(0) };
        clock.set(0);
        clock
    }

    /// The environment for a program. It replaces any other allocator by that of the C library: jemalloc reads the clock
    /// before libfaketime is ready.
    ///
    /// # Panics
    /// If libfaketime is not installed.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
        let library = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
        let library = library.expect("libfaketime: cargo xtask setup, or apt-get install faketime");
        [
            ("LD_PRELOAD", format!("{} libc.so.6", library.display())),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// Sets the offset from the machine's clock, in milliseconds.
    ///
    /// # Panics
    /// If its file cannot be written.
    pub fn set(&self, off_ms: i64) {
        let new = self.file.with_extension("new");
        let (sign, ms) = (if off_ms < 0 { '-' } else { '+' }, off_ms.unsigned_abs());
        // Written atomically, so that nobody reads half of it.
        fs::write(&new, format!("{sign}{}.{:03}", ms / 1_000, ms % 1_000)).expect("a file of ours");
        fs::rename(&new, &self.file).expect("a file of ours");
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }

    /// Whether a program reads its clock as it was set: the clock is off by a constant up to 0.1 s in one of twenty programs that start on
    /// a very busy machine. `read` returns what the program reads, in milliseconds.
    pub(super) fn is_read_rightly(&self, read: impl FnOnce() -> i64) -> bool {
        let machine = || SystemClock::default().wall().cast_signed();
        let before = machine();
        let read = read() - self.off_ms.load(Ordering::SeqCst);
        (before - APART_MS_MAX..=machine() + APART_MS_MAX).contains(&read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let clock = FakeClock::new(folder.path());
        let machine = || SystemClock::default().wall().cast_signed();
        for off_ms in [0, 2_000, -2_000] {
            clock.set(off_ms);
            assert!(clock.is_read_rightly(|| machine() + off_ms));
            assert!(!clock.is_read_rightly(|| machine() + off_ms - 70), "too early");
            assert!(!clock.is_read_rightly(|| machine() + off_ms + 60_000), "too late");
        }
    }
}
