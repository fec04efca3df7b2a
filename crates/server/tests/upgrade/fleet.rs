//! The processes: servers of two versions.

use super::LIMIT;
use super::servers::Servers;
use duetime::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

pub(crate) const SERVERS: usize = 3;
/// Names the older binary.
const OLD: &str = "DUETIME_OLD_BIN";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    Old,
    New,
}

impl Version {
    fn binary(self) -> PathBuf {
        match self {
            Self::Old => std::env::var_os(OLD).expect("cargo xtask upgrade names the older binary").into(),
            Self::New => env!("CARGO_BIN_EXE_duetime").into(),
        }
    }
}

pub(crate) struct Fleet {
    folder: TempDir,
    arguments: Vec<String>,
    processes: [Option<Child>; SERVERS],
    servers: Arc<Servers>,
}

impl Fleet {
    pub(crate) fn new(redis: &str, ledger: &str, servers: Arc<Servers>) -> Self {
        let first = ["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--ledger-may-lose"];
        let words = [&first[..], &["--broker", redis, "--ledger", ledger]].concat();
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            arguments: words.into_iter().map(str::to_owned).collect(),
            processes: [const { None }; SERVERS],
            servers,
        }
    }

    fn log(&self) -> File {
        OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap()
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Starts a server and waits until it is ready; an error contains its output before it ended.
    pub(crate) async fn start(&mut self, n: usize, version: Version) -> Result<(), String> {
        let before = self.logged().len();
        let mut command = Command::new(version.binary());
        command.env_clear().args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(self.log());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = timeout(LIMIT, lines.next_line()).await.expect("it starts, or ends").unwrap();
            let Some(line) = line else { return Err(self.logged()[before..].trim().to_owned()) };
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.trim().to_owned();
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let client = Client::connect(&address).await.unwrap();
        let ready = async { while !client.health().await.is_ok_and(|health| health.ready && health.is_loaded) {} };
        timeout(LIMIT, ready).await.expect("it becomes ready");
        self.processes[n] = Some(child);
        self.servers.set(n, Some(client));
        Ok(())
    }

    /// SIGTERM, as a service manager would send it: no more requests are sent there.
    pub(crate) async fn stop(&mut self, n: usize) {
        self.servers.set(n, None);
        let Some(mut child) = self.processes[n].take() else { return };
        kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGTERM).unwrap();
        let status = timeout(LIMIT, child.wait()).await.expect("it stops").unwrap();
        assert_eq!(status.code(), Some(0));
    }

    /// Prints the servers' log for people to read.
    pub(crate) fn tells(&self) {
        println!("the servers' log:\n{}", self.logged());
    }

    /// Fails if a server logged an error, or that something did not read back.
    pub(crate) fn said_nothing_bad(&self) {
        let log = self.logged();
        let is_bad = |line: &&str| line.contains("ERROR") || line.contains("damaged") || line.contains("panicked");
        let bad: Vec<&str> = log.lines().filter(is_bad).collect();
        self.tells();
        assert!(bad.is_empty(), "{bad:?}");
    }
}
