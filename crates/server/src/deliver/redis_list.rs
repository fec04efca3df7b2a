//! Redis lists: the payload is appended for the consumers of the list. [`framework`] tells how.
//!
//! Only servers that the operator has named are reached, so a user who may set targets cannot probe the network. The
//! credentials are in the operator's options, not in settings that all users can read. If a reply is lost, the payload may
//! be appended again: at least once.

use super::framework;
use super::result::{DeliveryResult, Sign};
use super::webhook::Resolver;
use duetime_core::error::system_words;
use duetime_core::model::target::RedisList;
use duetime_core::{Error, Millis};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError,
    ServerErrorKind,
};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a server may take to answer before its connection is given up.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The servers that may be appended to.
#[derive(Clone, Default)]
pub(crate) struct Servers(Arc<[Arc<Server>]>);

/// A list on one of them.
#[derive(Clone)]
pub(super) struct List {
    server: Arc<Server>,
    target: RedisList,
}

struct Server {
    place: RedisDatabase,
    client: Client,
    /// Of all servers: a lookup may outlast the attempt to connect, and then the next attempt waits for it.
    resolver: Resolver,
    current: Mutex<Current>,
    connecting: tokio::sync::Mutex<()>,
}

/// The connection, and which one it is.
#[derive(Default)]
struct Current {
    number: u64,
    connection: Option<MultiplexedConnection>,
}

/// Which database of which server, with TLS or without.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RedisDatabase {
    tls: bool,
    host: String,
    port: u16,
    db: i64,
}

impl Servers {
    /// The servers of these URLs.
    ///
    /// # Errors
    /// [`Error::Invalid`], without the password.
    pub(super) fn new(urls: &[String]) -> Result<Self, Error> {
        Self::with(urls, &Resolver::of_system())
    }

    fn with(urls: &[String], resolver: &Resolver) -> Result<Self, Error> {
        // If a provider is already installed, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let servers = urls.iter().map(|url| {
            let expected = "a URL redis://[user:password@]host[:port][/db] or rediss://…";
            // Without the text: a password may be in it.
            let got = if url.contains("://") { "another URL" } else { "a text without redis://" };
            let wrong = |_| Error::invalid("--deliver-redis", expected, got);
            let info = url.as_str().into_connection_info().map_err(wrong)?;
            let place =
                place(&info).ok_or_else(|| Error::invalid("--deliver-redis", expected, "the path of a socket"))?;
            let info = info.set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
            let client = Client::open(info).map_err(wrong)?;
            let resolver = resolver.clone();
            Ok(Arc::new(Server { place, client, resolver, current: Mutex::default(), connecting: Default::default() }))
        });
        Ok(Self(servers.collect::<Result<Vec<_>, Error>>()?.into()))
    }

    /// Why servers cannot be used now: deliveries to them would fail. For each a text without its password.
    pub(super) async fn troubles(&self) -> Vec<String> {
        let pings = self.0.iter().map(|server| async move {
            let RedisDatabase { host, port, .. } = &server.place;
            server.ping().await.err().map(|why| format!("{host}:{port}: {why}"))
        });
        join_all(pings).await.into_iter().flatten().collect()
    }

    /// The list that a target names.
    ///
    /// # Errors
    /// [`Error::Invalid`] if its layout is unknown, or its server not among these.
    pub(super) fn list(&self, target: &RedisList) -> Result<List, Error> {
        framework::check_list(target)?;
        let wrong = |expected: &str, got: &str| Error::invalid("target.redis_list.url", expected, got);
        let info = target
            .url
            .as_ref()
            .into_connection_info()
            .map_err(|_| wrong("a URL such as redis://host:6379/0", "another text"))?;
        if info.redis_settings().password().is_some() {
            return Err(wrong(
                "a URL without a password: the server takes it from --deliver-redis",
                "one with a password",
            ));
        }
        let place = place(&info).ok_or_else(|| wrong("a URL such as redis://host:6379/0", "the path of a socket"))?;
        let server = self.0.iter().find(|server| server.place == place);
        let server = server.ok_or_else(|| {
            let got = format!("{}:{}/{}", place.host, place.port, place.db);
            let expected =
                "a Redis that this server was started with (--deliver-redis), with the same host, port and database";
            wrong(expected, &if self.0.is_empty() { format!("{got}, and it was started with none") } else { got })
        })?;
        Ok(List { server: server.clone(), target: target.clone() })
    }
}

impl List {
    /// True if both are on one server.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.server, &other.server)
    }

    /// Appends a payload.
    pub(super) async fn append(&self, payload: &[u8], now: Millis) -> DeliveryResult {
        let command = match framework::command(&self.target, payload, now) {
            Ok(command) => command,
            Err(why) => return DeliveryResult::refused(why, Sign::None),
        };
        let (number, mut connection) = match self.server.connection().await {
            Ok(connected) => connected,
            Err(why) => return DeliveryResult::failed(format!("not connected: {why}"), Sign::Away),
        };
        match timeout(ANSWER_MAX, command.query_async::<u64>(&mut connection)).await {
            Ok(Ok(length)) => DeliveryResult::taken(&json!({ "length": length })),
            Ok(Err(error)) => {
                if error.is_unrecoverable_error() || error.is_io_error() {
                    self.server.give_up(number);
                }
                DeliveryResult::failed(format!("Redis: {}", system_words(&error.to_string())), sign(&error))
            }
            Err(_) => {
                self.server.give_up(number);
                let said = format!("timeout: no answer from Redis within {} s", ANSWER_MAX.as_secs());
                DeliveryResult::failed(said, Sign::Silent)
            }
        }
    }
}

/// The state of the server, as an error shows it.
fn sign(error: &RedisError) -> Sign {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain | ServerErrorKind::ReadOnly) => {
            Sign::Overloaded { hold_ms: None }
        }
        _ if error.is_io_error() => Sign::Away,
        _ => Sign::Answered,
    }
}

impl Server {
    async fn connection(&self) -> Result<(u64, MultiplexedConnection), String> {
        if let Some(connected) = self.connected() {
            return Ok(connected);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connected) = self.connected() {
            return Ok(connected);
        }
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_dns_resolver(self.resolver.clone());
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let connection = match timeout(CONNECT_MAX, connecting).await {
            Ok(connection) => connection.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("no answer within {} s", CONNECT_MAX.as_secs())),
        };
        let mut current = self.current();
        current.number += 1;
        current.connection = Some(connection.clone());
        Ok((current.number, connection))
    }

    async fn ping(&self) -> Result<(), String> {
        let (_, mut connection) = self.connection().await?;
        match timeout(ANSWER_MAX, redis::cmd("PING").query_async::<()>(&mut connection)).await {
            // A user who may only append needs no right to ping.
            Ok(Err(error)) if error.code() != Some("NOPERM") => Err(system_words(&error.to_string())),
            Ok(_) => Ok(()),
            Err(_) => Err(format!("no answer within {} s", ANSWER_MAX.as_secs())),
        }
    }

    fn connected(&self) -> Option<(u64, MultiplexedConnection)> {
        let current = self.current();
        Some((current.number, current.connection.clone()?))
    }

    /// Drops a broken connection, if it is still the current one.
    fn give_up(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.connection = None;
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(info: &ConnectionInfo) -> Option<RedisDatabase> {
    let (tls, host, port) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (false, host, *port),
        ConnectionAddr::TcpTls { host, port, .. } => (true, host, *port),
        _ => return None,
    };
    Some(RedisDatabase { tls, host: host.to_lowercase(), port, db: info.redis_settings().db() })
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("List").field("place", &self.server.place).field("key", &self.target.key).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|server| &server.place)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::model::target::LAYOUT_PLAIN;
    use duetime_store::testing::RedisServer;

    #[test]
    fn only_named_servers_are_reached() {
        let named = ["redis://me:secret@Cache.example:6380/2".to_owned(), "rediss://cache.example".to_owned()];
        let servers = Servers::new(&named).unwrap();
        let list =
            |url: &str| servers.list(&RedisList { url: url.into(), key: "k".into(), layout: LAYOUT_PLAIN.into() });
        for url in ["redis://cache.example:6380/2", "rediss://cache.example:6379", "rediss://cache.example/0"] {
            assert!(list(url).is_ok(), "{url}");
        }
        for url in [
            "redis://cache.example:6380",
            "redis://cache.example:6380/3",
            "redis://cache.example:6379",
            "redis://cache.example:63801/2",
            "redis://cache.example.evil:6380/2",
            "redis://127.0.0.1:6380/2",
            "redis://me:secret@cache.example:6380/2",
        ] {
            let error = list(url).unwrap_err().to_string();
            assert!(error.contains("--deliver-redis") && !error.contains("secret"), "{url}: {error}");
        }
        assert!(!format!("{servers:?}").contains("secret"));
        let error = Servers::new(&["http://me:secret@a".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--deliver-redis") && !error.contains("secret"), "{error}");
    }

    /// They took threads of the runtime beyond the bound, one more for each attempt to connect.
    #[tokio::test]
    async fn names_of_servers_are_looked_up_within_the_bound() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://cache.example:{}", listener.local_addr().unwrap().port());
        let resolver = Resolver::new(|name| {
            assert_eq!(name, "cache.example");
            Ok(vec![([127, 0, 0, 1], 0).into()])
        });
        let servers = Servers::with(&[url], &resolver).unwrap();
        let connecting = tokio::spawn(async move { servers.0[0].connection().await.map(|_| ()) });
        listener.accept().await.unwrap();
        connecting.abort();
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_used_is_named() {
        let open = RedisServer::start();
        let closed = RedisServer::start();
        let at = |user: &str| format!("redis://{user}127.0.0.1:{}", closed.port());
        closed.command(&["ACL", "SETUSER", "mailer", "on", ">mail", "~*", "+rpush"]);
        closed.command(&["CONFIG", "SET", "requirepass", "secret"]);
        let troubles = async |urls: &[String]| Servers::new(urls).unwrap().troubles().await;
        assert_eq!(troubles(&[open.url(), at(":secret@"), at("mailer:mail@")]).await, [""; 0]);
        let told = troubles(&[open.url(), at(""), at(":wrong@"), "redis://127.0.0.1:1".to_owned()]).await;
        for (told, why) in told.iter().zip(["NOAUTH", "authentication failed", "refused"]) {
            assert!(told.starts_with("127.0.0.1:") && told.contains(why) && !told.contains("secret"), "{told}");
        }
        assert_eq!(told.len(), 3);
    }
}
