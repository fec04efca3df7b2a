//! The library's cases on a server process, and a worker whose server stops.

use crate::cases::{Remind, ended, push, queue};
use duetime::{Client, Worker};
use duetime_core::Stage;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(listen: &str, store: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        command.env_clear().args(["serve", "--log-level", "error", "--listen", listen, "--store"]).arg(store);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        let address = loop {
            assert!(stdout.read_line(&mut said).unwrap() > 0, "the server ended: {said}");
            if let Some(address) = said.lines().find_map(|line| line.trim().strip_prefix("listening on ")) {
                break address.to_owned();
            }
        };
        Self { child, _stdout: stdout, address }
    }

    fn memory() -> Self {
        Self::start("127.0.0.1:0", Path::new("memory"))
    }

    /// Gracefully: the last leases are recorded too.
    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    async fn client(&self) -> Client {
        Client::connect(&self.address).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

client_cases!({
    let server = Server::memory();
    (server.client().await, server)
});

/// The server is stopped while a handler runs, and started again: the handler goes on, its outcome counts, and the
/// worker takes the next job.
#[tokio::test]
async fn a_worker_outlives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("duetime.db");
    let server = Server::start("127.0.0.1:0", &store);
    let (address, client, queue) = (server.address.clone(), server.client().await, queue());
    let first = push(&client, &queue, 1).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let passed = gate.clone();
    let worker = Worker::new(&client).queue(queue.clone()).concurrency(1).handle(move |_: Remind| {
        started.send(()).unwrap();
        let gate = passed.clone();
        async move { Ok::<_, duetime::JobError>(gate.acquire().await.map(|permit| permit.forget())?) }
    });
    let script = async {
        starts.recv().await.unwrap();
        server.stop();
        gate.add_permits(1);
        let refused = client.push(Remind { user: 2 }).queue(queue.clone()).await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        let server = Server::start(address.strip_prefix("http://").unwrap(), &store);
        let second = push(&client, &queue, 2).await;
        starts.recv().await.unwrap();
        gate.add_permits(1);
        (server, second)
    };
    let (done, finish) = tokio::sync::oneshot::channel();
    let script = async move {
        let ran = script.await;
        done.send(()).unwrap();
        ran
    };
    let worked = worker.run_until(async { finish.await.unwrap() });
    let (summary, (server, second)) = tokio::join!(worked, script);
    let summary = summary.unwrap();
    assert_eq!((summary.succeeded, summary.failed, summary.released, summary.lost), (2, 0, 0, 0));
    for id in [first, second] {
        assert_eq!(ended(&client, id, Stage::Succeeded).await.attempt, 1);
    }
    drop(server);
}

/// A result is waited for over a restart of the server, which happens before the job is handed out.
#[tokio::test]
async fn a_wait_outlives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("duetime.db");
    let server = Server::start("127.0.0.1:0", &store);
    let (address, client, queue) = (server.address.clone(), server.client().await, queue());
    let id = push(&client, &queue, 1).await;
    let script = async {
        // Meanwhile the wait reads the job, too, and subscribes.
        for _ in 0..20 {
            client.jobs().get(id).await.unwrap();
        }
        server.stop();
        let server = Server::start(address.strip_prefix("http://").unwrap(), &store);
        let worker = Worker::new(&client)
            .queue(queue.clone())
            .handle(async |remind: Remind| Ok::<_, duetime::JobError>(remind.user));
        worker.drain().await.unwrap();
        server
    };
    let (job, _server) = tokio::join!(client.jobs().wait(id, Duration::from_secs(25)), script);
    assert_eq!(job.unwrap().result_as::<u64>().unwrap(), 1);
}

#[tokio::test]
async fn a_worker_run_once_tells_that_its_server_is_away() {
    let server = Server::memory();
    let client = server.client().await;
    drop(server);
    let worker = Worker::new(&client).queue(queue()).stop_limit(Duration::ZERO).handle(crate::cases::nothing);
    assert_eq!(worker.drain().await.unwrap_err().code(), "unreachable");
}

/// The server is gone: the guard reports that once its time to live is over, counted from the last renewal.
#[tokio::test]
async fn a_lock_whose_server_is_gone_is_lost_in_time() {
    let server = Server::memory();
    let ttl = Duration::from_secs(1);
    let guard = server.client().await.locks().named("l").ttl(ttl).try_acquire().await.unwrap().unwrap();
    let lost = guard.lost();
    drop(server);
    let begin = std::time::Instant::now();
    lost.cancelled().await;
    assert!(begin.elapsed() < ttl, "the last renewal was sent before the server went");
    assert!(guard.is_held().await.is_err());
    assert_eq!(guard.release().await.unwrap_err().code(), "unreachable");
}

#[tokio::test]
async fn a_lock_outlives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("duetime.db");
    let server = Server::start("127.0.0.1:0", &store);
    let (address, client) = (server.address.clone(), server.client().await);
    let lock = client.locks().named("l");
    let guard = lock.try_acquire().await.unwrap().unwrap();
    server.stop();
    let _server = Server::start(address.strip_prefix("http://").unwrap(), &store);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(guard.is_held().await.unwrap());
    let fence = guard.fence();
    guard.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().unwrap().fence() > fence);
}

#[tokio::test]
async fn a_waiter_whose_server_stops_is_told() {
    let server = Server::memory();
    let lock = server.client().await.locks().named("l");
    let _guard = lock.try_acquire().await.unwrap().unwrap();
    let waiting = lock.acquire(Duration::from_secs(600));
    let (waited, ()) = tokio::join!(waiting, async { server.stop() });
    let error = waited.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}
