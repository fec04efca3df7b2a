//! Connections: made as they are needed, up to a bound, and replaced when they break.

use super::address::Address;
use super::session::Connection;
use crate::sql::{Database, Fault};
use async_trait::async_trait;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use duetime_core::Error;
use std::time::Duration;
use tokio_postgres::NoTls;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a caller waits for a connection while all are in use.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// How long a connection may take to be made.
const CREATE_MAX: Duration = Duration::from_secs(6);
/// What is set on each: a statement, a wait for a lock and a forgotten transaction end before their caller gives up.
const SET: &str = "SET statement_timeout = 25000; SET lock_timeout = 15000; \
     SET idle_in_transaction_session_timeout = 30000; SET client_min_messages = warning; \
     SET default_transaction_isolation = 'read committed'";

/// The server and its connections.
pub(super) struct Server {
    pool: Pool,
    /// Its address, without user and password.
    pub(super) shown: String,
}

impl Server {
    /// Makes no connection yet.
    pub(super) fn new(address: &Address, connections: usize) -> Result<Self, Error> {
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = if address.is_encrypted {
            Manager::from_config(address.config.clone(), MakeRustlsConnect::new(address.tls()?), how)
        } else {
            Manager::from_config(address.config.clone(), NoTls, how)
        };
        let hook = Hook::async_fn(|client, _| {
            Box::pin(async move { client.batch_execute(SET).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(manager)
            .max_size(connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(CREATE_MAX))
            .post_create(hook)
            .build();
        let pool = pool.map_err(|error| Error::Unusable(format!("its connections cannot be set up: {error}")))?;
        Ok(Self { pool, shown: address.shown.clone() })
    }
}

#[async_trait]
impl Database for Server {
    type Session = Connection;

    async fn session(&self) -> Result<Connection, Fault> {
        match self.pool.get().await {
            Ok(client) => Ok(Connection::new(client)),
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                Err(Fault::from(error).at(&self.shown))
            }
            Err(PoolError::Closed) => Err(Fault::Told(Error::Stopping)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                Err(Fault::Told(Error::Unavailable("all connections to PostgreSQL are in use".into())))
            }
            Err(error) => Err(Fault::Lost(format!("{}: {error}", self.shown))),
        }
    }

    async fn close(&self) {
        self.pool.close();
    }
}
