//! A connection and its statements.

use super::rows::{self, urgency};
use super::statements::{self as sql, Bulk, SIZES};
use crate::sql::{Changed, Fault, Head, Held, Hit, Inserted, Key, Session, Stream, list, number, signed};
use crate::sums::Sums;
use async_trait::async_trait;
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Cursor, Document, InboxRow, LeaseNote, OverflowDue, Queues, Window};
use duetime_core::{Job, JobId, Millis, Stage};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes of one statement, well below what a server takes (16 MiB by default in MariaDB).
const STATEMENT_BYTES: usize = 4 << 20;

/// A connection, borrowed from the pool.
pub(super) struct Connection {
    connection: Option<Conn>,
    is_held: bool,
}

impl Connection {
    pub(super) fn new(connection: Conn) -> Self {
        Self { connection: Some(connection), is_held: false }
    }

    fn connection(&mut self) -> Result<&mut Conn, Fault> {
        self.connection.as_mut().ok_or_else(|| Fault::Lost("MySQL: the connection was given back".into()))
    }

    /// Sends one statement without parameters.
    pub(super) async fn send(&mut self, statement: &str) -> Result<(), Fault> {
        Ok(self.connection()?.query_drop(statement).await?)
    }

    /// Asks without preparing, for what is asked once.
    pub(super) async fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Fault> {
        Ok(self.connection()?.query(statement).await?)
    }

    async fn query(&mut self, statement: &str, values: Vec<Value>) -> Result<Vec<Row>, Fault> {
        Ok(self.connection()?.exec(statement, positional(values)).await?)
    }

    async fn execute(&mut self, statement: &str, values: Vec<Value>) -> Result<u64, Fault> {
        let connection = self.connection()?;
        connection.exec_drop(statement, positional(values)).await?;
        Ok(connection.affected_rows())
    }

    /// Runs a statement for all rows, in as many parts as it takes.
    async fn execute_bulk(&mut self, statement: &Bulk, rows: Vec<Vec<Value>>) -> Result<u64, Fault> {
        let mut count = 0;
        for part in parts(rows) {
            let text = statement.text(part.len());
            count += self.execute(&text, part.into_iter().flatten().collect()).await?;
        }
        Ok(count)
    }

    async fn query_bulk(&mut self, statement: &Bulk, rows: Vec<Vec<Value>>) -> Result<Vec<Row>, Fault> {
        let mut found = Vec::new();
        for part in parts(rows) {
            let text = statement.text(part.len());
            found.extend(self.query(&text, part.into_iter().flatten().collect()).await?);
        }
        Ok(found)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_held
            && let Some(connection) = self.connection.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // Closed, not given back.
            runtime.spawn(connection.disconnect());
        }
    }
}

fn positional(values: Vec<Value>) -> Params {
    if values.is_empty() { Params::Empty } else { Params::Positional(values) }
}

/// Rows in parts of sizes that statements are prepared for, none with too many bytes unless one row has.
fn parts(rows: Vec<Vec<Value>>) -> Vec<Vec<Vec<Value>>> {
    let sizes: Vec<usize> = rows.iter().map(|row| row.iter().map(bytes).sum()).collect();
    let (mut parts, mut rows, mut at) = (Vec::new(), rows.into_iter(), 0);
    while at < sizes.len() {
        let fits = |size: &&usize| {
            let end = at + **size;
            end <= sizes.len() && (**size == 1 || sizes[at..end].iter().sum::<usize>() <= STATEMENT_BYTES)
        };
        let size = SIZES.iter().find(fits).copied().unwrap_or(1);
        parts.push(rows.by_ref().take(size).collect());
        at += size;
    }
    parts
}

fn bytes(value: &Value) -> usize {
    if let Value::Bytes(bytes) = value { bytes.len() } else { 0 }
}

fn ids(ids: &[JobId]) -> Vec<Vec<Value>> {
    ids.iter().map(|id| vec![signed(id.get()).into()]).collect()
}

fn places(numbers: &[i64]) -> Vec<Vec<Value>> {
    numbers.iter().map(|&number| vec![number.into()]).collect()
}

fn tags(tags: &[(&str, JobId)]) -> Vec<Vec<Value>> {
    // Sorted, so that transactions meet in the same order.
    let mut tags = tags.to_vec();
    tags.sort_unstable();
    tags.into_iter().map(|(tag, id)| vec![tag.as_bytes().into(), signed(id.get()).into()]).collect()
}

#[async_trait]
impl Session for Connection {
    fn hold(&mut self) {
        self.is_held = true;
    }

    fn release(&mut self) {
        self.is_held = false;
    }

    async fn begin(&mut self) -> Result<(), Fault> {
        self.send("START TRANSACTION").await
    }

    async fn commit(&mut self) -> Result<(), Fault> {
        self.send("COMMIT").await
    }

    async fn rollback(&mut self) -> Result<(), Fault> {
        self.send("ROLLBACK").await
    }

    async fn known(&mut self, ids: &[JobId]) -> Result<Vec<JobId>, Fault> {
        self.query_bulk(&sql::KNOWN, self::ids(ids)).await?.iter().map(rows::id).collect()
    }

    async fn insert(&mut self, rows: &[Inserted<'_>]) -> Result<usize, Fault> {
        // In one order, so that transactions that take the same keys meet in the same order.
        let mut rows = rows.to_vec();
        rows.sort_unstable_by(|a, b| {
            (a.live_key.map(|key| (&a.job.queue, key)), a.job.id)
                .cmp(&(b.live_key.map(|key| (&b.job.queue, key)), b.job.id))
        });
        let (plain, rest): (Vec<_>, Vec<_>) = rows.into_iter().partition(Inserted::is_plain);
        let mut count = self.execute_bulk(&sql::INSERT_PLAIN, plain.iter().map(rows::insert_plain).collect()).await?;
        let values = rest.iter().map(rows::insert).collect::<Result<_, _>>()?;
        count += self.execute_bulk(&sql::INSERT, values).await?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    async fn heads(&mut self, ids: &[JobId]) -> Result<Vec<Head>, Fault> {
        self.query_bulk(&sql::HEADS, self::ids(ids)).await?.iter().map(rows::head).collect()
    }

    async fn jobs(&mut self, ids: &[JobId], locks: bool) -> Result<Vec<Job>, Fault> {
        let statement = if locks { &sql::JOBS_LOCKED } else { &sql::JOBS };
        self.query_bulk(statement, self::ids(ids)).await?.into_iter().map(rows::job).collect()
    }

    async fn holders(&mut self, keys: &[Key]) -> Result<Vec<Held>, Fault> {
        let keys = keys.iter().map(|(queue, key)| vec![queue.as_bytes().into(), key.as_bytes().into()]).collect();
        self.query_bulk(&sql::HOLDERS, keys).await?.iter().map(rows::holder).collect()
    }

    async fn change(&mut self, rows: &[Changed<'_>]) -> Result<(), Fault> {
        let (ends, rest): (Vec<_>, Vec<_>) = rows.iter().copied().partition(Changed::is_plain_end);
        self.execute_bulk(&sql::END, ends.iter().map(rows::end).collect()).await?;
        let values = rest.iter().map(rows::change).collect::<Result<_, _>>()?;
        self.execute_bulk(&sql::CHANGE, values).await?;
        Ok(())
    }

    async fn rewrite(&mut self, jobs: &[&Job]) -> Result<(), Fault> {
        for job in jobs {
            let values = vec![list(&job.tags)?.into(), Value::Bytes(job.payload.to_vec()), signed(job.id.get()).into()];
            self.execute(sql::REWRITE, values).await?;
        }
        Ok(())
    }

    async fn file_near(&mut self, jobs: &[(JobId, u64)]) -> Result<(), Fault> {
        let ids: Vec<JobId> = jobs.iter().map(|(id, _)| *id).collect();
        let wanted: HashSet<(i64, i64)> =
            jobs.iter().map(|&(id, version)| (signed(id.get()), signed(version))).collect();
        let mut same = Vec::new();
        for row in self.query_bulk(&sql::VERSIONS, self::ids(&ids)).await? {
            let found = (rows::whole(&row, 0)?, rows::whole(&row, 1)?);
            if wanted.contains(&found) {
                same.push(vec![found.0.into()]);
            }
        }
        self.execute_bulk(&sql::FILE_NEAR, same).await?;
        Ok(())
    }

    async fn file_by_due(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.execute_bulk(&sql::FILE_BY_DUE, self::ids(ids)).await?;
        Ok(())
    }

    async fn file_over(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.execute_bulk(&sql::FILE_OVER, self::ids(ids)).await?;
        Ok(())
    }

    async fn delete(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.execute_bulk(&sql::DELETE, self::ids(ids)).await?;
        Ok(())
    }

    async fn tag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault> {
        self.execute_bulk(&sql::TAG, self::tags(tags)).await?;
        Ok(())
    }

    async fn untag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault> {
        self.execute_bulk(&sql::UNTAG, self::tags(tags)).await?;
        Ok(())
    }

    async fn lease(&mut self, leases: &[LeaseNote]) -> Result<(), Fault> {
        self.execute_bulk(&sql::LEASE, leases.iter().map(rows::lease).collect()).await?;
        Ok(())
    }

    async fn past(&mut self, stage: Stage, ended_by: Millis, limit: usize) -> Result<Vec<Head>, Fault> {
        let values = vec![stage.code().into(), signed(ended_by).into(), limit.into()];
        self.query(sql::PAST, values).await?.iter().map(rows::head).collect()
    }

    async fn tally(&mut self, changes: &[(Arc<str>, Sums)]) -> Result<(), Fault> {
        let row = |(queue, counts): &(Arc<str>, Sums)| {
            let mut values = vec![queue.as_bytes().into()];
            values.extend(counts.map(Value::from));
            values
        };
        self.execute_bulk(&sql::TALLY, changes.iter().map(row).collect()).await?;
        Ok(())
    }

    async fn tallies(&mut self, queues: &Queues) -> Result<Vec<(Arc<str>, Sums)>, Fault> {
        let rows = match queues {
            Queues::Named(queues) => {
                let names = queues.iter().map(|queue| vec![queue.as_bytes().into()]);
                self.query_bulk(&sql::TALLIES, names.collect()).await?
            }
            Queues::From(from, limit) => {
                let values = vec![from.as_bytes().into(), (*limit).min(STEP_QUEUES_MAX).into()];
                self.query(sql::TALLIES_FROM, values).await?
            }
        };
        let tally = |row: &Row| Ok((rows::shared(row, 0)?, rows::counts(row)?));
        rows.iter().map(tally).collect()
    }

    async fn drop_tallies(&mut self, queues: &[Arc<str>]) -> Result<(), Fault> {
        for queue in queues {
            let mut sums = [0_i64; 4];
            let mut slots = Vec::new();
            for row in self.query(sql::TALLIES_LOCKED, vec![queue.as_bytes().into()]).await? {
                slots.push(rows::whole(&row, 0)?);
                sums.iter_mut().zip(rows::counts::<4>(&row)?).for_each(|(sum, count)| *sum += count);
            }
            // What is removed adds up to nothing, so it does not matter what is added meanwhile in another slot.
            for slot in slots.into_iter().filter(|_| sums == [0; 4]) {
                self.execute(sql::DROP_TALLY, vec![queue.as_bytes().into(), slot.into()]).await?;
            }
        }
        Ok(())
    }

    async fn hits(&mut self, stream: &Stream, after: u64, limit: usize) -> Result<Vec<Hit>, Fault> {
        let (statement, mut values): (_, Vec<Value>) = match stream {
            Stream::All => (sql::ALL, Vec::new()),
            Stream::Queue(queue, stage) => (sql::QUEUE, vec![queue.as_bytes().into(), stage.code().into()]),
            Stream::Key(queue, key) => (sql::KEY, vec![queue.as_bytes().into(), key.as_bytes().into()]),
            Stream::Tag(tag) => (sql::TAGGED, vec![tag.as_bytes().into()]),
        };
        values.extend([signed(after).into(), limit.into()]);
        self.query(statement, values).await?.iter().map(rows::hit).collect()
    }

    async fn waiting(&mut self, after: Cursor, last_bucket: i64, limit: usize) -> Result<Vec<Hit>, Fault> {
        let values = vec![after.bucket.into(), signed(after.id).into(), limit.into()];
        let mut rows = self.query(sql::WAITING_IN, values).await?;
        if rows.len() < limit {
            let values = vec![after.bucket.into(), last_bucket.into(), (limit - rows.len()).into()];
            rows.extend(self.query(sql::WAITING_BEHIND, values).await?);
        }
        rows.iter().map(rows::hit).collect()
    }

    async fn level(&mut self, queue: &str, from: u32) -> Result<Option<u32>, Fault> {
        let values = vec![urgency(queue, from, 0).into(), urgency(queue, u32::MAX, u64::MAX).into()];
        let rows = self.query(sql::LEVEL, values).await?;
        let level = rows.first().map(|row| rows::whole(row, 0)).transpose()?;
        Ok(level.and_then(|level| u32::try_from(level).ok()))
    }

    async fn over(&mut self, queue: &str, priority: u32, due: Window, limit: usize) -> Result<Vec<Hit>, Fault> {
        let bounds = [due.from, due.to].map(|due_at| Value::from(urgency(queue, priority, due_at)));
        let mut values = bounds.to_vec();
        values.push(limit.into());
        self.query(sql::OVER, values).await?.iter().map(rows::hit).collect()
    }

    async fn overflowing(&mut self, after: &str) -> Result<Option<Arc<str>>, Fault> {
        // Behind all rows of that queue, and before those of the next one.
        let after = if after.is_empty() { Vec::new() } else { [after.as_bytes(), &[1]].concat() };
        let rows = self.query(sql::OVERFLOWING, vec![after.into()]).await?;
        rows.first().map(|row| rows::shared(row, 0)).transpose()
    }

    async fn over_due(&mut self, queue: &str, now: Millis) -> Result<OverflowDue, Fault> {
        let bounds = [urgency(queue, 0, 0), urgency(queue, u32::MAX, u64::MAX)].map(Value::from);
        let mut values = bounds.to_vec();
        values.push(now.to_be_bytes().to_vec().into());
        let rows = self.query(sql::OVER_DUE, values).await?;
        let Some(row) = rows.first() else { return Ok(OverflowDue::default()) };
        let jobs = number(rows::whole(row, 0)?)?;
        let oldest_due = if jobs == 0 { None } else { Some(number(rows::whole(row, 1)?)?) };
        Ok(OverflowDue { jobs, oldest_due })
    }

    async fn leased(&mut self) -> Result<Vec<JobId>, Fault> {
        let mut ids: Vec<JobId> =
            self.query(sql::LEASED, Vec::new()).await?.iter().map(rows::id).collect::<Result<_, _>>()?;
        ids.sort_unstable();
        Ok(ids)
    }

    async fn inbox_hits(&mut self, limit: usize) -> Result<Vec<(i64, usize)>, Fault> {
        self.query(sql::INBOX_HITS, vec![limit.into()]).await?.iter().map(rows::inbox_hit).collect()
    }

    async fn inbox_rows(&mut self, numbers: &[i64]) -> Result<Vec<InboxRow>, Fault> {
        self.query_bulk(&sql::INBOX_ROWS, places(numbers)).await?.into_iter().map(rows::inbox_row).collect()
    }

    async fn lock_inbox(&mut self, numbers: &[i64]) -> Result<Vec<i64>, Fault> {
        let rows = self.query_bulk(&sql::LOCK_INBOX, places(numbers)).await?;
        rows.iter().map(|row| rows::whole(row, 0)).collect()
    }

    async fn delete_inbox(&mut self, numbers: &[i64]) -> Result<(), Fault> {
        self.execute_bulk(&sql::DELETE_INBOX, places(numbers)).await?;
        Ok(())
    }

    async fn refuse_inbox(&mut self, rows: &[(i64, &str)]) -> Result<(), Fault> {
        for &(number, reason) in rows {
            self.execute(sql::REFUSE_INBOX, vec![reason.into(), number.into()]).await?;
        }
        Ok(())
    }

    async fn sequence_end(&mut self) -> Result<u64, Fault> {
        let rows = self.query(sql::SEQUENCE, Vec::new()).await?;
        let row = rows.first().ok_or_else(|| Fault::damaged("sequence_end", "nothing"))?;
        number(rows::whole(row, 0)?)
    }

    async fn set_sequence_end(&mut self, end: u64) -> Result<(), Fault> {
        self.execute(sql::SET_SEQUENCE, vec![signed(end).into()]).await?;
        Ok(())
    }

    async fn document(&mut self, kind: &str, name: &str, locks: bool) -> Result<Option<Document>, Fault> {
        let statement = if locks { sql::DOCUMENT_LOCKED } else { sql::DOCUMENT };
        let rows = self.query(statement, vec![kind.as_bytes().into(), name.as_bytes().into()]).await?;
        rows.first().map(rows::document).transpose()
    }

    async fn documents(&mut self, kind: &str) -> Result<Vec<Document>, Fault> {
        self.query(sql::DOCUMENTS, vec![kind.as_bytes().into()]).await?.iter().map(rows::document).collect()
    }

    async fn put_document(&mut self, kind: &str, document: &Document) -> Result<(), Fault> {
        let Document { name, body, version } = document;
        let statement = if *version == 1 { sql::NEW_DOCUMENT } else { sql::PUT_DOCUMENT };
        let values =
            vec![body.as_str().into(), signed(*version).into(), kind.as_bytes().into(), name.as_bytes().into()];
        self.execute(statement, values).await?;
        Ok(())
    }

    async fn remove_document(&mut self, kind: &str, name: &str) -> Result<bool, Fault> {
        Ok(self.execute(sql::REMOVE_DOCUMENT, vec![kind.as_bytes().into(), name.as_bytes().into()]).await? > 0)
    }
}
