//! Rows by a selector, in the order of their ids; by state, those that have ended by their ends, the latest first.
//!
//! Each selector is one or a few streams of rows, read along an index in that order and merged here. SQLite would sort
//! all rows of several states, however many there are. Reading stops once the page is full.

use super::fault::Fault;
use super::number::Numbers;
use super::row::{self, Reader, jobs};
use super::tally;
use crate::sums::stages;
use duetime_core::Stage;
use duetime_core::limits::PAGE_BYTES_MAX;
use duetime_core::ports::{Find, Found, OVERFLOW_BUCKET, Place, Selector, buckets};
use fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use std::cmp::Reverse;
use std::sync::Arc;

/// Rows examined for one page. In a large file each may need a disk read, and an answer consists of up to ten pages.
const ROWS_MAX: usize = 250;
/// The column of [`jobs`] that says when a job ended.
const FINISHED_AT: usize = 14;
/// Maximum number of merged streams.
const STREAMS_MAX: usize = 64;

pub(super) const ALL: &str = jobs!(" FROM duetime_jobs j WHERE id > ?1 ORDER BY id");
/// Those of a queue and a state without an end: live or parked ones.
pub(super) const OPEN_IN: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_queue \
     WHERE id > ?1 AND queue = ?2 AND state = ?3 AND finished_at IS NULL ORDER BY id"
);
pub(super) const BUCKET: &str = jobs!(" FROM duetime_jobs j WHERE id > ?1 AND bucket = ?2 AND state = 1 ORDER BY id");
/// The holder of a key.
pub(super) const HOLDER: &str = jobs!(" FROM duetime_jobs j WHERE id > ?1 AND key_entry = ?2 AND key_order = 0");
/// Jobs that had a key; their `key_order` is their id.
pub(super) const PAST: &str = jobs!(" FROM duetime_jobs j WHERE key_order > ?1 AND key_entry = ?2 ORDER BY key_order");
pub(super) const TAG: &str = jobs!(
    " FROM duetime_tags t CROSS JOIN duetime_jobs j ON j.id = t.job_id WHERE t.job_id > ?1 AND t.tag = ?2 \
     ORDER BY t.job_id"
);
/// Parked ones. SQLite does not see by `state = ?` that an index without pending rows will do.
pub(super) const PARKED: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_finished \
     WHERE id > ?1 AND state = ?2 AND state <> 1 AND finished_at IS NULL ORDER BY id"
);
/// By their ends, before an instant and an id.
pub(super) const ENDED: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_finished \
     WHERE (finished_at, id) < (?1, ?2) AND state = ?3 AND state <> 1 ORDER BY finished_at DESC, id DESC"
);
pub(super) const ENDED_IN: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_queue \
     WHERE (finished_at, id) < (?1, ?2) AND state = ?3 AND queue = ?4 ORDER BY finished_at DESC, id DESC"
);

/// A page of rows.
pub(super) fn find(connection: &Connection, find: &Find, after: Place) -> Result<Found, Fault> {
    // All streams must see the same state: a job may move from one to another.
    let _snapshot = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let streams = streams(connection, find, after)?;
    let mut statements =
        streams.iter().map(|stream| connection.prepare_cached(stream.sql)).collect::<Result<Vec<_>, _>>()?;
    let by_end: Vec<bool> = streams.iter().map(|stream| stream.by_end).collect();
    let mut streams = statements
        .iter_mut()
        .zip(streams)
        .map(|(statement, stream)| statement.query(params_from_iter(stream.after(after))))
        .collect::<Result<Vec<_>, _>>()?;
    let place = |by_end: bool, row: &Row<'_>| {
        let end = if by_end { row.optional_number(FINISHED_AT)? } else { None };
        Ok::<_, Fault>(Place::by_state(row::id(row)?, end))
    };
    // The current place of each stream.
    let mut heads = Vec::with_capacity(streams.len());
    for (stream, &by_end) in streams.iter_mut().zip(&by_end) {
        heads.push(stream.next()?.map(|row| place(by_end, row)).transpose()?);
    }

    let filter = Filter::new(find);
    let mut reader = Reader::default();
    let mut found = Found { jobs: Vec::new(), next: None };
    let (mut seen, mut bytes) = (0, 0);
    while let Some((at, first)) = earliest(&heads) {
        if found.jobs.len() >= find.limit || seen >= ROWS_MAX || bytes >= PAGE_BYTES_MAX {
            return Ok(found);
        }
        let stream = &mut streams[at];
        if let Some(row) = stream.get()
            && filter.takes(row, first)?
        {
            let job = reader.job(row)?;
            bytes += job.held_bytes();
            found.jobs.push(job);
        }
        seen += 1;
        found.next = Some(first.to_string());
        heads[at] = stream.next()?.map(|row| place(by_end[at], row)).transpose()?;
    }
    found.next = None;
    Ok(found)
}

/// The stream with the first place.
fn earliest(heads: &[Option<Place>]) -> Option<(usize, Place)> {
    heads.iter().enumerate().filter_map(|(at, head)| head.map(|place| (at, place))).min_by_key(|&(_, place)| place)
}

/// Rows along an index.
struct Stream {
    sql: &'static str,
    values: Vec<Value>,
    /// In the order of ends, not of ids.
    by_end: bool,
}

impl Stream {
    fn by_id(sql: &'static str, values: impl Into<Vec<Value>>) -> Self {
        Self { sql, values: values.into(), by_end: false }
    }

    fn by_end(sql: &'static str, values: impl Into<Vec<Value>>) -> Self {
        Self { sql, values: values.into(), by_end: true }
    }

    /// The values for the rows after a place.
    fn after(self, after: Place) -> Vec<Value> {
        let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
        let mut values = match after {
            Place::Id(_) if self.by_end => vec![number(u64::MAX), number(u64::MAX)],
            Place::Id(id) => vec![number(id)],
            Place::Ended(Reverse(at), Reverse(id)) => vec![number(at), number(id)],
        };
        values.extend(self.values);
        values
    }
}

fn streams(connection: &Connection, find: &Find, after: Place) -> Result<Vec<Stream>, Fault> {
    let text = |text: &Arc<str>| Value::from(text.to_string());
    let open_in = |queue: &Arc<str>, stage: Stage| Stream::by_id(OPEN_IN, [text(queue), stage.code().into()]);
    Ok(match (&find.selector, &find.queue) {
        (Selector::All, _) => vec![Stream::by_id(ALL, [])],
        (Selector::Key(queue, key), _) => {
            let entry = row::key_entry(queue, key);
            [HOLDER, PAST].map(|sql| Stream::by_id(sql, [entry.clone().into()])).into()
        }
        (Selector::Tag(tag), _) => vec![Stream::by_id(TAG, [text(tag)])],
        (Selector::State, queue) => {
            let stages = stages(&find.states);
            let ended = stages.iter().filter(|&&stage| stage != Stage::Pending).map(|stage| match queue {
                Some(queue) => Stream::by_end(ENDED_IN, [stage.code().into(), text(queue)]),
                None => Stream::by_end(ENDED, [stage.code().into()]),
            });
            let mut streams: Vec<Stream> = ended.collect();
            if let Place::Id(_) = after {
                streams.extend(match queue {
                    Some(queue) => stages.iter().map(|&stage| open_in(queue, stage)).collect(),
                    None => open(connection, find, &stages, open_in)?,
                });
            }
            streams
        }
    })
}

/// Rows of all queues without an end.
fn open(
    connection: &Connection,
    find: &Find,
    stages: &[Stage],
    open_in: impl Fn(&Arc<str>, Stage) -> Stream,
) -> Result<Vec<Stream>, Fault> {
    let mut streams: Vec<Stream> = Vec::new();
    for &stage in stages {
        if stage != Stage::Pending {
            streams.push(Stream::by_id(PARKED, [stage.code().into()]));
        } else if let Some(buckets) = buckets(find.due) {
            let buckets = buckets.chain([OVERFLOW_BUCKET, 0]);
            streams.extend(buckets.map(|bucket| Stream::by_id(BUCKET, [bucket.into()])));
        } else {
            let tallies = tally::all(connection)?;
            let live = tallies.iter().filter(|(_, tally)| tally.pending > 0).take(STREAMS_MAX + 1);
            streams.extend(live.map(|(queue, _)| open_in(queue, stage)));
            if streams.len() > STREAMS_MAX {
                return Ok(vec![Stream::by_id(ALL, [])]);
            }
        }
    }
    Ok(streams)
}

/// The conditions on a row beyond those of its stream.
struct Filter<'a> {
    find: &'a Find,
    stages: Vec<Stage>,
    queue: Option<&'a Arc<str>>,
}

impl<'a> Filter<'a> {
    fn new(find: &'a Find) -> Self {
        Self { find, stages: stages(&find.states), queue: find.queue.as_ref() }
    }

    /// Whether it takes a row that was found at this place.
    fn takes(&self, row: &Row<'_>, place: Place) -> Result<bool, Fault> {
        let is = |wanted: Option<&Arc<str>>, column| {
            Ok::<_, Fault>(wanted.is_none() || row::text(row, column)? == wanted.map(|wanted| &**wanted))
        };
        let due_at = row.number(4)?;
        // A stream of all rows has some that come later in the order of ends.
        let is_here = self.find.place(row::id(row)?, row.optional_number(FINISHED_AT)?) == place;
        Ok(is_here
            && is(self.queue, 1)?
            && is(self.find.kind.as_ref(), 2)?
            && self.stages.contains(&row::stage(row.get(3)?)?)
            && (self.find.due.from..=self.find.due.to).contains(&due_at))
    }
}
