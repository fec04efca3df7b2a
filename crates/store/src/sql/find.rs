//! Rows by a selector, in the order of their ids; by state, those that have ended by their ends, the latest first.
//!
//! Each selector is one or a few streams of rows, read along an index in that order and merged here. First the columns
//! that decide whether a row matches are read, for as many rows as a page may examine. Then the matching rows are read.

use super::fault::Fault;
use super::read::read;
use super::row::{Hit, Stream};
use super::session::Session;
use super::tally;
use crate::sums::stages;
use duetime_core::limits::PAGE_BYTES_MAX;
use duetime_core::ports::{Find, Found, Place, Queues, Selector, buckets};
use duetime_core::{Job, Stage};

/// Rows examined for one page.
const ROWS_MAX: usize = 1_000;
/// Maximum number of rows examined at once.
const STEP_MAX: usize = 2_500;
/// Maximum number of merged streams.
const STREAMS_MAX: usize = 64;

/// A page of rows.
pub(super) async fn find(session: &mut Session, (find, after): &(Find, Place)) -> Result<Found, Fault> {
    let streams = streams(session, find, *after).await?;
    if streams.len() <= 1 {
        return page(session, find, &streams, *after).await;
    }
    // All streams must see the same state: a job may move from one to another.
    session.begin_reading().await?;
    match page(session, find, &streams, *after).await {
        Ok(found) => session.commit().await.map(|()| found),
        Err(Fault::Lost(text)) => Err(Fault::Lost(text)),
        Err(fault) => session.rollback().await.and(Err(fault)),
    }
}

async fn page(session: &mut Session, find: &Find, streams: &[Stream], mut after: Place) -> Result<Found, Fault> {
    let stages = stages(&find.states);
    let (mut wanted, mut seen, mut bytes) = (Vec::new(), 0, 0);
    let mut step = find.limit.saturating_add(1).min(STEP_MAX);
    let mut is_over = false;
    'pages: while !is_over && seen < ROWS_MAX {
        let hits;
        (hits, is_over) = merged(session, streams, after, step).await?;
        for (place, hit) in hits {
            if wanted.len() >= find.limit || bytes >= PAGE_BYTES_MAX {
                is_over = false;
                break 'pages;
            }
            (after, seen) = (place, seen + 1);
            // A stream of all rows has some that come later in the order of ends.
            if place == find.place(hit.id, hit.finished_at) && takes(find, &stages, &hit) {
                bytes += hit.bytes;
                wanted.push(hit);
            }
        }
        step = (step * 4).min(STEP_MAX);
    }
    let mut jobs = read(session, &wanted).await?;
    // They may have changed since they were examined.
    jobs.retain(|job| takes(find, &stages, &seen_again(job)));
    Ok(Found { jobs, next: (!is_over).then(|| after.to_string()) })
}

/// The next hits of all streams with their places, and whether these are the last ones.
async fn merged(
    session: &mut Session,
    streams: &[Stream],
    after: Place,
    step: usize,
) -> Result<(Vec<(Place, Hit)>, bool), Fault> {
    let mut hits = Vec::new();
    let mut bound = None;
    for stream in streams {
        let part = session.hits(stream, after, step).await?;
        if part.len() >= step {
            // Later rows of this stream are not known yet.
            let last = part.last().map(|hit| stream.place(hit));
            bound = if bound.is_none() { last } else { bound.min(last) };
        }
        hits.extend(part.into_iter().map(|hit| (stream.place(&hit), hit)));
    }
    hits.sort_unstable_by_key(|&(place, _)| place);
    if let Some(bound) = bound {
        hits.retain(|&(place, _)| place <= bound);
    }
    Ok((hits, bound.is_none()))
}

async fn streams(session: &mut Session, find: &Find, after: Place) -> Result<Vec<Stream>, Fault> {
    Ok(match &find.selector {
        Selector::All => vec![Stream::All],
        Selector::Key(queue, key) => {
            vec![Stream::Holder(queue.clone(), key.clone()), Stream::Past(queue.clone(), key.clone())]
        }
        Selector::Tag(tag) => vec![Stream::Tag(tag.clone())],
        Selector::State => {
            let stages = stages(&find.states);
            let ended = stages.iter().filter(|&&stage| stage != Stage::Pending);
            let mut streams: Vec<Stream> = ended.map(|&stage| Stream::Ended(find.queue.clone(), stage)).collect();
            if let Place::Id(_) = after {
                streams.extend(match &find.queue {
                    Some(queue) => stages.iter().map(|&stage| Stream::Open(queue.clone(), stage)).collect(),
                    None => open(session, find, &stages).await?,
                });
            }
            streams
        }
    })
}

/// Rows of all queues without an end.
async fn open(session: &mut Session, find: &Find, stages: &[Stage]) -> Result<Vec<Stream>, Fault> {
    let parked = stages.iter().filter(|&&stage| stage != Stage::Pending);
    let mut streams: Vec<Stream> = parked.map(|&stage| Stream::Parked(stage)).collect();
    if !stages.contains(&Stage::Pending) {
        return Ok(streams);
    }
    // Not all of the overflow is read in the order of ids.
    if let Some(buckets) = buckets(find.due)
        && session.overflowing("").await?.is_none()
    {
        streams.extend(buckets.chain([0]).map(Stream::Bucket));
        return Ok(streams);
    }
    let mut queues = Queues::first();
    loop {
        let tallies = tally::of(session, &queues).await?;
        let live = tallies.iter().filter(|(_, tally)| tally.pending > 0);
        streams.extend(live.map(|(queue, _)| Stream::Open(queue.clone(), Stage::Pending)));
        if streams.len() > STREAMS_MAX {
            return Ok(vec![Stream::All]);
        }
        match queues.next(tallies.iter().map(|(queue, _)| queue)) {
            Some(next) => queues = next,
            None => return Ok(streams),
        }
    }
}

/// The conditions on a row beyond those of its stream.
fn takes(find: &Find, stages: &[Stage], hit: &Hit) -> bool {
    find.queue.as_ref().is_none_or(|queue| *queue == hit.queue)
        && find.kind.as_ref().is_none_or(|kind| *kind == hit.kind)
        && stages.contains(&hit.stage)
        && (find.due.from..=find.due.to).contains(&hit.due_at)
}

fn seen_again(job: &Job) -> Hit {
    Hit {
        id: job.id,
        bucket: 0,
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        stage: job.stage,
        due_at: job.due_at.0,
        finished_at: job.finished_at.map(|at| at.0),
        is_leased: job.lease_until.is_some(),
        bytes: 0,
    }
}
