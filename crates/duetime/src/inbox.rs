//! Push within an SQL transaction of the application's own: a row in the inbox of the ledger.
//!
//! The job exists if the transaction is committed, and only then. A server, or a client with a ledger, that uses the same
//! database usually finds it within a tenth of a second of the commit. Only the right to insert into `duetime_inbox` is needed.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # async fn example(mut connection: tokio_postgres::Client, order: i64) -> Result<(), Box<dyn std::error::Error>> {
//! # #[derive(serde::Serialize, serde::Deserialize)]
//! # struct CancelUnpaid { order: i64 }
//! # impl duetime::Kind for CancelUnpaid { const KIND: &'static str = "order.cancel"; }
//! use duetime::{Due, NewJob, inbox};
//!
//! let mut transaction = connection.transaction().await?;
//! transaction.execute("INSERT INTO orders (id) VALUES ($1)", &[&order]).await?;
//! let job = NewJob { due: Due::After(30 * 60_000), ..duetime::new_job(&CancelUnpaid { order })? };
//! inbox::push_in(&mut transaction, &job).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```

use crate::error::Error;
use duetime_core::api::Push;
use duetime_core::limits::PAYLOAD_BYTES_MAX;
use duetime_core::{Due, JobId, NewJob, Payload};
use std::sync::Arc;

/// A row of `duetime_inbox`, as its columns are called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The queue.
    pub queue: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The payload: in PostgreSQL the column `payload_bytes`.
    pub payload: Payload,
    /// When it is due, in milliseconds since 1970.
    pub due_at: Option<i64>,
    /// In place of that, milliseconds from the insertion.
    pub delay_ms: Option<i64>,
    /// The key.
    pub job_key: Option<Arc<str>>,
    /// The tags, as JSON.
    pub tags: Option<String>,
    /// The priority.
    pub priority: i64,
    /// What else the job says, as JSON.
    pub options: Option<String>,
}

impl Row {
    /// The row of a job.
    ///
    /// # Errors
    /// [`duetime_core::Error::Invalid`] where the job breaks a limit or has its own target. A server may allow smaller payloads than the 64 MiB
    /// that are the limit here: then it keeps the row, with the reason in its column `error`.
    pub fn new(job: &NewJob) -> Result<Self, Error> {
        // Whether an instant is too far ahead is for the server's clock to say.
        let now = if let Due::At(at) = job.due { at } else { 0 };
        job.accept(JobId::MIN, now, PAYLOAD_BYTES_MAX)?;
        duetime_core::engine::check_inbox_target(job)?;
        let json = |text: Result<String, serde_json::Error>| text.map_err(|error| Error::Payload(Arc::new(error)));
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let options = json(serde_json::to_string(&Push::options_of(job)))?;
        Ok(Self {
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            due_at: if let Due::At(at) = job.due { Some(signed(at)) } else { None },
            delay_ms: if let Due::After(delay_ms) = job.due { Some(signed(delay_ms)) } else { None },
            job_key: job.key.clone(),
            tags: (!job.tags.is_empty()).then(|| json(serde_json::to_string(&job.tags))).transpose()?,
            priority: job.priority.into(),
            options: Some(options).filter(|options| options != "{}"),
        })
    }
}

/// A transaction that can insert a row: those of `tokio_postgres` and `mysql_async` do (features `postgres`, `mysql`).
/// For another driver implement it.
pub trait Transaction {
    /// Inserts it.
    ///
    /// # Errors
    /// [`Error::Sql`].
    fn insert(&mut self, row: Row) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Pushes a job within a transaction: the job exists once the transaction is committed. A delay counts from this call.
///
/// The inserter is not told about key conflicts. If the key is held, `on_conflict` decides: the row is dropped, replaces
/// the values of the holder, or stays with the reason in its column `error`.
///
/// # Errors
/// Where the job breaks a limit; [`Error::Sql`] where the database refuses the row.
pub async fn push_in<T: Transaction>(transaction: &mut T, job: &NewJob) -> Result<(), Error> {
    transaction.insert(Row::new(job)?).await
}

#[cfg(feature = "postgres")]
impl Transaction for tokio_postgres::Transaction<'_> {
    async fn insert(&mut self, row: Row) -> Result<(), Error> {
        const INSERT: &str = "INSERT INTO duetime_inbox (queue, kind, payload_bytes, due_at, delay_ms, job_key, tags, \
             priority, options) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let Row { queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options } = row;
        let (queue, kind, payload, job_key) = (&*queue, &*kind, &*payload, job_key.as_deref());
        self.execute(INSERT, &[&queue, &kind, &payload, &due_at, &delay_ms, &job_key, &tags, &priority, &options])
            .await
            .map(drop)
            .map_err(|error| {
                let said = error.as_db_error().map(|said| said.message().to_owned());
                Error::Sql(said.unwrap_or_else(|| error.to_string()))
            })
    }
}

#[cfg(feature = "mysql")]
impl Transaction for mysql_async::Transaction<'_> {
    async fn insert(&mut self, row: Row) -> Result<(), Error> {
        use mysql_async::prelude::Queryable as _;
        const INSERT: &str = "INSERT INTO duetime_inbox (queue, kind, payload, due_at, delay_ms, job_key, tags, \
             priority, options) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let Row { queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options } = row;
        let (queue, kind, payload) = (queue.as_bytes(), kind.as_bytes(), &*payload);
        let job_key = job_key.as_ref().map(|key| key.as_bytes());
        self.exec_drop(INSERT, (queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options))
            .await
            .map_err(|error| Error::Sql(error.to_string()))
    }
}
