//! One server for all tests of a process, and a database for each.

use duetime_store::sql::Options;
use duetime_store::testing::MariaDbServer;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The shared server waits for no disk.
pub(crate) const OPTIONS: Options = Options { connections: 8, writers: 2, migrates: true, may_lose: true };

/// The server; it ends with the process, which leaves its folder.
fn shared() -> &'static MariaDbServer {
    static SHARED: OnceLock<MariaDbServer> = OnceLock::new();
    SHARED.get_or_init(MariaDbServer::start)
}

/// A new database: its URL.
pub(crate) async fn database() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    let name = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
    client(&server.url()).await.query_drop(format!("CREATE DATABASE {name}")).await.unwrap();
    server.url_of(&name)
}

/// Its own client.
pub(crate) async fn client(url: &str) -> Conn {
    Conn::from_url(format!("{url}?prefer_socket=false")).await.unwrap()
}
