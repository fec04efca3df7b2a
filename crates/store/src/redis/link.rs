//! The connections for commands, reopened when they break, with a time limit for every call and our own retries. A command may
//! be carried out twice if its reply is lost; every script is idempotent.
//!
//! One connection serves all calls. Replies come in order, so a large one delays those behind it. Therefore calls and replies
//! have a bound in bytes, and a call has time as long as replies to others arrive. A single job that exceeds the bound takes
//! a second connection, where only other large jobs wait for it. If replies do not get through, the bound is halved.

use super::bound::Bound;
use super::call::{CALL_BYTES_MAX, Call, ReplyBound};
use super::fault::{self, Remedy};
use super::url::{Address, Shape};
use duetime_core::Error;
use duetime_core::limits::{PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit of one attempt, from when it was sent or the last reply to another one, after which its connection is closed.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// A large call or reply has more time: a second for as many bytes.
const LARGE_BYTES_PER_SECOND: usize = 1 << 20;
/// The time for the largest job.
const LARGE_MAX: Duration =
    Duration::from_secs(((PAYLOAD_BYTES_MAX + 4 * RESULT_BYTES_MAX) / LARGE_BYTES_PER_SECOND) as u64);
/// Time limit for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a call is retried before it fails. This is longer than a failover, and, with the last attempt, shorter than
/// scripts keep what has just ended (`SPARED_MS`).
const PATIENCE: Duration = Duration::from_secs(12);
/// The same until the first answer: a wrong address must be reported soon.
const PATIENCE_FIRST: Duration = Duration::from_secs(3);
/// The same once calls have failed for [`PATIENCE`]: while Redis is down, calls fail fast.
const PATIENCE_DOWN: Duration = Duration::from_secs(1);
/// How long no connection can be had before Redis counts as not reached: a restart of a small one takes less.
const LOST_MAX: Duration = Duration::from_millis(500);
/// The shortest and the longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// A connection to the server or servers.
#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(command).await,
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        }
    }
}

/// How to connect.
enum Target {
    Single(Client),
    Sentinel(tokio::sync::Mutex<SentinelClient>),
    Cluster { usual: Box<ClusterClient>, large: Box<ClusterClient>, nodes: Vec<Client> },
}

/// A connection that is opened when it is needed.
#[derive(Default)]
struct Line {
    is_large: bool,
    current: Mutex<Current>,
    connecting: tokio::sync::Mutex<()>,
}

/// The current connection, and its number.
#[derive(Default)]
struct Current {
    number: u64,
    connection: Option<Connection>,
    has_answered: bool,
    /// When the last reply came.
    answered: Option<Instant>,
    /// When the first call since the last answer failed.
    failing_since: Option<Instant>,
    /// When the first attempt since the last answer failed. Such an attempt may belong to a call that began long before.
    lost_since: Option<Instant>,
}

impl Current {
    /// When a call that began at this time is no longer retried.
    fn end(&self, begin: Instant) -> Instant {
        match self.failing_since {
            _ if !self.has_answered => begin + PATIENCE_FIRST,
            Some(since) => (begin + PATIENCE).min((begin + PATIENCE_DOWN).max(since + PATIENCE)),
            None => begin + PATIENCE,
        }
    }
}

impl Line {
    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().expect("no panic under this lock")
    }

    fn connected(&self) -> Option<(u64, Connection)> {
        let current = self.current();
        Some((current.number, current.connection.clone()?))
    }

    /// Notes an attempt that got no answer.
    fn lose(&self) {
        self.current().lost_since.get_or_insert(Instant::now());
    }

    /// Drops a broken connection if it is still the current one.
    fn give_up(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.connection = None;
        }
    }
}

/// An attempt that got no answer.
struct Failure {
    error: RedisError,
    /// The number of the connection over which it was sent.
    sent: Option<u64>,
}

pub(super) struct Link {
    target: Target,
    usual: Line,
    large: Line,
    bound: Mutex<Bound>,
    /// Its URL, without user and password.
    pub(super) place: String,
}

impl Link {
    /// # Errors
    /// [`Error::Invalid`] for a malformed address.
    pub(super) fn new(address: &Address) -> Result<Self, Error> {
        let wrong = |error: RedisError| Error::invalid("broker", "an address of Redis", error);
        let target = match &address.shape {
            Shape::Single(info) => Target::Single(Client::open(info.clone()).map_err(wrong)?),
            Shape::Sentinel { sentinels, master, redis, tls } => {
                Target::Sentinel(tokio::sync::Mutex::new(sentinel(sentinels, master, redis, *tls).map_err(wrong)?))
            }
            Shape::Cluster(nodes) => {
                // The library's own retries can carry commands out twice, or hang; our retries replace them.
                let commands = |answer_max| {
                    ClusterClient::builder(nodes.clone())
                        .retries(0)
                        .connection_timeout(CONNECT_MAX)
                        .response_timeout(answer_max)
                        .tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true))
                        .build()
                        .map(Box::new)
                };
                let usual = commands(ANSWER_MAX).map_err(wrong)?;
                let large = commands(ANSWER_MAX + LARGE_MAX).map_err(wrong)?;
                let nodes: RedisResult<Vec<Client>> = nodes.iter().map(|node| Client::open(node.clone())).collect();
                Target::Cluster { usual, large, nodes: nodes.map_err(wrong)? }
            }
        };
        let place = address.shown.clone();
        let large = Line { is_large: true, ..Line::default() };
        large.current().has_answered = true;
        let bound = Mutex::new(Bound::new(Instant::now()));
        Ok(Self { target, usual: Line::default(), large, bound, place })
    }

    /// Why no call gets through at the moment: there is no connection, and has been none for longer than a moment.
    pub(super) fn unreached(&self) -> Option<Error> {
        let current = self.usual.current();
        let lost_since = current.lost_since.filter(|_| current.connection.is_none())?;
        let is_long = lost_since.elapsed() >= LOST_MAX;
        is_long
            .then(|| Error::Unavailable(format!("{}: the connection is lost, and no new one can be had", self.place)))
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.target, Target::Cluster { .. })
    }

    pub(super) fn is_sentinel(&self) -> bool {
        matches!(self.target, Target::Sentinel(_))
    }

    /// Runs a script.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, Error> {
        self.retried(call.script.name(), call.bytes(), |needs_source, bound| call.command(needs_source, bound)).await
    }

    /// Runs a command.
    pub(super) async fn query(&self, command: &Cmd) -> Result<Value, Error> {
        self.retried("a command", 0, |_, _| command.clone()).await
    }

    /// The same for a command whose reply has about as many bytes as it is given, at most. It is made again for each attempt,
    /// since the bound may have been too high.
    pub(super) async fn query_within(&self, command: impl Fn(usize) -> Cmd) -> Result<Value, Error> {
        self.retried("a command", 0, |_, bound| command(bound.bytes)).await
    }

    /// Runs a command without retries.
    pub(super) async fn once(&self, command: &Cmd) -> Result<Value, Error> {
        self.attempt(&self.usual, command, ANSWER_MAX).await.map_err(|Failure { error, sent }| {
            if self.leads_elsewhere(fault::remedy(&error)) {
                sent.iter().for_each(|&number| self.usual.give_up(number));
            }
            fault::explain(&error, &self.place)
        })
    }

    /// Whether a new connection may lead to another server.
    fn leads_elsewhere(&self, remedy: Remedy) -> bool {
        match remedy {
            Remedy::Reconnect => true,
            Remedy::AwaitReplicas => self.is_sentinel(),
            Remedy::SendSource | Remedy::SendLarge | Remedy::Wait | Remedy::None => false,
        }
    }

    fn bound(&self) -> std::sync::MutexGuard<'_, Bound> {
        self.bound.lock().expect("no panic under this lock")
    }

    async fn retried(
        &self,
        what: &str,
        bytes: usize,
        command: impl Fn(bool, ReplyBound) -> Cmd,
    ) -> Result<Value, Error> {
        let begin = Instant::now();
        let mut pause = PAUSE.0;
        let (mut needs_source, mut is_large, mut is_lost) = (false, bytes > CALL_BYTES_MAX, false);
        loop {
            let line = if is_large { &self.large } else { &self.usual };
            let more = if is_large { LARGE_MAX } else { Duration::ZERO };
            let bound = ReplyBound { bytes: self.bound().bytes(), any_job: is_large };
            let answer = self.attempt(line, &command(needs_source, bound), ANSWER_MAX + more).await;
            let Failure { error, sent } = match answer {
                Ok(value) => {
                    let mut current = line.current();
                    (current.has_answered, current.failing_since, current.lost_since) = (true, None, None);
                    self.bound().grow(Instant::now());
                    return Ok(value);
                }
                Err(failure) => failure,
            };
            match fault::remedy(&error) {
                Remedy::SendSource if !needs_source => {
                    needs_source = true;
                    continue;
                }
                Remedy::SendLarge if !is_large => {
                    is_large = true;
                    continue;
                }
                Remedy::Reconnect => {
                    sent.iter().for_each(|&number| line.give_up(number));
                    line.lose();
                    // The first loss may be that of a server. If the same call is lost on the next connection, its reply may
                    // be too large for this network.
                    if is_lost && sent.is_some() {
                        self.bound().shrink(Instant::now());
                    }
                    is_lost |= sent.is_some();
                }
                remedy @ Remedy::AwaitReplicas if self.leads_elsewhere(remedy) => {
                    sent.iter().for_each(|&number| line.give_up(number));
                }
                Remedy::Wait | Remedy::AwaitReplicas | Remedy::SendSource => {}
                Remedy::SendLarge | Remedy::None => return Err(fault::explain(&error, &self.place)),
            }
            tracing::debug!(%error, what, "Redis did not answer as expected; trying again");
            let end = {
                let mut current = line.current();
                current.failing_since.get_or_insert(begin);
                current.end(begin)
            };
            if Instant::now() + pause >= end + more {
                return Err(fault::explain(&error, &self.place));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn attempt(&self, line: &Line, command: &Cmd, limit: Duration) -> Result<Value, Failure> {
        let connected = self.connection(line).await;
        let (number, mut connection) = connected.map_err(|error| Failure { error, sent: None })?;
        let failed = |error| Failure { error, sent: Some(number) };
        let (sent, mut answer) = (Instant::now(), std::pin::pin!(connection.send(command)));
        let mut heard = sent;
        loop {
            let end = heard + limit;
            // A large reply has long, but not if Redis has gone.
            let look = if line.is_large { end.min(Instant::now() + ANSWER_MAX) } else { end };
            if let Ok(answer) = tokio::time::timeout_at(look, &mut answer).await {
                let answer = answer.and_then(Value::extract_error);
                if answer.as_ref().err().is_none_or(|error| fault::remedy(error) != Remedy::Reconnect) {
                    let mut current = line.current();
                    if current.number == number {
                        current.answered = Some(Instant::now());
                    }
                }
                return answer.map_err(failed);
            }
            {
                let current = line.current();
                // Replies over a later connection say nothing of this one, on which none may ever come.
                if current.number == number {
                    heard = current.answered.map_or(heard, |last| last.max(heard));
                }
            }
            let has_gone = line.is_large && self.usual.current().failing_since.is_some();
            if has_gone || Instant::now() >= heard + limit {
                return Err(failed(fault::timed_out(sent.elapsed())));
            }
        }
    }

    async fn connection(&self, line: &Line) -> RedisResult<(u64, Connection)> {
        if let Some(connected) = line.connected() {
            return Ok(connected);
        }
        let _one_at_a_time = within(CONNECT_MAX, line.connecting.lock()).await?;
        if let Some(connected) = line.connected() {
            return Ok(connected);
        }
        // However long its caller has waited, an attempt has its whole time: otherwise many callers that wait would give each
        // attempt only what is left of their own time, and a slow connection would never be opened.
        let connection = within(CONNECT_MAX, Box::pin(self.connect(line.is_large))).await??;
        let mut current = line.current();
        current.number += 1;
        current.connection = Some(connection.clone());
        Ok((current.number, connection))
    }

    async fn connect(&self, is_large: bool) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(Some(CONNECT_MAX));
        Ok(match &self.target {
            Target::Single(client) => {
                Connection::Single(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            Target::Sentinel(client) => {
                let connection = client.lock().await.get_async_connection_with_config(&config).await?;
                Connection::Single(connection)
            }
            Target::Cluster { usual, large, .. } => {
                Connection::Cluster(if is_large { large } else { usual }.get_async_connection().await?)
            }
        })
    }

    /// Opens a separate connection for subscriptions to one server; `turn` selects one of several.
    pub(super) async fn listener(
        &self,
        config: &AsyncConnectionConfig,
        turn: usize,
    ) -> RedisResult<MultiplexedConnection> {
        match &self.target {
            Target::Single(client) => client.get_multiplexed_async_connection_with_config(config).await,
            Target::Sentinel(client) => client.lock().await.get_async_connection_with_config(config).await,
            Target::Cluster { nodes, .. } => {
                nodes[turn % nodes.len()].get_multiplexed_async_connection_with_config(config).await
            }
        }
    }
}

/// Ends a wait that takes longer than this.
async fn within<T>(limit: Duration, wait: impl Future<Output = T>) -> RedisResult<T> {
    tokio::time::timeout(limit, wait).await.map_err(|_| fault::timed_out(limit))
}

fn sentinel(
    sentinels: &[redis::ConnectionAddr],
    master: &str,
    redis: &redis::RedisConnectionInfo,
    tls: bool,
) -> RedisResult<SentinelClient> {
    let tcp = || redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let mut builder = SentinelClientBuilder::new(sentinels.to_vec(), master, SentinelServerType::Master)?
        .set_client_to_redis_db(redis.db())
        .set_client_to_redis_protocol(redis::ProtocolVersion::RESP3)
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_sentinel_tcp_settings(tcp());
    if let Some(username) = redis.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = redis.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if tls {
        builder = builder
            .set_client_to_redis_tls_mode(redis::TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(redis::TlsMode::Secure);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fail_soon_once_redis_is_known_to_be_down() {
        let now = Instant::now();
        let end = |has_answered, failing_for: Option<Duration>| {
            let failing_since = failing_for.map(|time| now - time);
            Current { has_answered, failing_since, ..Current::default() }.end(now) - now
        };
        assert_eq!(end(false, None), PATIENCE_FIRST);
        assert_eq!(end(true, None), PATIENCE);
        assert_eq!(end(true, Some(Duration::from_secs(4))), PATIENCE - Duration::from_secs(4));
        assert_eq!(end(true, Some(PATIENCE)), PATIENCE_DOWN);
        assert_eq!(end(true, Some(PATIENCE * 9)), PATIENCE_DOWN);
    }
}
