//! The store's file: checks before it is opened, and the setup of connections. Only the header of the file is read, whatever
//! its size.

use super::durability;
use super::fault::{self, advice};
use super::number::Numbers;
use crate::private;
use duetime_core::Error;
use nix::sys::statvfs::statvfs;
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Page size of a new file. 8192 was not faster (`examples/store_throughput.rs`) and doubles the cost of a single job.
pub(super) const PAGE_BYTES: u32 = 4096;
/// Page cache of the writer: 8 MiB. After every commit that has split a page within a tree, SQLite scans its whole cache. At
/// 64 MiB that doubled the cost of small transactions, and the operating system caches too.
const WRITER_CACHE_KIB: u32 = 8 << 10;
/// Page cache of each reader.
const READER_CACHE_KIB: u32 = 4 << 10;
/// How long to wait for a lock that another program holds, such as the `sqlite3` shell.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Size to which SQLite truncates the WAL file when it restarts the log: a little more than it usually has, since growing a file again costs time.
const WAL_BYTES_KEPT: u32 = 160 << 20;
/// Prepared statements cached for each connection.
const STATEMENTS_KEPT: usize = 64;

/// The file's canonical path, so that one file has one lock.
pub(super) fn locate(path: &Path) -> Result<PathBuf, Error> {
    let name = path.file_name().ok_or_else(|| {
        Error::Unusable(format!("{path:?} is not the name of a file: name one, such as \"duetime.db\""))
    })?;
    if path.is_dir() {
        return Err(Error::Unusable(format!("{path:?} is a folder: name a file in it, such as \"duetime.db\"")));
    }
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Error::Unusable(format!("the folder {folder:?} does not exist: create it, or name a file elsewhere"))
        }
        _ => Error::Unusable(format!("the folder {folder:?} cannot be read ({error}): give this user read access")),
    })?;
    Ok(folder.join(name))
}

/// The path with this suffix.
pub(super) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(suffix);
    PathBuf::from(name)
}

/// Checks that the file, if it exists, starts like an SQLite file; SQLite itself checks the length given in the header.
/// Called before SQLite opens the file, because SQLite would treat a truncated one as new.
pub(super) fn check_head(path: &Path) -> Result<(), Error> {
    const HEAD_BYTES: usize = 100;
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let unreadable = |error: std::io::Error| {
        Error::Unusable(format!("{path:?} cannot be read ({error}): give this user read and write access"))
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    };
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes == 0 {
        return Ok(());
    }
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
    let damaged = |what: String| Err(Error::Damaged(format!("{what}; {}", advice(&format!("{path:?}")))));
    let magic = &MAGIC[..MAGIC.len().min(head.len())];
    if head.iter().all(|&byte| byte == 0) {
        return damaged(format!("{path:?} begins with zeros in place of the header of an SQLite file"));
    }
    if !head.starts_with(magic) {
        return Err(Error::Unusable(format!(
            "{path:?} is not an SQLite file: name another file, or restore a backup if it was a store"
        )));
    }
    if head.len() < HEAD_BYTES {
        return damaged(format!("{path:?} is cut off: it has only {bytes} bytes"));
    }
    Ok(())
}

/// Creates the file if it does not exist; SQLite gives its companion files the same mode. Called while the store's lock is
/// held: closing an SQLite file releases all locks that this process holds on it.
pub(super) fn create(path: &Path) -> Result<(), Error> {
    match private::create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::Unusable(format!("cannot create {path:?} ({error}): give this user write access to its folder")))
        }
        _ => Ok(()),
    }
}

/// The connection that writes. It writes nothing yet.
pub(super) fn writer(path: &Path, synchronous: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare_writer(&connection, synchronous)?;
    Ok(connection)
}

/// The only connection of a store in memory.
pub(super) fn memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    prepare_writer(&connection, durability::OFF)?;
    Ok(connection)
}

fn prepare_writer(connection: &Connection, synchronous: &str) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.execute_batch(&format!(
        "PRAGMA cache_size = -{WRITER_CACHE_KIB}; PRAGMA journal_size_limit = {WAL_BYTES_KEPT};
         PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; {};",
        synchronous
    ))
}

/// Sets the permanent properties of a file that is new, or known to be a store, before its first table.
pub(super) fn found(connection: &Connection, store: &str) -> Result<(), Error> {
    let told = |error: rusqlite::Error| fault::explain(&error, store);
    let pages = connection.query_row("PRAGMA page_count", [], |row| row.number(0)).map_err(told)?;
    if pages == 0 {
        connection
            .execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL;"))
            .map_err(told)?;
    }
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(told)?;
    if mode != "wal" {
        return Err(Error::Unusable(format!(
            "{store} cannot have a write-ahead log (its mode stays {mode}): name a file on a local disk"
        )));
    }
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").map_err(told)
}

/// A read-only connection.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.execute_batch(&format!(
        "PRAGMA cache_size = -{READER_CACHE_KIB}; PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;"
    ))?;
    open_log(&connection)?;
    Ok(connection)
}

/// A connection to a file that no process has open and that has no log: it makes no files beside it.
pub(super) fn closed(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let escaped: String = path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("%{byte:02X}")).collect();
    let connection = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)?;
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;")?;
    Ok(connection)
}

/// The connection that checkpoints.
pub(super) fn checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL;")?;
    open_log(&connection)?;
    Ok(connection)
}

/// Makes SQLite open the write-ahead log and its index, which it does with the first reading.
fn open_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA schema_version", [], |_| Ok(()))
}

/// The free bytes of the disk that this file or folder is on; `None` if the system does not tell.
pub fn free_bytes(path: &Path) -> Option<u64> {
    room(path).map(|(free, _)| free)
}

/// The free bytes of the disk that this file or folder is on, and all that it has.
fn room(path: &Path) -> Option<(u64, u64)> {
    let disk = statvfs(path).ok()?;
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "other widths on other systems")]
    let bytes = |blocks| (blocks as u64).saturating_mul(disk.fragment_size() as u64);
    Some((bytes(disk.blocks_available()), bytes(disk.blocks())))
}

/// The disk of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    /// Free bytes.
    pub(super) free: u64,
    /// Bytes that it has in all.
    pub(super) all: u64,
    /// Bytes by which the file grows when the log is copied into it: its pages in the log that lie beyond its end.
    pub(super) growth: u64,
    /// The bytes of the store's content.
    pub(super) used: u64,
}

/// The disk of an open store; `None` if the system does not tell.
pub(super) fn disk(connection: &Connection) -> rusqlite::Result<Option<Disk>> {
    let Some(path) = connection.path().map(Path::new) else { return Ok(None) };
    let number = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.number(0));
    let bytes = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
    let (Ok(file), Some((free, all))) = (fs::metadata(path), room(path)) else { return Ok(None) };
    Ok(Some(Disk { free, all, used: bytes, growth: bytes.saturating_sub(file.len()) }))
}
