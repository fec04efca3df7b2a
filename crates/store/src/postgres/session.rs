//! A connection and its statements.

use super::rows::{self, Arrays};
use super::statements as sql;
use crate::sql::{Changed, Fault, Head, Held, Hit, Inserted, Key, Session, Stream, list, number, signed, text};
use crate::sums::Sums;
use async_trait::async_trait;
use deadpool_postgres::Object;
use duetime_core::limits::{PAYLOAD_BYTES_MAX, STEP_QUEUES_MAX};
use duetime_core::ports::{
    BUCKET_MS, Cursor, Document, INBOX_TEXT_MAX, InboxRow, LeaseNote, OverflowDue, Queues, Window,
};
use duetime_core::{Job, JobId, Millis, Stage};
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// A connection, borrowed from the pool.
pub(super) struct Connection {
    client: Option<Object>,
    is_held: bool,
}

impl Connection {
    pub(super) fn new(client: Object) -> Self {
        Self { client: Some(client), is_held: false }
    }

    fn client(&self) -> Result<&Object, Fault> {
        self.client.as_ref().ok_or_else(|| Fault::Lost("PostgreSQL: the connection was given back".into()))
    }

    /// Sends statements without parameters.
    pub(super) async fn batch(&mut self, statements: &str) -> Result<(), Fault> {
        Ok(self.client()?.batch_execute(statements).await?)
    }

    /// Asks without preparing, for what is asked once.
    pub(super) async fn ask(&mut self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Fault> {
        Ok(self.client()?.query(statement, parameters).await?)
    }

    async fn query(&self, statement: &'static str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Fault> {
        let client = self.client()?;
        let statement = client.prepare_cached(statement).await?;
        Ok(client.query(&statement, parameters).await?)
    }

    async fn execute(&self, statement: &'static str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Fault> {
        let client = self.client()?;
        let statement = client.prepare_cached(statement).await?;
        Ok(client.execute(&statement, parameters).await?)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_held
            && let Some(client) = self.client.take()
        {
            // Out of the pool, and with that closed.
            drop(Object::take(client));
        }
    }
}

fn ids(ids: &[JobId]) -> Vec<i64> {
    ids.iter().map(|id| signed(id.get())).collect()
}

fn tags<'a>(tags: &[(&'a str, JobId)]) -> (Vec<&'a [u8]>, Vec<i64>) {
    // Sorted, so that transactions meet in the same order.
    let mut tags: Vec<_> = tags.iter().map(|&(tag, id)| (tag.as_bytes(), signed(id.get()))).collect();
    tags.sort_unstable();
    tags.into_iter().unzip()
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
        self.batch("BEGIN").await
    }

    async fn commit(&mut self) -> Result<(), Fault> {
        self.batch("COMMIT").await
    }

    async fn rollback(&mut self) -> Result<(), Fault> {
        self.batch("ROLLBACK").await
    }

    async fn known(&mut self, ids: &[JobId]) -> Result<Vec<JobId>, Fault> {
        rows::ids(&self.query(sql::KNOWN, &[&self::ids(ids)]).await?)
    }

    async fn insert(&mut self, rows: &[Inserted<'_>]) -> Result<usize, Fault> {
        // Keys in one order, so that transactions that take the same ones meet in the same order.
        let mut rows: Vec<_> = rows.to_vec();
        if rows.iter().any(|row| row.live_key.is_some()) {
            rows.sort_by(|a, b| (&a.job.queue, a.live_key, a.job.id).cmp(&(&b.job.queue, b.live_key, b.job.id)));
        }
        let (plain, rest): (Vec<_>, Vec<_>) = rows.into_iter().partition(Inserted::is_plain);
        let mut count = 0;
        if !plain.is_empty() {
            let mut arrays = Arrays::default();
            rows::insert_plain(&mut arrays, &plain);
            count += self.execute(sql::INSERT_PLAIN, &arrays.parameters()).await?;
        }
        if !rest.is_empty() {
            let mut arrays = Arrays::default();
            rows::insert(&mut arrays, &rest)?;
            count += self.execute(sql::INSERT, &arrays.parameters()).await?;
        }
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    async fn heads(&mut self, ids: &[JobId]) -> Result<Vec<Head>, Fault> {
        self.query(sql::HEADS, &[&self::ids(ids)]).await?.iter().map(rows::head).collect()
    }

    async fn jobs(&mut self, ids: &[JobId], locks: bool) -> Result<Vec<Job>, Fault> {
        let statement = if locks { sql::JOBS_LOCKED } else { sql::JOBS };
        self.query(statement, &[&self::ids(ids)]).await?.iter().map(rows::job).collect()
    }

    async fn holders(&mut self, keys: &[Key]) -> Result<Vec<Held>, Fault> {
        let (queues, keys): (Vec<&str>, Vec<&[u8]>) =
            keys.iter().map(|(queue, key)| (&**queue, key.as_bytes())).unzip();
        self.query(sql::HOLDERS, &[&queues, &keys]).await?.iter().map(rows::holder).collect()
    }

    async fn change(&mut self, rows: &[Changed<'_>]) -> Result<(), Fault> {
        let (ends, rest): (Vec<_>, Vec<_>) = rows.iter().copied().partition(Changed::is_plain_end);
        if !ends.is_empty() {
            let mut arrays = Arrays::default();
            rows::end(&mut arrays, &ends);
            self.execute(sql::END, &arrays.parameters()).await?;
        }
        if !rest.is_empty() {
            let mut arrays = Arrays::default();
            rows::change(&mut arrays, &rest)?;
            self.execute(sql::CHANGE, &arrays.parameters()).await?;
        }
        Ok(())
    }

    async fn rewrite(&mut self, jobs: &[&Job]) -> Result<(), Fault> {
        let ids: Vec<i64> = jobs.iter().map(|job| signed(job.id.get())).collect();
        let tags = jobs.iter().map(|job| list(&job.tags)).collect::<Result<Vec<_>, _>>()?;
        let payloads: Vec<&[u8]> = jobs.iter().map(|job| &*job.payload).collect();
        self.execute(sql::REWRITE, &[&ids, &tags, &payloads]).await?;
        Ok(())
    }

    async fn file_near(&mut self, jobs: &[(JobId, u64)]) -> Result<(), Fault> {
        let (ids, versions): (Vec<i64>, Vec<i64>) =
            jobs.iter().map(|&(id, version)| (signed(id.get()), signed(version))).unzip();
        self.execute(sql::FILE_NEAR, &[&ids, &versions]).await?;
        Ok(())
    }

    async fn file_by_due(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.execute(sql::FILE_BY_DUE, &[&self::ids(ids), &signed(BUCKET_MS)]).await?;
        Ok(())
    }

    async fn file_over(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.execute(sql::FILE_OVER, &[&self::ids(ids)]).await?;
        Ok(())
    }

    async fn delete(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.execute(sql::DELETE, &[&self::ids(ids)]).await?;
        Ok(())
    }

    async fn tag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault> {
        let (tags, ids) = self::tags(tags);
        self.execute(sql::TAG, &[&tags, &ids]).await?;
        Ok(())
    }

    async fn untag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault> {
        let (tags, ids) = self::tags(tags);
        self.execute(sql::UNTAG, &[&tags, &ids]).await?;
        Ok(())
    }

    async fn lease(&mut self, leases: &[LeaseNote]) -> Result<(), Fault> {
        let mut arrays = Arrays::default();
        rows::lease(&mut arrays, leases);
        self.execute(sql::LEASE, &arrays.parameters()).await?;
        Ok(())
    }

    async fn past(&mut self, stage: Stage, ended_by: Millis, limit: usize) -> Result<Vec<Head>, Fault> {
        let (state, limit) = (i16::from(stage.code()), signed(limit as u64));
        self.query(sql::PAST, &[&state, &signed(ended_by), &limit]).await?.iter().map(rows::head).collect()
    }

    async fn tally(&mut self, changes: &[(Arc<str>, Sums)]) -> Result<(), Fault> {
        let queues: Vec<&str> = changes.iter().map(|(queue, _)| &**queue).collect();
        let [a, b, c, d, e, f, g, h]: [Vec<i64>; 8] =
            std::array::from_fn(|at| changes.iter().map(|(_, sums)| sums[at]).collect());
        self.execute(sql::TALLY, &[&queues, &a, &b, &c, &d, &e, &f, &g, &h]).await?;
        Ok(())
    }

    async fn tallies(&mut self, queues: &Queues) -> Result<Vec<(Arc<str>, Sums)>, Fault> {
        let rows = match queues {
            Queues::Named(queues) => {
                let queues: Vec<&str> = queues.iter().map(|queue| &**queue).collect();
                self.query(sql::TALLIES, &[&queues]).await?
            }
            Queues::From(from, limit) => {
                let limit = signed((*limit).min(STEP_QUEUES_MAX) as u64);
                self.query(sql::TALLIES_FROM, &[&&**from, &limit]).await?
            }
        };
        rows.iter().map(rows::tally).collect()
    }

    async fn drop_tallies(&mut self, queues: &[Arc<str>]) -> Result<(), Fault> {
        let queues: Vec<&str> = queues.iter().map(|queue| &**queue).collect();
        self.execute(sql::DROP_TALLIES, &[&queues]).await?;
        Ok(())
    }

    async fn hits(&mut self, stream: &Stream, after: u64, limit: usize) -> Result<Vec<Hit>, Fault> {
        let (after, limit) = (signed(after), signed(limit as u64));
        let rows = match stream {
            Stream::All => self.query(sql::ALL, &[&after, &limit]).await?,
            Stream::Queue(queue, stage) => {
                let state = i16::from(stage.code());
                self.query(sql::QUEUE, &[&after, &limit, &&**queue, &state]).await?
            }
            Stream::Key(queue, key) => self.query(sql::KEY, &[&after, &limit, &&**queue, &key.as_bytes()]).await?,
            Stream::Tag(tag) => self.query(sql::TAGGED, &[&after, &limit, &tag.as_bytes()]).await?,
        };
        rows.iter().map(rows::hit).collect()
    }

    async fn waiting(&mut self, after: Cursor, last_bucket: i64, limit: usize) -> Result<Vec<Hit>, Fault> {
        let (id, limit) = (signed(after.id), signed(limit as u64));
        self.query(sql::WAITING, &[&after.bucket, &id, &last_bucket, &limit]).await?.iter().map(rows::hit).collect()
    }

    async fn level(&mut self, queue: &str, from: u32) -> Result<Option<u32>, Fault> {
        let rows = self.query(sql::LEVEL, &[&queue, &i64::from(from)]).await?;
        let level = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?;
        Ok(level.and_then(|level| u32::try_from(level).ok()))
    }

    async fn over(&mut self, queue: &str, priority: u32, due: Window, limit: usize) -> Result<Vec<Hit>, Fault> {
        let (from, to, limit) = (signed(due.from), signed(due.to), signed(limit as u64));
        let rows = self.query(sql::OVER, &[&queue, &i64::from(priority), &from, &to, &limit]).await?;
        rows.iter().map(rows::hit).collect()
    }

    async fn overflowing(&mut self, after: &str) -> Result<Option<Arc<str>>, Fault> {
        self.query(sql::OVERFLOWING, &[&after]).await?.first().map(|row| shared(row, 0)).transpose()
    }

    async fn over_due(&mut self, queue: &str, now: Millis) -> Result<OverflowDue, Fault> {
        let rows = self.query(sql::OVER_DUE, &[&queue, &signed(now)]).await?;
        let Some(row) = rows.first() else { return Ok(OverflowDue::default()) };
        let oldest_due = row.try_get::<_, Option<i64>>(1)?.map(number).transpose()?;
        Ok(OverflowDue { jobs: number(row.try_get(0)?)?, oldest_due })
    }

    async fn leased(&mut self) -> Result<Vec<JobId>, Fault> {
        rows::ids(&self.query(sql::LEASED, &[]).await?)
    }

    async fn inbox_hits(&mut self, limit: usize) -> Result<Vec<(i64, usize)>, Fault> {
        self.query(sql::INBOX_HITS, &[&signed(limit as u64)]).await?.iter().map(rows::inbox_hit).collect()
    }

    async fn inbox_rows(&mut self, numbers: &[i64]) -> Result<Vec<InboxRow>, Fault> {
        let [bytes, text] = [PAYLOAD_BYTES_MAX, INBOX_TEXT_MAX].map(|max| i32::try_from(max + 1).unwrap_or(i32::MAX));
        self.query(sql::INBOX_ROWS, &[&numbers, &bytes, &text]).await?.iter().map(rows::inbox_row).collect()
    }

    async fn lock_inbox(&mut self, numbers: &[i64]) -> Result<Vec<i64>, Fault> {
        let rows = self.query(sql::LOCK_INBOX, &[&numbers]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn delete_inbox(&mut self, numbers: &[i64]) -> Result<(), Fault> {
        self.execute(sql::DELETE_INBOX, &[&numbers]).await?;
        Ok(())
    }

    async fn refuse_inbox(&mut self, rows: &[(i64, &str)]) -> Result<(), Fault> {
        let (numbers, reasons): (Vec<i64>, Vec<&str>) = rows.iter().copied().unzip();
        self.execute(sql::REFUSE_INBOX, &[&numbers, &reasons]).await?;
        Ok(())
    }

    async fn sequence_end(&mut self) -> Result<u64, Fault> {
        let rows = self.query(sql::SEQUENCE, &[]).await?;
        let row = rows.first().ok_or_else(|| Fault::damaged("sequence_end", "nothing"))?;
        number(row.try_get(0)?)
    }

    async fn set_sequence_end(&mut self, end: u64) -> Result<(), Fault> {
        self.execute(sql::SET_SEQUENCE, &[&signed(end)]).await?;
        Ok(())
    }

    async fn document(&mut self, kind: &str, name: &str, locks: bool) -> Result<Option<Document>, Fault> {
        let statement = if locks { sql::DOCUMENT_LOCKED } else { sql::DOCUMENT };
        self.query(statement, &[&kind, &name]).await?.first().map(rows::document).transpose()
    }

    async fn documents(&mut self, kind: &str) -> Result<Vec<Document>, Fault> {
        self.query(sql::DOCUMENTS, &[&kind]).await?.iter().map(rows::document).collect()
    }

    async fn put_document(&mut self, kind: &str, document: &Document) -> Result<(), Fault> {
        let Document { name, body, version } = document;
        let statement = if *version == 1 { sql::NEW_DOCUMENT } else { sql::PUT_DOCUMENT };
        self.execute(statement, &[&kind, name, body, &signed(*version)]).await?;
        Ok(())
    }

    async fn remove_document(&mut self, kind: &str, name: &str) -> Result<bool, Fault> {
        Ok(self.execute(sql::REMOVE_DOCUMENT, &[&kind, &name]).await? > 0)
    }
}

/// Text that is stored as text.
pub(super) fn shared(row: &Row, column: usize) -> Result<Arc<str>, Fault> {
    text(row.try_get::<_, &str>(column)?.as_bytes())
}
