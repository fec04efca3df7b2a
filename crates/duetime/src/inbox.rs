//! Pushes jobs within an SQL transaction of the application, through the inbox table of the ledger.
//!
//! The job exists if and only if the transaction is committed. A server, or a client with a ledger, that uses the same
//! database usually finds it within a tenth of a second of the commit. The database user only needs the right to insert into
//! `duetime_inbox`.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # async fn example(mut connection: tokio_postgres::Client, order: i64) -> Result<(), Box<dyn std::error::Error>> {
//! # #[derive(serde::Serialize, serde::Deserialize)]
//! # struct CancelUnpaid { order: i64 }
//! # impl duetime::JobType for CancelUnpaid { const KIND: &'static str = "order.cancel"; }
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

/// A row of `duetime_inbox`, with its columns as fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The queue.
    pub queue: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The payload; in PostgreSQL the column is `payload_bytes`.
    pub payload: Payload,
    /// When it is due, in milliseconds since 1970.
    pub due_at: Option<i64>,
    /// A delay instead, in milliseconds from the insertion.
    pub delay_ms: Option<i64>,
    /// The key.
    pub job_key: Option<Arc<str>>,
    /// The tags, as JSON.
    pub tags: Option<String>,
    /// The priority.
    pub priority: i64,
    /// All other options of the job, as JSON.
    pub options: Option<String>,
}

impl Row {
    /// Returns the row of a job.
    ///
    /// # Errors
    /// [`duetime_core::Error::Invalid`] if the job exceeds a limit or has its own target. The payload limit here is 64 MiB.
    /// If a server allows less, it keeps the row, with the reason in its column `error`.
    pub fn new(job: &NewJob) -> Result<Self, Error> {
        // Only the server's clock can tell whether an instant is too far ahead.
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

/// A transaction that can insert a row. It is implemented for those of `tokio_postgres` and `mysql_async` (features
/// `postgres` and `mysql`). For another driver implement it yourself.
pub trait Transaction {
    /// Inserts the row.
    ///
    /// # Errors
    /// [`Error::Sql`].
    fn insert(&mut self, row: Row) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Pushes a job within a transaction: the job exists once the transaction is committed. A delay counts from this call.
///
/// The inserter is not told about key conflicts. If the key is held, `on_conflict` decides: the row is dropped, starts
/// the holder anew, or stays with the reason in its column `error`.
///
/// # Errors
/// If the job exceeds a limit; [`Error::Sql`] if the database refuses the row.
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
