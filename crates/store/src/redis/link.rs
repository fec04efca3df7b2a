//! The connection for commands: one for all, reopened when it breaks, with a time limit for every call and our own retries.
//! A command may be carried out twice if its reply is lost; every script is idempotent.

use super::call::Call;
use super::fault::{self, Remedy};
use super::url::{Address, Shape};
use duetime_core::Error;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit of one attempt, after which its connection is closed.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Time limit for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a call is retried before it fails. This is longer than a failover, and, with the last attempt, shorter than
/// scripts keep what has just ended (`SPARED_MS`).
const PATIENCE: Duration = Duration::from_secs(12);
/// The same until the first answer: a wrong address must be reported soon.
const PATIENCE_FIRST: Duration = Duration::from_secs(3);
/// The same once calls have failed for [`PATIENCE`]: while Redis is down, calls fail fast.
const PATIENCE_DOWN: Duration = Duration::from_secs(1);
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
    Cluster { commands: ClusterClient, nodes: Vec<Client> },
}

/// The current connection, and its number.
#[derive(Default)]
struct Current {
    number: u64,
    connection: Option<Connection>,
    has_answered: bool,
    /// When the first call since the last answer failed.
    failing_since: Option<Instant>,
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

pub(super) struct Link {
    target: Target,
    current: Mutex<Current>,
    connecting: tokio::sync::Mutex<()>,
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
                let commands = ClusterClient::builder(nodes.clone())
                    .retries(0)
                    .connection_timeout(CONNECT_MAX)
                    .response_timeout(ANSWER_MAX)
                    .tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
                let nodes: RedisResult<Vec<Client>> = nodes.iter().map(|node| Client::open(node.clone())).collect();
                Target::Cluster { commands: commands.build().map_err(wrong)?, nodes: nodes.map_err(wrong)? }
            }
        };
        let place = address.shown.clone();
        Ok(Self { target, current: Mutex::default(), connecting: tokio::sync::Mutex::default(), place })
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.target, Target::Cluster { .. })
    }

    pub(super) fn is_sentinel(&self) -> bool {
        matches!(self.target, Target::Sentinel(_))
    }

    /// Runs a script.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, Error> {
        let (by_hash, mut by_source) = (call.command(false), None);
        self.retried(call.script.name(), |needs_source| {
            if needs_source { by_source.get_or_insert_with(|| call.command(true)).clone() } else { by_hash.clone() }
        })
        .await
    }

    /// Runs a command.
    pub(super) async fn query(&self, command: &Cmd) -> Result<Value, Error> {
        self.retried("a command", |_| command.clone()).await
    }

    /// Runs a command without retries.
    pub(super) async fn once(&self, command: &Cmd) -> Result<Value, Error> {
        let (number, answer) = self.attempt(command).await;
        answer.map_err(|error| {
            if matches!(fault::remedy(&error), Remedy::Reconnect) {
                self.give_up(number);
            }
            fault::explain(&error, &self.place)
        })
    }

    async fn retried(&self, what: &str, mut command: impl FnMut(bool) -> Cmd) -> Result<Value, Error> {
        let begin = Instant::now();
        let mut pause = PAUSE.0;
        let mut needs_source = false;
        loop {
            let (number, answer) = self.attempt(&command(needs_source)).await;
            let error = match answer {
                Ok(value) => {
                    let mut current = self.current();
                    (current.has_answered, current.failing_since) = (true, None);
                    return Ok(value);
                }
                Err(error) => error,
            };
            match fault::remedy(&error) {
                Remedy::SendSource if !needs_source => {
                    needs_source = true;
                    continue;
                }
                Remedy::Reconnect => self.give_up(number),
                Remedy::Wait | Remedy::SendSource => {}
                Remedy::None => return Err(fault::explain(&error, &self.place)),
            }
            tracing::debug!(%error, what, "Redis did not answer as expected; trying again");
            let end = {
                let mut current = self.current();
                current.failing_since.get_or_insert(begin);
                current.end(begin)
            };
            if Instant::now() + pause >= end {
                return Err(fault::explain(&error, &self.place));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn attempt(&self, command: &Cmd) -> (u64, RedisResult<Value>) {
        let (number, mut connection) = match self.connection().await {
            Ok(connected) => connected,
            Err(error) => return (0, Err(error)),
        };
        let answer = match tokio::time::timeout(ANSWER_MAX, connection.send(command)).await {
            Ok(answer) => answer.and_then(Value::extract_error),
            Err(_) => Err(fault::timed_out(ANSWER_MAX)),
        };
        (number, answer)
    }

    /// Drops a broken connection if it is still the current one.
    fn give_up(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.connection = None;
        }
    }

    async fn connection(&self) -> RedisResult<(u64, Connection)> {
        if let Some(connected) = self.connected() {
            return Ok(connected);
        }
        let _one_at_a_time = within(CONNECT_MAX, self.connecting.lock()).await?;
        if let Some(connected) = self.connected() {
            return Ok(connected);
        }
        // However long its caller has waited, an attempt has its whole time: otherwise many callers that wait would give each
        // attempt only what is left of their own time, and a slow connection would never be opened.
        let connection = within(CONNECT_MAX, Box::pin(self.connect())).await??;
        let mut current = self.current();
        current.number += 1;
        current.connection = Some(connection.clone());
        Ok((current.number, connection))
    }

    fn connected(&self) -> Option<(u64, Connection)> {
        let current = self.current();
        Some((current.number, current.connection.clone()?))
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().expect("no panic under this lock")
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(Some(CONNECT_MAX));
        Ok(match &self.target {
            Target::Single(client) => {
                Connection::Single(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            Target::Sentinel(client) => {
                let connection = client.lock().await.get_async_connection_with_config(&config).await?;
                Connection::Single(connection)
            }
            Target::Cluster { commands, .. } => Connection::Cluster(commands.get_async_connection().await?),
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
