//! One server for all tests of a process, and a database or a schema for each.

use duetime_store::sql::Options;
use duetime_store::testing::PostgresServer;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::{Client, NoTls};

/// The server; it ends with the process, which leaves its folder.
fn shared() -> &'static PostgresServer {
    static SHARED: OnceLock<PostgresServer> = OnceLock::new();
    SHARED.get_or_init(PostgresServer::start)
}

/// A new database: its URL.
pub(crate) async fn database() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    let name = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
    client(&server.url()).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    server.url_of(&name)
}

/// A new schema in a database for many: its URL. It costs less than a database.
pub(crate) async fn schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    let name = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
    client(&server.url()).await.batch_execute(&format!("CREATE SCHEMA {name}")).await.unwrap();
    format!("{}?options=-c%20search_path%3D{name}", server.url())
}

/// Its own client.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The shared server waits for no disk.
pub(crate) const OPTIONS: Options = Options { connections: 8, writers: 2, migrates: true, may_lose: true };
