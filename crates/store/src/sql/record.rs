//! New jobs.

use super::fault::Fault;
use super::keys::Keys;
use super::row::NewRow;
use super::session::{Key, Session};
use crate::sums::Tallies;
use duetime_core::ports::Recorded;
use duetime_core::{Job, JobId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Records jobs independently of each other, in order. A conflict is reported as a race: another transaction recorded one of
/// the jobs or took one of its keys meanwhile, or an origin is known. The careful retry looks up all ids and origins first.
/// Repeated pushes are rare enough for that.
pub(super) async fn record(
    session: &mut Session,
    jobs: &[NewRow<'_>],
    tallies: &mut Tallies,
    is_careful: bool,
) -> Result<Vec<Recorded>, Fault> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let key = |row: &NewRow<'_>| row.live_key.map(|key| (row.job.queue.clone(), key.clone()));
    let mut keys = Keys::read(session, jobs.iter().filter_map(key).collect()).await?;
    let holder = |keys: &Keys, row: &NewRow<'_>| row.live_key.and_then(|key| keys.holder(&row.job.queue, key));
    // One that comes after a job with its key may be a repeat, too.
    let mut seen = HashSet::new();
    let mut is_doubtful = |row: &&NewRow<'_>| {
        let is_first = key(row).is_none_or(|key| seen.insert(key));
        is_careful || !is_first || holder(&keys, row).is_some()
    };
    let doubtful: Vec<_> = jobs.iter().filter(|row| is_doubtful(row)).collect();
    let mut known: HashSet<JobId> = HashSet::with_capacity(jobs.len());
    known.extend(session.known(&doubtful.iter().map(|row| row.job.id).collect::<Vec<_>>()).await?);
    let doubtful: Vec<Key> = doubtful.into_iter().filter_map(origin).collect();
    let mut origins: HashMap<Key, JobId> = session.origins(&doubtful).await?.into_iter().collect();

    let mut rows = Vec::with_capacity(jobs.len());
    let mut recorded = Vec::with_capacity(jobs.len());
    for row in jobs {
        recorded.push(if known.contains(&row.job.id) {
            Recorded::Repeat
        } else if let Some(first) = origin(row).and_then(|origin| origins.get(&origin)) {
            Recorded::Known(*first)
        } else if let Some(holder) = holder(&keys, row) {
            Recorded::KeyHeld(holder)
        } else {
            known.insert(row.job.id);
            origins.extend(origin(row).map(|origin| (origin, row.job.id)));
            if let Some(key) = row.live_key {
                keys.take(&row.job.queue, key, row.job.id);
            }
            tallies.inserted(&row.job.queue, row.job.stage, 1);
            rows.push(*row);
            Recorded::Created
        });
    }
    insert(session, &rows).await?;
    Ok(recorded)
}

/// The jobs that have the origins or the keys of these.
pub(super) async fn known(session: &mut Session, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Fault> {
    let named = |job: &Job, name: Option<&Arc<str>>| name.map(|name| (job.queue.clone(), name.clone()));
    let mut origins: Vec<Key> = jobs.iter().filter_map(|job| named(job, job.origin.as_ref())).collect();
    origins.sort_unstable();
    origins.dedup();
    let origins: HashMap<Key, JobId> = session.origins(&origins).await?.into_iter().collect();
    let keys = Keys::read(session, jobs.iter().filter_map(|job| named(job, job.live_key())).collect()).await?;
    let met = |job: &Job| match named(job, job.origin.as_ref()).and_then(|origin| origins.get(&origin)) {
        Some(first) => Some(Recorded::Known(*first)),
        None => job.live_key().and_then(|key| keys.holder(&job.queue, key)).map(Recorded::KeyHeld),
    };
    Ok(jobs.iter().map(met).collect())
}

fn origin(row: &NewRow<'_>) -> Option<Key> {
    row.job.origin.as_ref().map(|origin| (row.job.queue.clone(), origin.clone()))
}

/// Inserts rows without known conflicts.
pub(super) async fn insert(session: &mut Session, rows: &[NewRow<'_>]) -> Result<(), Fault> {
    let inserted = session.insert(rows).await?;
    if inserted != rows.len() {
        return Err(Fault::Race(format!("{} of {} rows were new", inserted, rows.len())));
    }
    let tags: Vec<_> = rows.iter().flat_map(|row| row.job.tags.iter().map(|tag| (&**tag, row.job.id))).collect();
    session.tag(&tags).await
}
