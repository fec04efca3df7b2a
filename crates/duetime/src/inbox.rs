//! Pushes jobs within an SQL transaction of the application, through an inbox table in its database.
//!
//! The job exists if and only if the transaction is committed. It is one `INSERT`, with whatever crate the application uses:
//!
//! | the application uses | the jobs are kept | the inbox |
//! |---|---|---|
//! | PostgreSQL, MySQL, MariaDB | on a server with a [ledger](crate::ConnectOptions::ledger) in that database | is in the ledger |
//! | its own SQLite file | in a store of this process | is made in that file by [`OpenOptions::inbox`](crate::OpenOptions::inbox) |
//!
//! A committed row is usually a job within a tenth of a second. In PostgreSQL and MySQL the database user only needs the right to
//! insert into `duetime_inbox`.
//!
//! # In a transaction
//! [`Push::push_in`](crate::Push::push_in) takes transactions of `tokio_postgres` and `mysql_async` (features `postgres` and `mysql`), and
//! others for which you implement [`Transaction`]:
//!
//! ```no_run
//! # #[cfg(all(feature = "derive", feature = "postgres"))]
//! # mod example {
//! # use duetime::prelude::*;
//! # #[derive(Serialize, Deserialize, Job)]
//! # #[job(kind = "order.cancel")]
//! # struct CancelUnpaid { order: i64 }
//! # async fn example(mut connection: tokio_postgres::Client, order: i64) -> Result<(), Box<dyn std::error::Error>> {
//! use duetime::Push;
//!
//! let mut transaction = connection.transaction().await?;
//! transaction.execute("INSERT INTO orders (id) VALUES ($1)", &[&order]).await?;
//! Push::of(&CancelUnpaid { order }).after(Duration::from_secs(30 * 60)).push_in(&mut transaction).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! # With any other crate
//! [`Push::row`](crate::Push::row) returns the values for [`INSERT_POSTGRES`], [`INSERT_MYSQL`] or [`INSERT_SQLITE`]. With rusqlite:
//!
//! ```ignore
//! transaction.execute(inbox::INSERT_SQLITE, Push::of(&job).row()?.values())?;
//! ```
//!
//! With sqlx 0.8 or 0.9, whatever the database:
//!
//! ```ignore
//! let row = Push::of(&job).after(delay).row()?;
//! duetime::bind_row!(sqlx::query(inbox::INSERT_SQLITE), row).execute(&mut *transaction).await?;
//! ```
//!
//! With SeaORM, or another crate that has one type for all values:
//!
//! ```ignore
//! let values = Push::of(&job).row()?.values_as::<sea_orm::Value>();
//! transaction.execute(Statement::from_sql_and_values(DbBackend::Sqlite, inbox::INSERT_SQLITE, values)).await?; // 2: execute_raw
//! ```
//!
//! # Conflicts
//! A delay counts from the insertion. The inserter is not told about key conflicts. If the key is held, `on_conflict` decides: the row
//! is dropped, starts the holder anew, or stays with the reason in its column `error`.

use crate::error::Error;
use crate::job_type::JobType;
use crate::push::{Push, new_job};
use duetime_core::api::Push as Body;
use duetime_core::limits::PAYLOAD_BYTES_MAX;
use duetime_core::{Due, JobId, NewJob};

/// Inserts a row in PostgreSQL. Its parameters are the [values](Row::values) of a row.
pub const INSERT_POSTGRES: &str = "INSERT INTO duetime_inbox (queue, kind, payload_bytes, due_at, delay_ms, job_key, tags, \
     priority, options) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
/// The same in MySQL and MariaDB.
pub const INSERT_MYSQL: &str = "INSERT INTO duetime_inbox (queue, kind, payload, due_at, delay_ms, job_key, tags, \
     priority, options) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
/// The same in SQLite.
pub const INSERT_SQLITE: &str = INSERT_MYSQL;

/// Creates the inbox in a SQLite database of the application, if there is none. [`OpenOptions::inbox`](crate::OpenOptions::inbox) does it;
/// use it for migrations that run before. Rows need only `payload`; `options` and `tags` are JSON.
#[cfg(feature = "embedded")]
pub const CREATE_SQLITE: &str = duetime_store::sqlite::CREATE_INBOX;

/// A row of `duetime_inbox`: its [values](Self::values) are the parameters of an `INSERT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    queue: String,
    kind: String,
    payload: Vec<u8>,
    due_at: Option<i64>,
    delay_ms: Option<i64>,
    job_key: Option<String>,
    tags: Option<String>,
    priority: i64,
    options: Option<String>,
}

/// The [values](Row::values) of a row, in the order of its columns: `queue`, `kind`, `payload` (in PostgreSQL `payload_bytes`), `due_at` in
/// milliseconds since 1970, or `delay_ms` from the insertion, `job_key`, `tags` as JSON, `priority`, and all other `options` as JSON.
pub type Values =
    (String, String, Vec<u8>, Option<i64>, Option<i64>, Option<String>, Option<String>, i64, Option<String>);

impl Row {
    /// Returns the row of a job.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the job exceeds a limit or has its own target. The payload limit here is 64 MiB.
    /// If a server allows less, it keeps the row, with the reason in its column `error`.
    pub fn new(job: &NewJob) -> Result<Self, Error> {
        // Only the server's clock can tell whether an instant is too far ahead.
        let now = if let Due::At(at) = job.due { at.0 } else { 0 };
        job.accept(JobId::MIN, now, PAYLOAD_BYTES_MAX)?;
        duetime_core::engine::check_inbox_target(job)?;
        let json = |text: Result<String, serde_json::Error>| text.map_err(Error::payload);
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let options = json(serde_json::to_string(&Body::options_of(job)))?;
        Ok(Self {
            queue: job.queue.to_string(),
            kind: job.kind.to_string(),
            payload: job.payload.to_vec(),
            due_at: if let Due::At(at) = job.due { Some(signed(at.0)) } else { None },
            delay_ms: if let Due::After(delay) = job.due { Some(signed(delay.0)) } else { None },
            job_key: job.key.as_deref().map(str::to_owned),
            tags: (!job.tags.is_empty()).then(|| json(serde_json::to_string(&job.tags))).transpose()?,
            priority: job.priority.into(),
            options: Some(options).filter(|options| options != "{}"),
        })
    }

    /// Its values, in the order of the parameters of an `INSERT`.
    pub fn values(self) -> Values {
        let Self { queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options } = self;
        (queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options)
    }

    /// The same as one type, for crates with a type for all values, such as `sea_orm::Value`.
    pub fn values_as<V>(self) -> [V; 9]
    where
        V: From<String> + From<Vec<u8>> + From<i64> + From<Option<i64>> + From<Option<String>>,
    {
        let Self { queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options } = self;
        let (queue, kind, payload, priority) = (queue.into(), kind.into(), payload.into(), priority.into());
        [queue, kind, payload, due_at.into(), delay_ms.into(), job_key.into(), tags.into(), priority, options.into()]
    }
}

/// Binds the values of a [`Row`] to a query that has a method `bind`, such as `sqlx::query(inbox::INSERT_POSTGRES)`.
#[macro_export]
macro_rules! bind_row {
    ($query:expr, $row:expr $(,)?) => {{
        let (queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options) =
            $crate::inbox::Row::values($row);
        let query = $query.bind(queue).bind(kind).bind(payload).bind(due_at).bind(delay_ms);
        query.bind(job_key).bind(tags).bind(priority).bind(options)
    }};
}

/// A transaction that can insert a row. It is implemented for those of `tokio_postgres` and `mysql_async` (features
/// `postgres` and `mysql`). For another driver implement it yourself.
pub trait Transaction {
    /// Inserts the row.
    ///
    /// # Errors
    /// [`Database`](crate::ErrorKind::Database).
    fn insert(&mut self, row: Row) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A [`Push`] that goes into a transaction and needs no client.
#[derive(Clone, Copy, Debug)]
pub struct Unsent;

impl Push<Unsent> {
    /// Begins a push of a typed job without a client, for a transaction of the application.
    pub fn of<J: JobType>(job: &J) -> Self {
        Self::new(Unsent, new_job(job))
    }
}

impl From<NewJob> for Push<Unsent> {
    fn from(job: NewJob) -> Self {
        Self::new(Unsent, Ok(job))
    }
}

impl<To> Push<To> {
    /// Pushes the job within a transaction: it exists once the transaction is committed. A delay counts from this call.
    ///
    /// # Errors
    /// If the job exceeds a limit; [`Database`](crate::ErrorKind::Database) if the database refuses the row.
    pub async fn push_in<T: Transaction>(self, transaction: &mut T) -> Result<(), Error> {
        let row = self.row()?;
        transaction.insert(row).await
    }

    /// Returns the row to insert instead, for any other crate.
    ///
    /// # Errors
    /// If the job exceeds a limit.
    pub fn row(self) -> Result<Row, Error> {
        let job = self.build()?;
        #[cfg(feature = "otel")]
        let [job] = crate::otel::traced([job]);
        Row::new(&job)
    }
}

#[cfg(feature = "postgres")]
impl Transaction for tokio_postgres::Transaction<'_> {
    async fn insert(&mut self, row: Row) -> Result<(), Error> {
        let Row { queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options } = row;
        self.execute(
            INSERT_POSTGRES,
            &[&queue, &kind, &payload, &due_at, &delay_ms, &job_key, &tags, &priority, &options],
        )
        .await
        .map(drop)
        .map_err(|error| {
            let said = error.as_db_error().map(|said| said.message().to_owned());
            Error::sql(said, error)
        })
    }
}

#[cfg(feature = "mysql")]
impl Transaction for mysql_async::Transaction<'_> {
    async fn insert(&mut self, row: Row) -> Result<(), Error> {
        use mysql_async::prelude::Queryable as _;
        self.exec_drop(INSERT_MYSQL, row.values()).await.map_err(|error| Error::sql(None, error))
    }
}
