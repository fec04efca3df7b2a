//! A server process that delivers.

use duetime::Client;
use duetime_core::engine::{Query, QueueSettings};
use duetime_core::{Job, JobId, Stage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// The time limit for a condition; never reached if all is well.
const LIMIT: Duration = Duration::from_secs(60);

/// Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Kept, so that it can go on to say things.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: String,
    pub(crate) client: Client,
}

impl Server {
    /// One that may deliver to this machine.
    pub(crate) async fn start() -> Self {
        Self::with(&["--webhook-allow-private"]).await
    }

    /// One in memory, with these options.
    pub(crate) async fn with(arguments: &[&str]) -> Self {
        Self::on(Path::new("memory"), arguments).await
    }

    pub(crate) async fn on(store: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_duetime"))
            .env_clear()
            .args(["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("\n  stop ") {
            assert!(stdout.read_line(&mut banner).unwrap() > 0, "the server ended: {banner}");
        }
        let address = banner.lines().find_map(|line| line.strip_prefix("  listening on ")).unwrap().to_owned();
        let client = Client::connect(&address).await.unwrap();
        Self { child, _stdout: stdout, address, client }
    }

    /// Sets a queue's settings, given in JSON.
    pub(crate) async fn set(&self, queue: &str, settings: Value) {
        self.try_set(queue, settings).await.unwrap();
    }

    /// The same; an error is what the server said.
    pub(crate) async fn try_set(&self, queue: &str, settings: Value) -> Result<QueueSettings, String> {
        let body: duetime_core::api::QueueChanges = serde_json::from_value(settings).unwrap();
        self.client.queues().change(queue, body).await.map_err(|error| error.to_string())
    }

    pub(crate) async fn push(&self, queue: &str, payload: &str) -> JobId {
        self.client.push_raw("order.paid", payload.as_bytes().to_vec()).queue(queue).await.unwrap().id
    }

    /// Waits until it is so of a job.
    pub(crate) async fn until(&self, id: JobId, mut is_so: impl FnMut(&Job) -> bool) -> Job {
        let look = async {
            loop {
                let job = self.client.jobs().get(id).await.unwrap();
                if is_so(&job) {
                    return job;
                }
            }
        };
        soon(look).await
    }

    /// Waits for the end of a job that is to be completed.
    pub(crate) async fn completed(&self, id: JobId) -> Job {
        let job = self.until(id, |job| job.stage != Stage::Pending).await;
        assert_eq!(job.stage, Stage::Succeeded, "{:?}", job.errors);
        job
    }

    /// Waits for the end of a job that is to fail, and answers why it did.
    pub(crate) async fn failed(&self, id: JobId) -> String {
        let job = self.until(id, |job| job.stage != Stage::Pending).await;
        assert_eq!(job.stage, Stage::Failed, "{job:?}");
        job.errors.last().unwrap().message.to_string()
    }

    /// The jobs of a queue.
    pub(crate) async fn jobs(&self, queue: &str) -> Vec<Job> {
        let query = Query { queue: Some(queue.into()), ..Query::default() };
        self.client.jobs().page(&query, None, 1_000).await.unwrap().jobs
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        tokio::task::spawn_blocking(move || self.child.wait().unwrap().code()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that comes soon if all is well.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it never became so")
}

/// A job's result as JSON.
pub(crate) fn result(job: &Job) -> Value {
    serde_json::from_slice(job.result.as_deref().expect("a result")).unwrap()
}
