//! A private database, as an application sees it.

use super::blocking;
use duetime_store::testing::{MariaDbServer, PostgresServer};
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use tokio_postgres::NoTls;

/// Its own server; clones share it.
#[derive(Clone)]
pub(crate) enum Database {
    MySql(Arc<MariaDbServer>),
    Postgres(Arc<PostgresServer>),
}

impl Database {
    pub(crate) async fn mysql() -> Self {
        Self::MySql(Arc::new(blocking(MariaDbServer::start).await))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Arc::new(blocking(PostgresServer::start).await))
    }

    /// For `--ledger`, and for the examples.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::MySql(server) => server.url(),
            Self::Postgres(server) => server.url(),
        }
    }

    /// Runs statements one after the other on their own connection.
    pub(crate) async fn run(&self, statements: &[&str]) {
        match self {
            Self::MySql(_) => {
                let mut connection = self.mysql_connection().await;
                for statement in statements {
                    connection.query_drop(*statement).await.unwrap();
                }
                connection.disconnect().await.unwrap();
            }
            Self::Postgres(_) => {
                let client = self.postgres_client().await;
                for statement in statements {
                    client.batch_execute(statement).await.unwrap();
                }
            }
        }
    }

    /// Refused payloads, each with its error, in order.
    pub(crate) async fn errors(&self) -> Vec<(String, String)> {
        let sql = "SELECT payload, error FROM duetime_inbox WHERE error IS NOT NULL ORDER BY id";
        match self {
            Self::MySql(_) => self.mysql_connection().await.query(sql).await.unwrap(),
            Self::Postgres(_) => {
                let rows = self.postgres_client().await.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    /// The texts that a question answers.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        match self {
            Self::MySql(_) => self.mysql_connection().await.query(sql).await.unwrap(),
            Self::Postgres(_) => {
                let rows = self.postgres_client().await.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// Rows in the inbox.
    pub(crate) async fn count(&self) -> i64 {
        let sql = "SELECT COUNT(*) FROM duetime_inbox";
        match self {
            Self::MySql(_) => self.mysql_connection().await.query_first(sql).await.unwrap().unwrap(),
            Self::Postgres(_) => self.postgres_client().await.query_one(sql, &[]).await.unwrap().get(0),
        }
    }

    async fn mysql_connection(&self) -> mysql_async::Conn {
        mysql_async::Conn::from_url(format!("{}?prefer_socket=false", self.url())).await.unwrap()
    }

    async fn postgres_client(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}
