//! Rows by a selector, in the order of their ids; by their ends, the latest end first.
//!
//! Each selector is one or a few streams of rows, read along an index in that order and merged here. SQLite would sort
//! all rows of several states, however many there are. Reading stops once the page is full.

use super::fault::Fault;
use super::number::Numbers;
use super::row::{self, Reader, jobs};
use super::tally;
use crate::sums::{self, stages};
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
pub(super) const QUEUE: &str = jobs!(" FROM duetime_jobs j WHERE id > ?1 AND queue = ?2 AND state = ?3 ORDER BY id");
pub(super) const BUCKET: &str = jobs!(" FROM duetime_jobs j WHERE id > ?1 AND bucket = ?2 AND state = 1 ORDER BY id");
/// The holder of a key.
pub(super) const HOLDER: &str = jobs!(" FROM duetime_jobs j WHERE id > ?1 AND key_entry = ?2 AND key_order = 0");
/// Jobs that had a key; their `key_order` is their id.
pub(super) const PAST: &str = jobs!(" FROM duetime_jobs j WHERE key_order > ?1 AND key_entry = ?2 ORDER BY key_order");
pub(super) const TAG: &str = jobs!(
    " FROM duetime_tags t CROSS JOIN duetime_jobs j ON j.id = t.job_id WHERE t.job_id > ?1 AND t.tag = ?2 \
     ORDER BY t.job_id"
);
/// By their ends, before an instant and an id. SQLite does not see by `state = ?` that an index without pending rows will do.
pub(super) const ENDED: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_finished \
     WHERE (finished_at, id) < (?1, ?2) AND state = ?3 AND state <> 1 ORDER BY finished_at DESC, id DESC"
);
pub(super) const ENDED_IN: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_ended \
     WHERE (finished_at, id) < (?1, ?2) AND state = ?3 AND queue = ?4 AND state <> 1 ORDER BY finished_at DESC, id DESC"
);
/// Parked ones, which have no time of their end. At first `?1` is later than any end.
pub(super) const PARKED: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_finished \
     WHERE id < ?2 AND ?1 = 9223372036854775807 AND finished_at IS NULL AND state = ?3 AND state <> 1 ORDER BY id DESC"
);
pub(super) const PARKED_IN: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_ended \
     WHERE id < ?2 AND ?1 = 9223372036854775807 AND finished_at IS NULL AND state = ?3 AND queue = ?4 AND state <> 1 \
     ORDER BY id DESC"
);

/// A page of rows.
pub(super) fn find(connection: &Connection, find: &Find, after: Place) -> Result<Found, Fault> {
    let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let after = match after {
        Place::Id(id) => vec![number(id)],
        Place::Ended(Reverse(at), Reverse(id)) => vec![number(at), number(id)],
    };
    // All streams must see the same state: a job may move from one to another.
    let _snapshot = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let streams = streams(connection, find)?;
    let mut statements =
        streams.iter().map(|(sql, _)| connection.prepare_cached(sql)).collect::<Result<Vec<_>, _>>()?;
    let mut streams = statements
        .iter_mut()
        .zip(streams)
        .map(|(statement, (_, parameters))| statement.query(params_from_iter(after.iter().cloned().chain(parameters))))
        .collect::<Result<Vec<_>, _>>()?;
    let place = |row: &Row<'_>| Ok::<_, Fault>(find.place(row::id(row)?, row.optional_number(FINISHED_AT)?));
    // The current place of each stream.
    let mut heads = Vec::with_capacity(streams.len());
    for stream in &mut streams {
        heads.push(stream.next()?.map(place).transpose()?);
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
            && filter.takes(row)?
        {
            let job = reader.job(row)?;
            bytes += job.held_bytes();
            found.jobs.push(job);
        }
        seen += 1;
        found.next = Some(first.to_string());
        heads[at] = stream.next()?.map(place).transpose()?;
    }
    found.next = None;
    Ok(found)
}

/// The stream with the first place.
fn earliest(heads: &[Option<Place>]) -> Option<(usize, Place)> {
    heads.iter().enumerate().filter_map(|(at, head)| head.map(|place| (at, place))).min_by_key(|&(_, place)| place)
}

type Stream = (&'static str, Vec<Value>);

fn streams(connection: &Connection, find: &Find) -> Result<Vec<Stream>, Fault> {
    let text = |text: &Arc<str>| Value::from(text.to_string());
    let of_queue = |queue: &Arc<str>, stage: Stage| (QUEUE, vec![text(queue), i64::from(stage.code()).into()]);
    let stages = stages(&find.states);
    Ok(match (&find.selector, &find.queue) {
        (Selector::Queue(queue), _) | (Selector::All, Some(queue)) => {
            stages.iter().map(|&stage| of_queue(queue, stage)).collect()
        }
        (Selector::Key(queue, key), _) => {
            let entry = row::key_entry(queue, key);
            [HOLDER, PAST].map(|sql| (sql, vec![entry.clone().into()])).into()
        }
        (Selector::Tag(tag), _) => vec![(TAG, vec![text(tag)])],
        (Selector::Ended, queue) => {
            let sqls = if queue.is_some() { [ENDED_IN, PARKED_IN] } else { [ENDED, PARKED] };
            let values = |stage: &Stage| [stage.code().into()].into_iter().chain(queue.as_ref().map(text)).collect();
            stages.iter().flat_map(|stage| sqls.map(|sql| (sql, values(stage)))).collect()
        }
        (Selector::All, None) if find.states.is_empty() => vec![(ALL, Vec::new())],
        (Selector::All, None)
            if stages == [Stage::Pending]
                && let Some(buckets) = buckets(find.due) =>
        {
            let buckets = buckets.chain([OVERFLOW_BUCKET, 0]);
            buckets.map(|bucket| (BUCKET, vec![bucket.into()])).collect()
        }
        (Selector::All, None) => {
            let tallies = tally::all(connection)?;
            let streams: Vec<Stream> = tallies
                .iter()
                .flat_map(|(queue, tally)| {
                    let stages = stages.iter().filter(|&&stage| sums::rows_of(tally, stage) > 0);
                    stages.map(|&stage| of_queue(queue, stage))
                })
                .take(STREAMS_MAX + 1)
                .collect();
            if streams.len() > STREAMS_MAX { vec![(ALL, Vec::new())] } else { streams }
        }
    })
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

    fn takes(&self, row: &Row<'_>) -> Result<bool, Fault> {
        let is = |wanted: Option<&Arc<str>>, column| {
            Ok::<_, Fault>(wanted.is_none() || row::text(row, column)? == wanted.map(|wanted| &**wanted))
        };
        let due_at = row.number(4)?;
        Ok(is(self.queue, 1)?
            && is(self.find.kind.as_ref(), 2)?
            && self.stages.contains(&row::stage(row.get(3)?)?)
            && (self.find.due.from..=self.find.due.to).contains(&due_at))
    }
}
