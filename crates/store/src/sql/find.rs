//! Rows by a selector, in the order of their ids; by their ends, the latest end first.
//!
//! Each selector is one or a few streams of rows, read along an index in that order and merged here. First the columns
//! that decide whether a row matches are read, for as many rows as a page may examine. Then the matching rows are read.

use super::fault::Fault;
use super::read::read;
use super::row::{Hit, Stream};
use super::session::Session;
use super::tally;
use crate::sums::{self, stages};
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
    let streams = streams(session, find).await?;
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
        (hits, is_over) = merged(session, find, streams, after, step).await?;
        for hit in hits {
            if wanted.len() >= find.limit || bytes >= PAGE_BYTES_MAX {
                is_over = false;
                break 'pages;
            }
            (after, seen) = (place(find, &hit), seen + 1);
            if takes(find, &stages, &hit) {
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

/// The next hits of all streams, and whether these are the last ones.
async fn merged(
    session: &mut Session,
    find: &Find,
    streams: &[Stream],
    after: Place,
    step: usize,
) -> Result<(Vec<Hit>, bool), Fault> {
    let mut hits = Vec::new();
    let mut bound = None;
    for stream in streams {
        let part = session.hits(stream, after, step).await?;
        if part.len() >= step {
            // Later rows of this stream are not known yet.
            let last = part.last().map(|hit| place(find, hit));
            bound = if bound.is_none() { last } else { bound.min(last) };
        }
        hits.extend(part);
    }
    hits.sort_unstable_by_key(|hit| place(find, hit));
    if let Some(bound) = bound {
        hits.retain(|hit| place(find, hit) <= bound);
    }
    Ok((hits, bound.is_none()))
}

fn place(find: &Find, hit: &Hit) -> Place {
    find.place(hit.id, hit.finished_at)
}

async fn streams(session: &mut Session, find: &Find) -> Result<Vec<Stream>, Fault> {
    let stages = stages(&find.states);
    Ok(match (&find.selector, &find.queue) {
        (Selector::Queue(queue), _) | (Selector::All, Some(queue)) => {
            stages.iter().map(|&stage| Stream::Queue(queue.clone(), stage)).collect()
        }
        (Selector::Key(queue, key), _) => {
            vec![Stream::Holder(queue.clone(), key.clone()), Stream::Past(queue.clone(), key.clone())]
        }
        (Selector::Tag(tag), _) => vec![Stream::Tag(tag.clone())],
        (Selector::Ended, queue) => {
            let of = |&stage: &Stage| [Stream::Parked(queue.clone(), stage), Stream::Ended(queue.clone(), stage)];
            stages.iter().flat_map(of).collect()
        }
        (Selector::All, None) if find.states.is_empty() => vec![Stream::All],
        // Not all of the overflow is read in the order of ids.
        (Selector::All, None)
            if stages == [Stage::Pending]
                && let Some(buckets) = buckets(find.due)
                && session.overflowing("").await?.is_none() =>
        {
            buckets.chain([0]).map(Stream::Bucket).collect()
        }
        (Selector::All, None) => {
            let (mut streams, mut queues) = (Vec::new(), Queues::first());
            loop {
                let tallies = tally::of(session, &queues).await?;
                for (queue, tally) in &tallies {
                    let stages = stages.iter().filter(|&&stage| sums::rows_of(tally, stage) > 0);
                    streams.extend(stages.map(|&stage| Stream::Queue(queue.clone(), stage)));
                }
                if streams.len() > STREAMS_MAX {
                    break vec![Stream::All];
                }
                match queues.next(tallies.iter().map(|(queue, _)| queue)) {
                    Some(next) => queues = next,
                    None => break streams,
                }
            }
        }
    })
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
