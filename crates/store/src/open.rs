//! Opening a store: the one place where broker, ledger, registry and locks are put together for an engine.

use duetime_core::Error;
use duetime_core::engine::Stores;

/// The store to open, and its options.
#[derive(Clone, Debug)]
pub enum Spec {
    /// In this process's memory.
    #[cfg(feature = "sqlite")]
    Memory,
    /// In a file, created if it does not exist.
    #[cfg(feature = "sqlite")]
    File {
        /// The path.
        path: std::path::PathBuf,
        /// When acknowledged changes are on disk.
        durability: crate::sqlite::Durability,
        /// A database of the application in which it inserts rows that become jobs.
        inbox: Option<std::path::PathBuf>,
    },
    /// In Redis alone.
    #[cfg(feature = "redis")]
    Redis {
        /// Its address.
        url: String,
        /// Bytes that it may use; by default what its `maxmemory` leaves.
        memory_max: Option<u64>,
    },
    /// In Redis beside a ledger.
    #[cfg(all(feature = "redis", any(feature = "mysql", feature = "postgres")))]
    Pair {
        /// The address of Redis.
        broker: String,
        /// The address of the SQL server.
        ledger: String,
        /// Options of the SQL store.
        options: crate::sql::Options,
    },
}

impl Spec {
    /// Checks the form of the addresses, without connecting.
    ///
    /// # Errors
    /// [`Error::Invalid`], without passwords.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis { url, .. } => crate::redis::check_url(url),
            #[cfg(all(feature = "redis", any(feature = "mysql", feature = "postgres")))]
            Self::Pair { broker, ledger, .. } => {
                crate::redis::check_url(broker)?;
                crate::sql::check_url(ledger)
            }
            #[cfg(feature = "sqlite")]
            Self::Memory | Self::File { .. } => Ok(()),
        }
    }
}

/// An open store, and what to report about it.
#[derive(Clone)]
pub struct Opened {
    /// Everything that an engine needs.
    pub stores: Stores,
    /// A description with its location, without users and passwords.
    pub name: String,
    /// The jobs that this store could lose, and when.
    pub loss: String,
}

/// Opens a store. Unsuitable settings are logged.
///
/// # Errors
/// [`Error::Invalid`] for a malformed address; [`Error::Held`] for a file that another process has open;
/// [`Error::Unavailable`] if nothing answers; [`Error::Unusable`] if the store or server is unsuitable.
pub async fn open(spec: Spec) -> Result<Opened, Error> {
    match spec {
        #[cfg(feature = "sqlite")]
        Spec::Memory => memory_on(system_clock()).await,
        #[cfg(feature = "sqlite")]
        Spec::File { path, durability, inbox } => {
            let name = format!("{} (SQLite, durability {durability})", path.display());
            let options = crate::sqlite::Options { durability };
            let stores =
                beside_memory(move || crate::sqlite::Sqlite::open(&path, options), inbox, system_clock()).await?;
            Ok(Opened { stores, name, loss: durability.loss().to_owned() })
        }
        #[cfg(feature = "redis")]
        Spec::Redis { url, memory_max } => {
            let options = crate::redis::Options { memory_max, ..crate::redis::Options::default() };
            let redis = crate::redis::Redis::connect(&url, options).await?;
            redis.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            let (name, loss) = (redis.to_string(), redis.loss().to_owned());
            Ok(Opened { stores: redis.stores(), name, loss })
        }
        #[cfg(all(feature = "redis", any(feature = "mysql", feature = "postgres")))]
        Spec::Pair { broker, ledger, options } => {
            let pair = crate::pair::Pair::connect(&broker, &ledger, options).await?;
            pair.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            let (name, loss) = (pair.to_string(), pair.loss());
            Ok(Opened { stores: pair.stores(), name, loss })
        }
    }
}

/// Opens a store in this process's memory, on this clock.
///
/// # Errors
/// If SQLite cannot begin.
#[cfg(feature = "sqlite")]
pub async fn memory_on(clock: std::sync::Arc<dyn duetime_core::Clock>) -> Result<Opened, Error> {
    let stores = beside_memory(crate::sqlite::Sqlite::memory, None, clock).await?;
    Ok(Opened { stores, name: "memory".to_owned(), loss: "everything, when this process ends".to_owned() })
}

/// The timing wheel beside SQLite.
#[cfg(feature = "sqlite")]
async fn beside_memory(
    open: impl FnOnce() -> Result<crate::sqlite::Sqlite, Error> + Send + 'static,
    inbox: Option<std::path::PathBuf>,
    clock: std::sync::Arc<dyn duetime_core::Clock>,
) -> Result<Stores, Error> {
    use crate::sqlite::FileInbox;
    use duetime_core::ports::Inbox;
    use std::sync::Arc;

    let open = move || {
        let sqlite = Arc::new(open()?);
        let inbox = inbox.map(|path| FileInbox::open(&path, sqlite.clone())).transpose()?;
        Ok::<_, Error>((sqlite, inbox))
    };
    let (sqlite, inbox) = crate::sqlite::aside("duetime-open", open).await??;
    let inbox = inbox.map(|inbox| Arc::new(inbox) as Arc<dyn Inbox>);
    Ok(Stores { inbox, ..Stores::one_process(clock, sqlite) })
}

#[cfg(feature = "sqlite")]
fn system_clock() -> std::sync::Arc<dyn duetime_core::Clock> {
    std::sync::Arc::new(duetime_core::SystemClock::new())
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Opened").field(&self.name).finish()
    }
}
