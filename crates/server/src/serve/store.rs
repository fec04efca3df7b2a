//! The stores that an engine is started on: the wheel beside SQLite, or Redis, alone or beside a ledger.

use super::args::{Args, Settle};
use duetime_core::engine::{Options, Stores};
use duetime_core::{Engine, Error, SystemClock};
use duetime_store::pair::Pair;
use duetime_store::redis::{self, Redis};
use duetime_store::sql;
use duetime_store::sqlite::{self, Durability, Sqlite};
use std::path::PathBuf;
use std::sync::Arc;

/// An engine that runs, and what is to be said of where it keeps things.
pub(super) struct Opened {
    pub(super) engine: Engine,
    /// What the store is.
    pub(super) store: String,
    /// What it could lose, and when.
    pub(super) loss: String,
}

/// Opens the store and starts an engine on it.
pub(super) async fn open(args: &Args) -> Result<Opened, Error> {
    let memory_max = args.memory_max.map(|size| size.0);
    let options = Options {
        payload_bytes_max: args.payload_max.0,
        horizon_ms: args.horizon.0,
        memory_max,
        settles_recorded: args.settle == Settle::Recorded,
        ..Options::default()
    };
    let (stores, store, loss) = match (&args.broker, &args.ledger) {
        (Some(broker), Some(ledger)) => beside(broker, ledger, args).await?,
        (Some(url), None) => shared(url, memory_max).await?,
        (None, _) => own(args.file().cloned(), args.durability).await?,
    };
    Ok(Opened { engine: Engine::start(stores, options).await?, store, loss })
}

/// SQLite, in a file or in memory, with what is said of it and what it could lose.
pub(crate) async fn own(path: Option<PathBuf>, durability: Durability) -> Result<(Stores, String, String), Error> {
    let (store, loss) = match &path {
        None => ("memory".to_owned(), "everything, when this process ends"),
        Some(path) => (format!("{} (SQLite, durability {durability})", path.display()), loss(durability)),
    };
    let sqlite = tokio::task::spawn_blocking(move || match path {
        Some(path) => Sqlite::open(&path, sqlite::Options { durability }),
        None => Sqlite::memory(),
    });
    let sqlite = Arc::new(sqlite.await.map_err(|error| Error::Unavailable(error.to_string()))??);
    Ok((Stores::one_process(Arc::new(SystemClock::new()), sqlite), store, loss.to_owned()))
}

/// Redis alone, with the same.
pub(crate) async fn shared(url: &str, memory_max: Option<u64>) -> Result<(Stores, String, String), Error> {
    let redis = Redis::connect(url, redis::Options { memory_max, ..redis::Options::default() }).await?;
    redis.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let (store, loss) = (redis.to_string(), redis.loss().to_owned());
    Ok((redis.stores(), store, loss))
}

async fn beside(broker: &str, ledger: &str, args: &Args) -> Result<(Stores, String, String), Error> {
    let options = sql::Options {
        connections: args.ledger_connections,
        migrates: !args.no_migrate,
        may_lose: args.ledger_may_lose,
        ..sql::Options::default()
    };
    let pair = Pair::connect(broker, ledger, options).await?;
    pair.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let (store, loss) = (pair.to_string(), pair.loss());
    Ok((pair.stores(), store, loss))
}

fn loss(durability: Durability) -> &'static str {
    match durability {
        Durability::Commit => "nothing that was acknowledged, as far as the disk keeps what it was told to sync",
        Durability::Interval => "what was acknowledged in the last 50 ms, in a power failure; nothing in a crash",
        Durability::None => "the whole file, in a power failure; nothing in a crash of this process",
    }
}
