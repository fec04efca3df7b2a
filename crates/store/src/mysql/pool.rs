//! Connections: made as they are needed, up to a bound, and replaced when they break.

use super::address::Address;
use super::session::Connection;
use crate::sql::{Database, Fault};
use async_trait::async_trait;
use mysql_async::Pool;
use std::time::Duration;

/// How long a caller waits for a connection: for one that is free, or for a new one.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The server and its connections.
pub(super) struct Server {
    pool: Pool,
    /// Its address, without user and password.
    pub(super) shown: String,
}

impl Server {
    /// Makes no connection yet.
    pub(super) fn new(address: Address) -> Self {
        Self { pool: Pool::new(address.options), shown: address.shown }
    }
}

#[async_trait]
impl Database for Server {
    type Session = Connection;

    async fn session(&self) -> Result<Connection, Fault> {
        match tokio::time::timeout(WAIT_MAX, self.pool.get_conn()).await {
            Ok(Ok(connection)) => Ok(Connection::new(connection)),
            Ok(Err(error)) => Err(Fault::from(error).at(&self.shown)),
            Err(_) => Err(Fault::Lost(format!("{}: no connection within {} s", self.shown, WAIT_MAX.as_secs()))),
        }
    }

    async fn close(&self) {
        if let Ok(Err(error)) = tokio::time::timeout(WAIT_MAX, self.pool.clone().disconnect()).await {
            tracing::debug!(%error, "connections were not closed in order");
        }
    }
}
