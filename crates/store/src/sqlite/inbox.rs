//! An inbox in a SQLite file of the application: rows that it inserts in its own transactions, on their way to the jobs of a
//! store in another file.
//!
//! The two files cannot share a transaction. So a row has an origin, which its job gets: the job is recorded first, then the row is
//! deleted. If the process dies in between, the next one meets the row again, and the ledger knows its origin. One store reads an
//! inbox. The application's file is locked only while rows are deleted, once for each page.
//!
//! One thread has the connection. It looks whether the file has changed (`PRAGMA data_version`), which reads no page of it.

use super::Sqlite;
use super::fault;
use super::file::BUSY_WAIT;
use super::number::Number;
use super::threads::spawn;
use async_trait::async_trait;
use duetime_core::Error;
use duetime_core::limits::PAYLOAD_BYTES_MAX;
use duetime_core::ports::{Admitted, INBOX_BYTES_MAX, INBOX_TEXT_MAX, Inbox, InboxRow, Ledger, Verdict};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, TransactionBehavior};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// Creates the table of an inbox in a SQLite database, if it does not exist. An `options` or `tags` is JSON, as in the inbox of a
/// SQL server. `error` says why a row was refused.
pub const CREATE_INBOX: &str = include_str!("inbox.sql");

/// Rows that were never refused. A column may hold any type, and a value beyond every limit is not read in full.
const ROWS: &str = "SELECT id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - CAST(created_at AS INTEGER), \
     substr(queue, 1, 1048577), substr(kind, 1, 1048577), substr(CAST(payload AS BLOB), 1, 67108865), CAST(due_at AS INTEGER), \
     CAST(delay_ms AS INTEGER), substr(job_key, 1, 1048577), substr(tags, 1, 1048577), CAST(priority AS INTEGER), \
     substr(options, 1, 1048577), origin FROM duetime_inbox WHERE error IS NULL AND id > ?1 ORDER BY id LIMIT ?2";
const _: () = assert!(INBOX_TEXT_MAX + 1 == 1_048_577 && PAYLOAD_BYTES_MAX + 1 == 67_108_865);

type Work = Box<dyn FnOnce(&mut InboxFile) + Send>;

/// The inbox of a store.
pub(crate) struct FileInbox {
    ledger: Arc<Sqlite>,
    /// To the thread, which ends when this is dropped.
    work: Sender<Work>,
}

impl FileInbox {
    /// Opens the inbox in this file, and creates its table if it is missing.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is no such file, it is not a database of the application, or it cannot be written;
    /// [`Error::Unavailable`] if it stays locked.
    pub(crate) fn open(path: &Path, ledger: Arc<Sqlite>) -> Result<Self, Error> {
        // Only SQLite may open the file: closing it in any other way would release the locks of the application.
        if !path.is_file() {
            return Err(Error::Unusable(format!(
                "the inbox {path:?} does not exist: open your application's database before the store, or correct its path"
            )));
        }
        let mut watched = InboxFile { path: path.canonicalize().unwrap_or_else(|_| path.to_owned()), open: None };
        if watched.path == Path::new(&ledger.store) {
            return Err(Error::Unusable(format!(
                "the inbox {path:?} is the store: name your application's own database"
            )));
        }
        let created = watched.current()?.connection.execute_batch(CREATE_INBOX);
        created.map_err(|error| watched.told(&error))?;
        let (work, waiting): (Sender<Work>, Receiver<Work>) = channel();
        spawn("duetime-inbox", move || waiting.iter().for_each(|work| work(&mut watched)))?;
        Ok(Self { ledger, work })
    }

    /// Calls this function on the thread.
    async fn call<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut InboxFile) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let work = move |watched: &mut InboxFile| drop(reply.send(function(watched)));
        self.work.send(Box::new(work)).map_err(|_| Error::Stopping)?;
        answer.await.map_err(|_| Error::Unavailable("the thread duetime-inbox ended unexpectedly".to_owned()))?
    }
}

#[async_trait]
impl Inbox for FileInbox {
    async fn waiting(&self, after: i64, limit: usize) -> Result<Vec<InboxRow>, Error> {
        self.call(move |watched| watched.waiting(after, limit)).await
    }

    /// In two transactions, that of the jobs first.
    async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
        let jobs: Vec<_> = verdicts
            .iter()
            .filter_map(|(_, verdict)| if let Verdict::Record(job) = verdict { Some((**job).clone()) } else { None })
            .collect();
        // Filed for the loader, in case this process dies before the job is put.
        let recorded = if jobs.is_empty() { Vec::new() } else { self.ledger.record(jobs, 0).await? };
        let mut recorded = recorded.into_iter();
        let (mut ended, mut admitted) = (Vec::new(), Vec::with_capacity(verdicts.len()));
        for (number, verdict) in verdicts {
            let (answer, reason) = match verdict {
                Verdict::Record(_) => (recorded.next().map_or(Admitted::Gone, Admitted::Recorded), None),
                Verdict::Refuse(reason) => (Admitted::Done, Some(reason)),
                Verdict::Remove => (Admitted::Done, None),
            };
            if answer.is_done() {
                ended.push((number, reason));
            }
            admitted.push(answer);
        }
        // Nobody waits for it: the file may be locked, and the jobs are to run. The next reading comes after it.
        let _ = self.work.send(Box::new(move |watched| watched.end(ended)));
        Ok(admitted)
    }
}

/// The file of the application.
struct InboxFile {
    path: PathBuf,
    open: Option<OpenFile>,
}

/// The file that was found at the path, as long as it is there.
struct OpenFile {
    connection: Connection,
    /// Device and number of the file.
    identity: (u64, u64),
    /// The version of its content in which no row waited.
    empty_at: Option<i64>,
    /// Rows to delete, or to mark with this reason.
    ended: Vec<(i64, Option<String>)>,
}

impl InboxFile {
    /// The open file. It is opened again if another one has taken its place.
    fn current(&mut self) -> Result<&mut OpenFile, Error> {
        let found = std::fs::metadata(&self.path).map_err(|error| {
            self.open = None;
            Error::Unavailable(format!("the inbox {:?} cannot be found ({error}): put it back in its place", self.path))
        })?;
        let identity = (found.dev(), found.ino());
        if self.open.as_ref().is_none_or(|open| open.identity != identity) {
            self.open = None;
            let connection = connect(&self.path).map_err(|error| self.told(&error))?;
            self.open = Some(OpenFile { connection, identity, empty_at: None, ended: Vec::new() });
        }
        Ok(self.open.as_mut().expect("it has just been opened"))
    }

    fn waiting(&mut self, after: i64, limit: usize) -> Result<Vec<InboxRow>, Error> {
        let outcome = self.current()?.waiting(after, limit);
        outcome.map_err(|error| self.told(&error))
    }

    /// Deletes and marks rows. This cannot fail, since their jobs may be recorded: what cannot be written now is written before rows are
    /// read again. If the file is another one by then, a row that is met again is known.
    fn end(&mut self, rows: Vec<(i64, Option<String>)>) {
        let Some(open) = &mut self.open else { return };
        open.ended.extend(rows);
        if let Err(error) = open.write() {
            tracing::debug!(%error, "rows of the inbox are deleted later");
        }
    }

    fn told(&self, error: &rusqlite::Error) -> Error {
        let name = format!("the inbox {:?}", self.path);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Unavailable(format!(
                "{name} is locked for longer than {} s ({error}): commit transactions of your application sooner",
                BUSY_WAIT.as_secs()
            )),
            Some(ErrorCode::NotADatabase) => {
                Error::Unusable(format!("{name} is not a SQLite database: name your application's own"))
            }
            Some(ErrorCode::DatabaseCorrupt) => {
                Error::Unavailable(format!("{name} is damaged ({error}): restore your application's database"))
            }
            _ => fault::explain(error, &name),
        }
    }
}

impl OpenFile {
    fn waiting(&mut self, after: i64, limit: usize) -> rusqlite::Result<Vec<InboxRow>> {
        self.write()?;
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if self.empty_at == Some(version) {
            return Ok(Vec::new());
        }
        let mut statement = self.connection.prepare_cached(ROWS)?;
        let mut rows = statement.query((after, Number(limit as u64)))?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let row = inbox_row(row)?;
            bytes += row.payload.len()
                + row.options.as_ref().map_or(0, String::len)
                + row.tags.as_ref().map_or(0, String::len);
            found.push(row);
            if bytes >= INBOX_BYTES_MAX {
                break;
            }
        }
        self.empty_at = (found.is_empty() && after == i64::MIN).then_some(version);
        Ok(found)
    }

    /// Deletes and marks the rows that have ended.
    fn write(&mut self) -> rusqlite::Result<()> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (number, reason) in &self.ended {
            match reason {
                None => transaction.prepare_cached("DELETE FROM duetime_inbox WHERE id = ?1")?.execute([number])?,
                Some(reason) => transaction
                    .prepare_cached("UPDATE duetime_inbox SET error = ?2 WHERE id = ?1")?
                    .execute((number, reason))?,
            };
        }
        transaction.commit()?;
        self.ended.clear();
        Ok(())
    }
}

fn inbox_row(row: &Row<'_>) -> rusqlite::Result<InboxRow> {
    // An invalid value here is not an error of this read.
    let bytes = |column| {
        row.get_ref(column).map(|value| match value {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
        })
    };
    let said =
        |column| Ok::<_, rusqlite::Error>(bytes(column)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
    let age_ms: Option<i64> = row.get(1)?;
    Ok(InboxRow {
        number: row.get(0)?,
        age_ms: age_ms.and_then(|age_ms| u64::try_from(age_ms).ok()).unwrap_or(0),
        queue: said(2)?.unwrap_or_default(),
        kind: said(3)?.unwrap_or_default(),
        payload: bytes(4)?.unwrap_or_default().into(),
        due_at: row.get(5)?,
        delay_ms: row.get(6)?,
        key: said(7)?,
        tags: said(8)?,
        priority: row.get(9)?,
        options: said(10)?,
        origin: said(11)?,
    })
}

/// A connection to the application's file. Nothing of the file is changed.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode == "wal" {
        // A row that comes back after a power failure is known by its origin.
        connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    }
    Ok(connection)
}
