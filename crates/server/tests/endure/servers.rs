//! The processes of the servers, which are started again when they have ended, and the way to them.

use crate::common::binary;
use duetime::server::Cause;
use duetime::{Client, Error};
use duetime_core::engine::{
    Answers, CancelOutcome, LockRequest, Outcome, Patch, QueueSettings, Reservation, ReserveRequest, Settlement,
    TakeRequest,
};
use duetime_core::ports::Grant;
use duetime_core::testing::account::System;
use duetime_core::{Error as CoreError, JobId, Millis, NewJob, Receipt};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Below the ports that the system gives to clients, and apart from those of the private servers and their buses.
const PORTS: std::ops::Range<u16> = 30_000..32_000;

/// A server's process.
pub(crate) struct Server {
    port: u16,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    child: Mutex<Child>,
    /// How often it ended without being killed, for example because its store was unavailable at its start.
    pub(crate) ended: AtomicU64,
}

impl Server {
    pub(crate) fn start(
        port: u16,
        arguments: Vec<String>,
        environment: Vec<(&'static str, String)>,
        log: PathBuf,
    ) -> Self {
        let child = Mutex::new(spawn(port, &arguments, &environment, &log));
        Self { port, arguments, environment, log, child, ended: AtomicU64::new(0) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// SIGKILL, and it is started again.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        *child = spawn(self.port, &self.arguments, &self.environment, &self.log);
    }

    /// Starts it again if it has ended.
    pub(crate) fn keep(&self) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_some() {
            self.ended.fetch_add(1, Ordering::Relaxed);
            *child = spawn(self.port, &self.arguments, &self.environment, &self.log);
        }
    }

    /// Lines in its log that must not be there.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(port: u16, arguments: &[String], environment: &[(&'static str, String)], log: &PathBuf) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let mut command = Command::new(binary());
    command.env_clear().envs(environment.iter().cloned());
    command.args(["serve", "--log-level", "warn", "--listen", &format!("127.0.0.1:{port}")]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Ports that are free now.
pub(crate) fn ports(count: usize) -> Vec<u16> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let from = PORTS.start + u16::try_from(std::process::id() % 1_900).unwrap();
    (from..PORTS.end).chain(PORTS).filter(free).take(count).collect()
}

/// When the last write was sent that has been acknowledged: all leases from before that are on disk.
#[derive(Debug, Default)]
pub(crate) struct LastWrite(AtomicU64);

impl LastWrite {
    pub(crate) fn mono(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

/// One server first, and the others if it cannot be reached.
pub(crate) struct Way {
    pub(crate) clients: Vec<Client>,
    pub(crate) last_write: Arc<LastWrite>,
    pub(crate) now: Arc<dyn Fn() -> Millis + Send + Sync>,
}

impl Way {
    async fn ask<T, F>(&self, question: impl Fn(Client) -> F) -> Result<T, CoreError>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let mut last = None;
        for client in &self.clients {
            match question(client.clone()).await {
                Err(error) if error.code() == "unreachable" => last = Some(error),
                answer => return answer.map_err(|error| told(&error)),
            }
        }
        Err(told(&last.expect("a server")))
    }
}

/// As the engine defines it: temporary errors mean unavailable.
fn told(error: &Error) -> CoreError {
    match error.cause() {
        Cause::Core(error) => error.clone(),
        _ if error.is_retryable() => CoreError::Unavailable(error.to_string()),
        _ => CoreError::Damaged(error.to_string()),
    }
}

/// A question that can be asked of one server after the other.
macro_rules! question {
    ($client:ident, $($given:ident),+ => $call:expr) => {
        |$client| {
            $(let $given = $given.clone();)+
            async move { $call }
        }
    };
}

#[async_trait::async_trait]
impl System for Way {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Answers<(JobId, Millis)>, CoreError> {
        let sent = (self.now)();
        let answers = self.ask(question!(client, jobs => client.push_many(jobs).await)).await?;
        if answers.iter().any(Result::is_ok) {
            self.last_write.0.fetch_max(sent, Ordering::SeqCst);
        }
        let told = |answer: Result<duetime::Pushed, Error>| {
            answer.map(|pushed| (pushed.id, pushed.due_at.0)).map_err(|error| told(&error))
        };
        Ok(answers.into_iter().map(told).collect())
    }

    async fn reserve(&self, request: ReserveRequest) -> Result<Reservation, CoreError> {
        self.ask(question!(client, request => client.leases().reserve(request).await)).await
    }

    async fn take(&self, request: TakeRequest) -> Result<Reservation, CoreError> {
        self.ask(question!(client, request => client.leases().take(request).await)).await
    }

    async fn extend(&self, receipt: Receipt, lease_ms: u64) -> Result<Millis, CoreError> {
        let leases = vec![(receipt, Some(Duration::from_millis(lease_ms)))];
        let extension = self.ask(question!(client, leases => client.leases().extend(leases).await?.remove(0))).await?;
        Ok(extension.lease_until.0)
    }

    async fn settle(&self, receipt: Receipt, outcome: Outcome) -> Result<Settlement, CoreError> {
        let outcomes = vec![(receipt, outcome)];
        self.ask(question!(client, outcomes => client.leases().settle(outcomes).await?.remove(0))).await
    }

    async fn cancel(&self, id: JobId) -> Result<CancelOutcome, CoreError> {
        self.ask(|client| async move { client.jobs().cancel(id).await }).await
    }

    async fn update(&self, id: JobId, patch: Patch) -> Result<(), CoreError> {
        self.ask(question!(client, patch => client.jobs().update(id, patch).await.map(drop))).await
    }

    async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<(), CoreError> {
        let queue: Arc<str> = queue.into();
        self.ask(question!(client, queue, settings => client.queues().replace(&queue, settings).await.map(drop))).await
    }

    async fn acquire(&self, request: LockRequest) -> Result<Grant, CoreError> {
        self.ask(question!(client, request => client.locks().acquire(request).await)).await
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Grant, CoreError> {
        self.ask(question!(client, name, owner => client.locks().renew(&name, &owner, fence, Duration::from_millis(ttl_ms)).await)).await
    }

    async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), CoreError> {
        self.ask(question!(client, name, owner => client.locks().release(&name, &owner, fence).await)).await
    }
}
