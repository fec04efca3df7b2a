//! The statements of a transaction, each for many rows.

use super::connection::{Connection, Database};
use super::fault::Fault;
use super::row::{self, Head, Hit, NewRow, Stream, urgency};
use super::statements::{self, Bulk, Statements};
use super::value::{Row, Rows, Value};
use crate::sums::Sums;
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Cursor, InboxRow, OverflowDue, Place, Queues, Window};
use duetime_core::{Job, JobId, Millis, Stage};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A queue, and a key or an origin in it.
pub(super) type Key = (Arc<str>, Arc<str>);

/// A borrowed connection, and the text of its statements.
pub(super) struct Session {
    pub(super) connection: Box<dyn Connection>,
    pub(super) sql: &'static Statements,
}

fn ids(ids: &[JobId]) -> Rows<'static> {
    Rows::of(ids.iter().map(|id| [id.get().into()]))
}

fn names(names: &[Arc<str>]) -> Rows<'_> {
    Rows::of(names.iter().map(|name| [name.into()]))
}

fn numbers(numbers: &[i64]) -> Rows<'static> {
    Rows::of(numbers.iter().map(|&number| [number.into()]))
}

fn tags<'a>(tags: &[(&'a str, JobId)]) -> Rows<'a> {
    // Sorted, so that all transactions take locks in the same order.
    let mut tags = tags.to_vec();
    tags.sort_unstable();
    Rows::of(tags.into_iter().map(|(tag, id)| [tag.into(), id.get().into()]))
}

fn sums<const COUNT: usize>(row: &Row, from: usize) -> Result<[i64; COUNT], Fault> {
    let mut sums = [0; COUNT];
    for (column, sum) in (from..).zip(&mut sums) {
        *sum = row.whole(column)?;
    }
    Ok(sums)
}

impl Session {
    /// A session that is held until it is [released](Self::release).
    pub(super) async fn new(database: &dyn Database) -> Result<Self, Fault> {
        let mut connection = database.connection().await?;
        connection.hold(true);
        Ok(Self { connection, sql: &database.dialect().statements })
    }

    /// Marks the connection as idle.
    pub(super) fn release(&mut self) {
        self.connection.hold(false);
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        self.connection.send("START TRANSACTION").await
    }

    /// Begins a transaction that only reads, and sees one state of the database.
    pub(super) async fn begin_reading(&mut self) -> Result<(), Fault> {
        self.connection.send(self.sql.begin_reading).await
    }

    /// Commits.
    pub(super) async fn commit(&mut self) -> Result<(), Fault> {
        self.connection.send("COMMIT").await
    }

    /// Rolls back.
    pub(super) async fn rollback(&mut self) -> Result<(), Fault> {
        self.connection.send("ROLLBACK").await
    }

    pub(super) async fn ask<T>(
        &mut self,
        statement: &'static str,
        values: Vec<Value<'_>>,
        read: fn(&Row) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        self.connection.run(statement, values).await?.rows.iter().map(read).collect()
    }

    async fn ask_for<T>(
        &mut self,
        statement: &'static Bulk,
        rows: Rows<'_>,
        read: fn(&Row) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        if rows.count == 0 {
            return Ok(Vec::new());
        }
        self.connection.run_for(statement, rows).await?.rows.iter().map(read).collect()
    }

    /// Changes rows and returns how many were changed.
    async fn change_for(&mut self, statement: &'static Bulk, rows: Rows<'_>) -> Result<u64, Fault> {
        if rows.count == 0 { Ok(0) } else { Ok(self.connection.run_for(statement, rows).await?.changed) }
    }

    /// Which of these ids exist.
    pub(super) async fn known(&mut self, ids: &[JobId]) -> Result<Vec<JobId>, Fault> {
        self.ask_for(&statements::KNOWN, self::ids(ids), row::id).await
    }

    /// Inserts whole rows without their tags. Returns how many were inserted; the others conflict by id, origin or live key.
    /// If any conflicts, the transaction must not be committed.
    pub(super) async fn insert(&mut self, rows: &[NewRow<'_>]) -> Result<usize, Fault> {
        // Sorted, so that all transactions take keys in the same order.
        let mut rows = rows.to_vec();
        rows.sort_unstable_by_key(|row| (row.live_key.map(|key| (&row.job.queue, key)), row.job.id));
        let (mut plain, mut rest) = (Rows::default(), Rows::default());
        for row in &rows {
            let rows = if row.is_plain() { &mut plain } else { &mut rest };
            rows.count += 1;
            if row.is_plain() {
                row::insert_plain(&mut rows.values, row, self.sql)?;
            } else {
                row::insert(&mut rows.values, row, self.sql)?;
            }
        }
        let plain = self.change_for(&self.sql.insert_plain, plain).await?;
        let rest = self.change_for(&self.sql.insert, rest).await?;
        Ok(usize::try_from(plain + rest).unwrap_or(usize::MAX))
    }

    /// Locks rows, in the order of their ids.
    pub(super) async fn heads(&mut self, ids: &[JobId]) -> Result<Vec<Head>, Fault> {
        self.ask_for(&statements::HEADS, self::ids(ids), row::head).await
    }

    /// Rows, locked or not, in any order.
    pub(super) async fn jobs(&mut self, ids: &[JobId], locks: bool) -> Result<Vec<Job>, Fault> {
        let statement = if locks { &statements::JOBS_LOCKED } else { &statements::JOBS };
        self.ask_for(statement, self::ids(ids), row::job).await
    }

    /// The versions and stages of rows, in any order.
    pub(super) async fn versions(&mut self, ids: &[JobId]) -> Result<Vec<(JobId, (u64, Stage))>, Fault> {
        self.ask_for(&statements::VERSIONS, self::ids(ids), row::version).await
    }

    /// The holders of these keys.
    pub(super) async fn holders(&mut self, keys: &[Key]) -> Result<Vec<(Key, JobId)>, Fault> {
        self.named(&self.sql.holders, keys).await
    }

    /// The jobs with these origins.
    pub(super) async fn origins(&mut self, origins: &[Key]) -> Result<Vec<(Key, JobId)>, Fault> {
        self.named(&self.sql.origins, origins).await
    }

    async fn named(&mut self, statement: &'static Bulk, keys: &[Key]) -> Result<Vec<(Key, JobId)>, Fault> {
        let keys = Rows::of(keys.iter().map(|(queue, key)| [queue.into(), key.into()]));
        let named = |row: &Row| {
            let id = row.number(2)?;
            Ok(((row.text(0)?, row.text(1)?), JobId::new(id).ok_or_else(|| Fault::damaged("id", id))?))
        };
        self.ask_for(statement, keys, named).await
    }

    /// Writes all columns but payload and tags of locked rows.
    pub(super) async fn change(&mut self, rows: &[NewRow<'_>]) -> Result<(), Fault> {
        let (mut ends, mut rest) = (Rows::default(), Rows::default());
        for row in rows {
            if row.is_plain_end() {
                ends.count += 1;
                row::end(&mut ends.values, row);
            } else {
                rest.count += 1;
                row::change(&mut rest.values, row, self.sql)?;
            }
        }
        self.change_for(&self.sql.end, ends).await?;
        self.change_for(&self.sql.change, rest).await?;
        Ok(())
    }

    /// Writes all columns of locked rows that only edits change.
    pub(super) async fn rewrite(&mut self, jobs: &[&Job]) -> Result<(), Fault> {
        let mut rows = Rows { values: Vec::with_capacity(8 * jobs.len()), count: jobs.len() };
        for job in jobs {
            rows.values.extend(row::rewritten(job)?);
        }
        self.change_for(&self.sql.rewrite, rows).await.map(drop)
    }

    /// Marks pending rows that still have these versions as loaded.
    pub(super) async fn mark_loaded(&mut self, jobs: &[(JobId, u64)]) -> Result<(), Fault> {
        let rows = match &self.sql.versions {
            None => Rows::of(jobs.iter().map(|&(id, version)| [id.get().into(), version.into()])),
            Some(versions) => {
                let wanted: HashSet<(JobId, u64)> = jobs.iter().copied().collect();
                let ids = Rows::of(jobs.iter().map(|(id, _)| [id.get().into()]));
                let found = self.ask_for(versions, ids, |row| Ok((row::id(row)?, row.number(1)?))).await?;
                Rows::of(found.iter().filter(|found| wanted.contains(found)).map(|(id, _)| [id.get().into()]))
            }
        };
        self.change_for(&self.sql.mark_loaded, rows).await.map(drop)
    }

    /// Files pending rows by due time.
    pub(super) async fn mark_not_loaded(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.change_for(&self.sql.mark_not_loaded, self::ids(ids)).await.map(drop)
    }

    /// Files pending rows in the overflow of their queues.
    pub(super) async fn mark_overflow(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.change_for(&self.sql.mark_overflow, self::ids(ids)).await.map(drop)
    }

    /// Deletes rows.
    pub(super) async fn delete(&mut self, ids: &[JobId]) -> Result<(), Fault> {
        self.change_for(&statements::DELETE, self::ids(ids)).await.map(drop)
    }

    /// Files jobs under tags.
    pub(super) async fn tag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault> {
        self.change_for(&self.sql.tag, self::tags(tags)).await.map(drop)
    }

    /// Removes jobs from their tags.
    pub(super) async fn untag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault> {
        self.change_for(&self.sql.untag, self::tags(tags)).await.map(drop)
    }

    /// Locks at most `limit` rows in this state that ended by this time, skipping rows locked by others.
    pub(super) async fn past(&mut self, stage: Stage, ended_by: Millis, limit: usize) -> Result<Vec<Head>, Fault> {
        self.ask(statements::PAST, vec![stage.code().into(), ended_by.into(), limit.into()], row::head).await
    }

    /// Adds to the sums by queue. They are ordered by queue name.
    pub(super) async fn tally(&mut self, changes: &[(Arc<str>, Sums)]) -> Result<(), Fault> {
        let mut rows = Rows { values: Vec::with_capacity(9 * changes.len()), count: changes.len() };
        for (queue, sums) in changes {
            rows.values.push(queue.into());
            rows.values.extend(sums.map(Value::from));
        }
        self.change_for(&self.sql.tally, rows).await.map(drop)
    }

    /// The sums of these queues, by name, even if they are zero.
    pub(super) async fn tallies(&mut self, queues: &Queues) -> Result<Vec<(Arc<str>, Sums)>, Fault> {
        let tally = |row: &Row| Ok((row.text(0)?, sums(row, 1)?));
        match queues {
            Queues::Named(queues) => self.ask_for(&self.sql.tallies, names(queues), tally).await,
            Queues::From(from, limit) => {
                let values = vec![from.into(), (*limit).min(STEP_QUEUES_MAX).into()];
                self.ask(self.sql.tallies_from, values, tally).await
            }
        }
    }

    /// Drops the sums of these queues if their rows add up to zero.
    pub(super) async fn drop_tallies(&mut self, queues: &[Arc<str>]) -> Result<(), Fault> {
        let slot = |row: &Row| Ok((row.text(0)?, row.whole(1)?, sums::<4>(row, 2)?));
        let slots = self.ask_for(&statements::TALLIES_LOCKED, names(queues), slot).await?;
        let mut totals: BTreeMap<&str, [i64; 4]> = BTreeMap::new();
        for (queue, _, counts) in &slots {
            totals.entry(queue).or_default().iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
        // The removed slots add up to zero, so concurrent changes of other slots do not matter.
        let empty = slots.iter().filter(|(queue, ..)| totals[&**queue] == [0; 4]);
        let empty = Rows::of(empty.map(|(queue, slot, _)| [queue.into(), (*slot).into()]));
        self.change_for(&self.sql.drop_tally, empty).await.map(drop)
    }

    /// The first rows of a stream after a place.
    pub(super) async fn hits(&mut self, stream: &Stream, after: Place, limit: usize) -> Result<Vec<Hit>, Fault> {
        let by_end = matches!(stream, Stream::Ended(..));
        let (at, after) = match after {
            // Rows with an end come after all others.
            Place::Id(_) if by_end => (i64::MAX.cast_unsigned(), i64::MAX.cast_unsigned()),
            Place::Id(id) => (0, id),
            Place::Ended(..) if !by_end => return Ok(Vec::new()),
            Place::Ended(Reverse(at), Reverse(id)) => (at, id),
        };
        let (statement, mut values): (_, Vec<Value<'_>>) = match stream {
            Stream::All => (statements::ALL, Vec::new()),
            Stream::Open(queue, stage) => (self.sql.open_in, vec![queue.into(), stage.code().into()]),
            Stream::Parked(stage) => (self.sql.parked, vec![stage.code().into()]),
            Stream::Holder(queue, key) => (self.sql.holder, vec![queue.into(), key.into()]),
            Stream::Past(queue, key) => (self.sql.by_key, vec![queue.into(), key.into()]),
            Stream::Tag(tag) => (statements::BY_TAG, vec![tag.into()]),
            Stream::Bucket(bucket) => (self.sql.waiting_in, vec![(*bucket).into()]),
            Stream::Ended(None, stage) => (self.sql.ended, vec![stage.code().into(), at.into(), at.into()]),
            Stream::Ended(Some(queue), stage) => {
                (self.sql.ended_in, vec![queue.into(), stage.code().into(), at.into(), at.into()])
            }
        };
        values.extend([after.into(), limit.into()]);
        self.ask(statement, values, row::hit).await
    }

    /// The first pending rows after a cursor, up to a bucket.
    pub(super) async fn waiting(&mut self, after: Cursor, last: i64, limit: usize) -> Result<Vec<Hit>, Fault> {
        let mut hits = self.hits(&Stream::Bucket(after.bucket), Place::Id(after.id), limit).await?;
        if hits.len() < limit {
            let values = vec![after.bucket.into(), last.into(), (limit - hits.len()).into()];
            hits.extend(self.ask(self.sql.waiting_behind, values, row::hit).await?);
        }
        Ok(hits)
    }

    /// The first priority, from this one on, with rows in the overflow of a queue.
    pub(super) async fn level(&mut self, queue: &str, from: u32) -> Result<Option<u32>, Fault> {
        let values = if self.sql.has_urgency {
            vec![urgency(queue, from, 0), urgency(queue, u32::MAX, u64::MAX)]
        } else {
            vec![queue.into(), from.into()]
        };
        Ok(self.ask(self.sql.level, values, |row| row.small(0)).await?.pop())
    }

    /// Rows of one priority in the overflow of a queue without a lease, by due time and id.
    pub(super) async fn over(
        &mut self,
        queue: &str,
        priority: u32,
        due: Window,
        limit: usize,
    ) -> Result<Vec<Hit>, Fault> {
        let values = if self.sql.has_urgency {
            vec![urgency(queue, priority, due.from), urgency(queue, priority, due.to), limit.into()]
        } else {
            vec![queue.into(), priority.into(), due.from.into(), due.to.into(), limit.into()]
        };
        self.ask(self.sql.over, values, row::hit).await
    }

    /// The next queue by name, after this one, that has rows in the overflow.
    pub(super) async fn overflowing(&mut self, after: &str) -> Result<Option<Arc<str>>, Fault> {
        let after = if self.sql.has_urgency && !after.is_empty() {
            // After all rows of that queue, and before those of the next one.
            [after.as_bytes(), &[1]].concat().into()
        } else {
            after.into()
        };
        Ok(self.ask(self.sql.overflowing, vec![after], |row| row.text(0)).await?.pop())
    }

    /// The due rows in the overflow of a queue.
    pub(super) async fn over_due(&mut self, queue: &str, now: Millis) -> Result<OverflowDue, Fault> {
        let values = if self.sql.has_urgency {
            let now = now.to_be_bytes().to_vec();
            vec![urgency(queue, 0, 0), urgency(queue, u32::MAX, u64::MAX), now.into()]
        } else {
            vec![queue.into(), now.into()]
        };
        let due = |row: &Row| Ok(OverflowDue { jobs: row.number(0)?, oldest_due: row.optional_number(1)? });
        Ok(self.ask(self.sql.over_due, values, due).await?.pop().unwrap_or_default())
    }

    /// The numbers of the first rows of the inbox after this one that were not refused, each with the size of its payload in bytes.
    pub(super) async fn inbox_hits(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, usize)>, Fault> {
        let hit = |row: &Row| Ok((row.whole(0)?, usize::try_from(row.whole(1)?).unwrap_or(0)));
        self.ask(self.sql.inbox_hits, vec![after.into(), limit.into()], hit).await
    }

    /// These rows of the inbox, in any order.
    pub(super) async fn inbox_rows(&mut self, numbers: &[i64]) -> Result<Vec<InboxRow>, Fault> {
        self.ask_for(&self.sql.inbox_rows, self::numbers(numbers), row::inbox_row).await
    }

    /// Locks those of these rows that were not refused, skipping rows locked by others, and returns their numbers.
    pub(super) async fn lock_inbox(&mut self, numbers: &[i64]) -> Result<Vec<i64>, Fault> {
        self.ask_for(&statements::LOCK_INBOX, self::numbers(numbers), |row| row.whole(0)).await
    }

    /// Deletes rows of the inbox.
    pub(super) async fn delete_inbox(&mut self, numbers: &[i64]) -> Result<(), Fault> {
        self.change_for(&statements::DELETE_INBOX, self::numbers(numbers)).await.map(drop)
    }

    /// Marks rows of the inbox as refused, with the reason.
    pub(super) async fn refuse_inbox(&mut self, rows: &[(i64, &str)]) -> Result<(), Fault> {
        let rows = Rows::of(rows.iter().map(|&(number, reason)| [reason.into(), number.into()]));
        self.change_for(&self.sql.refuse_inbox, rows).await.map(drop)
    }
}
