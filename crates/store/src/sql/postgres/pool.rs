//! A server: connections are made when needed, up to a limit, and replaced when they break.

use super::connection::Borrowed;
use super::tls;
use crate::sql::address::Address;
use crate::sql::connection::{Connection, Database, Dialect};
use crate::sql::fault::Fault;
use async_trait::async_trait;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use duetime_core::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a caller waits for a connection while all are in use.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Time limit for making a connection, including its settings.
const CREATE_MAX: Duration = Duration::from_secs(6);
/// Time limit for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent data may stay unacknowledged.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// The settings of each connection: a statement, a lock wait and an idle transaction end before their caller gives up.
const SET: &str = "SET statement_timeout = 25000; SET lock_timeout = 15000; \
     SET idle_in_transaction_session_timeout = 30000; SET client_min_messages = warning; \
     SET default_transaction_isolation = 'read committed'";

struct Server {
    pool: Pool,
    shown: String,
}

/// Opens the server of this URL: `postgres://` or `postgresql://`. If it names several hosts, separated by commas, the
/// writable one is used.
pub(super) fn open(url: &str, connections: usize) -> Result<Arc<dyn Database>, Error> {
    let address = Address::parse(url)?;
    let config = config(&address)?;
    let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = if address.is_encrypted {
        Manager::from_config(config, MakeRustlsConnect::new(tls::config(address.root.as_deref())?), how)
    } else {
        Manager::from_config(config, NoTls, how)
    };
    let hook =
        Hook::async_fn(|client, _| Box::pin(async { client.batch_execute(SET).await.map_err(HookError::Backend) }));
    let pool = Pool::builder(manager)
        .max_size(connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT_MAX))
        .create_timeout(Some(CREATE_MAX))
        .post_create(hook)
        .build();
    let pool = pool.map_err(|_| Error::Unusable("the connections to PostgreSQL cannot be set up".to_owned()))?;
    Ok(Arc::new(Server { pool, shown: address.shown }))
}

fn config(address: &Address) -> Result<Config, Error> {
    let mut config: Config = address.url.parse().map_err(|error: tokio_postgres::Error| {
        let why =
            std::error::Error::source(&error).map(ToString::to_string).filter(|why| why.starts_with("unknown option"));
        address.wrong(why.as_deref().unwrap_or("its user, host, port, database or an option is not valid"))
    })?;
    if config.get_hosts().is_empty() {
        return Err(address.wrong("it has no host"));
    }
    config.ssl_mode(if address.is_encrypted { SslMode::Require } else { SslMode::Disable });
    config.connect_timeout(CONNECT_MAX).tcp_user_timeout(SILENCE_MAX).keepalives_idle(SILENCE_MAX);
    if config.get_application_name().is_none() {
        config.application_name("duetime");
    }
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    Ok(config)
}

#[async_trait]
impl Database for Server {
    fn dialect(&self) -> &'static Dialect {
        &super::DIALECT
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    async fn connection(&self) -> Result<Box<dyn Connection>, Fault> {
        match self.pool.get().await {
            Ok(client) => Ok(Box::new(Borrowed::new(client))),
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                Err(Fault::from(error).at(&self.shown))
            }
            Err(PoolError::Closed) => Err(Fault::Known(Error::Stopping)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                Err(Fault::Known(Error::Unavailable("all connections to PostgreSQL are in use".into())))
            }
            Err(PoolError::Timeout(TimeoutType::Create)) => Err(Fault::silent(&self.shown, CREATE_MAX, "PostgreSQL")),
            Err(error) => Err(Fault::Lost(format!("{}: {error}", self.shown))),
        }
    }

    async fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(Address, Config), Error> {
        let address = Address::parse(url)?;
        let config = config(&address)?;
        Ok((address, config))
    }

    #[test]
    fn urls_are_read() {
        let (plain, config) = read("postgres://me:secret@db.example:5433/jobs?application_name=shop").unwrap();
        assert!(!plain.is_encrypted);
        assert_eq!(plain.shown, "postgres://***@db.example:5433/jobs?***");
        assert_eq!(config.get_dbname(), Some("jobs"));
        assert_eq!(config.get_application_name(), Some("shop"));
        let url = "postgresql://me@db/jobs?sslmode=verify-full&sslrootcert=/etc/root.pem";
        let (tls, _) = read(url).unwrap();
        assert!(tls.is_encrypted && tls.root.is_some());
        let Err(error) = open(url, 1) else { panic!("no such root") };
        assert_eq!(error.code(), "store_unusable");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "postgres://u:secret@a/b?sslmode=prefer",
            "postgres://u:secret@a/b?nonsense=1",
            "postgres://u:secret@a:port/b",
        ] {
            let Err(error) = read(url) else { panic!("{url}") };
            let error = error.to_string();
            assert!(!error.contains("secret") && error.contains("sslrootcert"), "{error}");
        }
    }
}
