//! The server's process.

use duetime_store::testing::until;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The binary under test: what `DUETIME_BIN` names, else the one that was built beside this test.
pub(crate) fn binary() -> PathBuf {
    let named = std::env::var_os("DUETIME_BIN").filter(|path| !path.is_empty());
    PathBuf::from(named.unwrap_or_else(|| OsString::from(env!("CARGO_BIN_EXE_duetime"))))
}

/// A server process; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts one, and does not wait for it. Its log is appended to a file beside the store.
    pub(crate) fn begin(store: &Path, listen: SocketAddr) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(store.with_extension("log")).unwrap();
        let mut child = Command::new(binary())
            .env_clear()
            .args(["serve", "--log-level", "warn", "--listen", &listen.to_string(), "--store"])
            .arg(store)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits until it prints its address.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let mut banner = String::new();
        while !banner.contains("\n  stop ") {
            let count = self.stdout.read_line(&mut banner).unwrap();
            assert!(count > 0, "the server ended: {banner}");
        }
        let address = banner.lines().find_map(|line| line.strip_prefix("  listening on http://")).unwrap();
        address.parse().unwrap()
    }

    /// Waits until it has the store's file open.
    pub(crate) fn wait_for_store(&self, store: &Path) {
        let descriptors = format!("/proc/{}/fd", self.child.id());
        until("the store to be open", Duration::from_secs(60), || {
            let mut entries = std::fs::read_dir(&descriptors).expect("the server ended").flatten();
            entries.any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == store)).then_some(())
        });
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
