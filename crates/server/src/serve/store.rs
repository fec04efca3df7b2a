//! The stores that an engine is started on: the wheel beside SQLite.

use super::args::Args;
use duetime_core::engine::{Options, Stores};
use duetime_core::memory::{Locks, Memory};
use duetime_core::{Engine, Error, SystemClock};
use duetime_store::sqlite::{self, Sqlite};
use std::sync::Arc;

/// Opens the store and starts an engine on it.
pub(super) async fn open(args: &Args) -> Result<Engine, Error> {
    let (path, durability) = (args.file().cloned(), args.durability);
    let sqlite = tokio::task::spawn_blocking(move || match path {
        Some(path) => Sqlite::open(&path, sqlite::Options { durability }),
        None => Sqlite::memory(),
    });
    let sqlite = Arc::new(sqlite.await.map_err(|error| Error::Unavailable(error.to_string()))??);
    let clock = Arc::new(SystemClock::new());
    let broker = Arc::new(Memory::new(clock.clone()));
    let locks = Arc::new(Locks::new(clock, sqlite.clone()));
    let stores = Stores { broker, ledger: sqlite.clone(), registry: sqlite, locks };
    Engine::start(stores, Options { payload_bytes_max: args.payload_max.0, ..Options::default() }).await
}
