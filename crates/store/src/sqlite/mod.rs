//! The SQLite store: a ledger and a registry in one file, or in memory.
//!
//! One thread writes. All waiting tasks share a transaction, and are answered once it is on disk. A large transaction is synced
//! by another thread, while the writer begins the next one. Readers have their own connections and threads. They see everything that was
//! acknowledged before they began, and return nothing that a power failure could take back. One process holds a file at a time.
//!
//! It makes no decisions about jobs beyond the contracts of the ports: rules live in `duetime-core`.

mod apply;
mod backup;
mod documents;
mod durability;
mod edit;
mod fault;
mod file;
mod find;
mod health;
mod inbox;
mod journal;
mod lease;
mod ledger;
mod lock;
mod log;
mod number;
mod overflow;
mod plain;
mod pool;
mod probe;
mod prune;
mod queue;
mod read;
mod record;
mod reports;
mod room;
mod row;
mod schema;
mod tally;
mod task;
mod threads;
mod verify;
mod walk;
mod writer;

pub use durability::Durability;
pub use file::free_bytes;
pub use inbox::CREATE_INBOX;
pub(crate) use inbox::FileInbox;
pub use probe::{FileState, ProbeReport, probe};
pub(crate) use threads::aside;

use self::fault::Fault;
use self::health::Health;
use self::journal::Journal;
use self::lock::Lock;
use self::log::Log;
use self::pool::Pool;
use self::queue::Queue;
use self::task::Transaction;
use self::threads::spawn;
use self::writer::Writer;
use duetime_core::Error;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Copies the store in a file to another file that can be opened in its place, even while another process has it open. An
/// earlier backup of that name is replaced once the new one is on disk.
///
/// # Errors
/// [`Error::Unusable`] if the target cannot be written or is not a backup, or the source is not a store; [`Error::Damaged`];
/// [`Error::Full`].
pub fn backup(from: &Path, to: &Path) -> Result<(), Error> {
    let from = file::locate(from)?;
    let store = from.display().to_string();
    // Only SQLite may open the file: closing it in any other way would release the locks of a store open in this process.
    let connection = file::reader(&from).map_err(|error| fault::explain(&error, &store))?;
    if schema::check(&connection, &store)? == 0 {
        return Err(Error::Unusable(format!("{store} is not a store: name the store file of the server")));
    }
    backup::backup(&connection, to).map_err(|fault| fault.into_error(&store))
}

/// Compares the jobs that are in a file with those that are counted there, and returns how many there are. Nothing is changed,
/// and no other file is made. No process may have the store open, and it must have been closed in order
/// ([`ProbeReport::log_bytes`] is 0).
///
/// # Errors
/// [`Error::Damaged`] if they differ, or the file cannot be read; [`Error::Unusable`] if it is not a store.
pub fn verify(path: &Path) -> Result<u64, Error> {
    let path = file::locate(path)?;
    let store = path.display().to_string();
    let connection = file::closed(&path).map_err(|error| fault::explain(&error, &store))?;
    schema::check(&connection, &store)?;
    verify::verify(&connection).map_err(|fault| fault.into_error(&store))
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// When acknowledged changes are on disk; by default before they are acknowledged.
    pub durability: Durability,
}

/// A store in a file or in memory. If it is dropped without [`close`](duetime_core::ports::Ledger::close), it still finishes
/// waiting work. The next process to open the file then reads its write-ahead log.
pub struct Sqlite {
    queue: Arc<Queue>,
    /// Only for a file; the writer also reads a store in memory.
    pool: Option<Arc<Pool>>,
    log: Option<Arc<Log>>,
    threads: Mutex<Option<Threads>>,
    store: String,
}

/// What a store in a file has besides.
struct OnDisk {
    pool: Arc<Pool>,
    log: Arc<Log>,
    others: Vec<JoinHandle<()>>,
    lock: Lock,
}

struct Threads {
    writer: JoinHandle<Connection>,
    others: Vec<JoinHandle<()>>,
    /// Released last.
    _lock: Option<Lock>,
}

impl Sqlite {
    /// Opens a file, or creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::Held`] while another process, or another store of this one, has it open; [`Error::Unusable`] if it cannot be
    /// a store (a folder, another program's file, one of a newer version, not writable); [`Error::Damaged`]. An existing
    /// file is not changed.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let path = file::locate(path)?;
        let lock = Lock::take(&path)?;
        file::check_head(&path).inspect_err(|_| lock.leave())?;
        let store = path.display().to_string();
        let told = |error: rusqlite::Error| fault::explain(&error, &store);
        let mut connection = file::writer(&path, options.durability.synchronous()).map_err(told)?;
        schema::check(&connection, &store).inspect_err(|_| lock.leave())?;
        file::found(&connection, &store)?;
        schema::migrate(&mut connection, &store)?;
        log::begin_empty(&connection);
        let (mut journal, leases) = Journal::open(&path)?;
        lease::restore(&mut connection, &leases).map_err(|fault| fault.into_error(&store))?;
        journal.begin()?;
        let copier = file::checkpointer(&path).map_err(told)?;
        let log = Arc::new(Log::new(&path, Health::of(&path)?));
        // Everything is opened now: later there may be no descriptor left.
        let synced = log.open()?;
        let mut verifier = file::reader(&path).map_err(told)?;
        let pool = Arc::new(Pool::open(path, &store, log.clone())?);

        let mut others = vec![spawn("duetime-copier", {
            let log = log.clone();
            move || {
                log.copy(&copier);
                keep_log(&copier);
            }
        })?];
        others.push(spawn("duetime-verifier", {
            let (log, store) = (log.clone(), store.clone());
            move || log.verify(&mut verifier, &store)
        })?);
        let interval = match options.durability {
            Durability::Commit => Some(Duration::ZERO),
            Durability::Interval => Some(log::SYNC_INTERVAL),
            Durability::None => None,
        };
        if let Some(interval) = interval {
            let log = log.clone();
            others.push(spawn("duetime-syncer", move || log.sync(interval, &synced))?);
        }
        Self::start(connection, options, Queue::new(Some(journal)), store, Some(OnDisk { pool, log, others, lock }))
    }

    /// A store in memory, gone when dropped.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn memory() -> Result<Self, Error> {
        let store = "memory".to_owned();
        let mut connection = file::memory().map_err(|error| fault::explain(&error, &store))?;
        schema::migrate(&mut connection, &store)?;
        let options = Options { durability: Durability::None };
        Self::start(connection, options, Queue::new(None), store, None)
    }

    fn start(
        connection: Connection,
        options: Options,
        queue: Queue,
        store: String,
        disk: Option<OnDisk>,
    ) -> Result<Self, Error> {
        let queue = Arc::new(queue);
        let log = disk.as_ref().map(|disk| disk.log.clone());
        let writer = spawn("duetime-writer", {
            let (queue, log, store) = (queue.clone(), log.clone(), store.clone());
            move || Writer::new(connection, store, options.durability, log).run(&queue)
        })?;
        let (pool, others, lock) = match disk {
            Some(OnDisk { pool, others, lock, .. }) => (Some(pool), others, Some(lock)),
            None => (None, Vec::new(), None),
        };
        let threads = Mutex::new(Some(Threads { writer, others, _lock: lock }));
        Ok(Self { queue, pool, log, threads, store })
    }

    /// Copies the store, while it keeps working, to a file that can be opened in its place. An earlier backup of that name
    /// is replaced. During the copy the write-ahead log grows by everything that is written.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the target cannot be written or is not a backup; [`Error::Full`].
    pub async fn backup(&self, to: &Path) -> Result<(), Error> {
        let to: PathBuf = to.to_owned();
        match &self.pool {
            Some(_) => self.read(move |connection| backup::backup(connection, &to)).await,
            None => Err(Error::Unusable("a store in memory cannot be backed up: it exists only in its process".into())),
        }
    }

    /// Calls this function in the writer's next transaction. The function may be called again, and must then do the same.
    async fn write<T, F>(&self, rows: usize, payload_bytes: usize, function: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Transaction<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.queue.call(rows, payload_bytes, function).await
    }

    /// Calls this function with a connection that sees everything acknowledged so far.
    async fn read<T, F>(&self, function: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        match &self.pool {
            Some(pool) => pool.call(function).await,
            None => self.write(1, 0, move |transaction| function(transaction.connection)).await,
        }
    }
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.queue.close();
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(threads) = threads {
            end(threads, &self.queue, self.pool.as_deref(), self.log.as_deref(), false);
        }
    }
}

/// Waits for the threads of a closed queue, and releases the file.
fn end(threads: Threads, queue: &Queue, pool: Option<&Pool>, log: Option<&Log>, empties_log: bool) {
    let connection = threads.writer.join();
    if connection.is_ok() {
        queue.empty_journal();
    }
    if let Some(pool) = pool {
        pool.close();
    }
    if let Some(log) = log {
        log.close();
    }
    for thread in threads.others {
        // A panicked thread has already reported it.
        let _ = thread.join();
    }
    let Ok(connection) = connection else { return };
    if log.is_none() {
        return;
    }
    if empties_log {
        if let Err(error) = log::empty(&connection) {
            tracing::warn!(%error, "the write-ahead log could not be copied into the store; the next start recovers from it");
            keep_log(&connection);
        }
    } else {
        keep_log(&connection);
    }
}

/// Makes a connection close without copying the log, which may take long.
fn keep_log(connection: &Connection) {
    if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::debug!(%error, "copying the write-ahead log before closing the store");
    }
}

#[cfg(test)]
mod plans;
