//! The workers: two processes that run a command for each order, and one in Rust.

use crate::common::{Site, binary};
use crate::orders::runs::{Run, Runs};
use crate::orders::shop::QUEUE;
use duetime::worker::Summary;
use duetime::{Client, Worker};
use duetime_core::{Clock, Receipt, SystemClock};
use futures_util::FutureExt as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than the server is unavailable.
const LEASE: Duration = Duration::from_secs(10);
/// Handlers of the Rust worker at a time.
const CONCURRENCY: usize = 32;
/// Commands at a time, for each process.
const COMMANDS: &str = "2";

/// `duetime work`.
pub(crate) struct CommandWorker {
    child: Child,
    log: PathBuf,
    name: &'static str,
}

impl CommandWorker {
    pub(crate) fn start(site: &Site, folder: &Path, number: usize) -> Self {
        let log = folder.join(format!("work-{number}.log"));
        let errors = File::create(log.with_extension("err")).unwrap();
        File::create(&log).unwrap();
        // One short write to a file that is open for appending: lines stay whole.
        let script = r#"echo "$DUETIME_RECEIPT" >> "$0""#;
        let child = Command::new(binary())
            .args(["work", QUEUE, "--concurrency", COMMANDS, "--lease", &format!("{}s", LEASE.as_secs())])
            .args(["--server", &format!("http://{}", site.address()), "--", "sh", "-c", script])
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap();
        Self { child, log, name: ["", "work 1", "work 2"][number] }
    }

    /// Stops it gracefully, and returns the runs of its commands.
    pub(crate) fn stop(mut self) -> Vec<Run> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        let log = std::fs::read_to_string(&self.log).unwrap();
        let run = |line: &str| {
            let receipt: Receipt = line.parse().unwrap();
            Run { receipt, seen_at: None, until: receipt.epoch + LEASE.as_millis() as u64, by: self.name }
        };
        log.lines().map(run).collect()
    }
}

impl Drop for CommandWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A worker of this process.
pub(crate) struct RustWorker {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Summary>,
}

impl RustWorker {
    pub(crate) fn start(site: &Site, runs: &Runs) -> Self {
        let connecting = Client::connect(&format!("http://{}", site.address())).now_or_never();
        let client = connecting.expect("nothing is sent yet").unwrap();
        let (stop, told) = oneshot::channel::<()>();
        let runs = runs.clone();
        let worker = Worker::new(&client).queue(QUEUE).concurrency(CONCURRENCY).lease(LEASE);
        let worker = worker.fallback(move |context: duetime::Context| {
            let run = Run {
                receipt: context.receipt(),
                seen_at: Some(SystemClock::new().wall()),
                until: context.job().lease_until.map_or(0, |at| at.0),
                by: "Rust",
            };
            runs.add(run);
            async { duetime::worker::Handled::Ok(()) }
        });
        let running = tokio::spawn(async move { worker.run_until(async { drop(told.await) }).await.unwrap() });
        Self { stop, running }
    }

    pub(crate) async fn stop(self) -> Summary {
        drop(self.stop);
        self.running.await.unwrap()
    }
}
