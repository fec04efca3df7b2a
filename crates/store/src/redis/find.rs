//! Finds jobs if Redis is its own ledger: through indexes, page by page, and never by a scan.
//!
//! A walk visits one partition after the other. In each it visits waiting jobs (queue by queue), running, finished and
//! failed ones. This is the order of a job's life, so a job that moves on meanwhile is not missed. By state, the walk visits
//! live jobs. After them come those that have ended, of all partitions: parked ones in the order in which they were parked,
//! then the others, the latest end first.

use super::broker::Scored;
use super::call::Text;
use super::jobs::{Jobs, bytes};
use duetime_core::limits::{PAGE_BYTES_MAX, PAGE_JOBS_MAX, TAG_BYTES_MAX};
use duetime_core::ports::{Detail, Find, Found, Place, Selector, Window, after};
use duetime_core::{Error, Job, JobId, Millis, State};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Empty parts of a walk that one page visits at most.
const STOPS_MAX: usize = 128;
/// Jobs read at a time.
const CHUNK: usize = 100;
/// What the places of parked jobs begin after. `KEPT` of `prelude.lua`.
const KEPT: Millis = 281_474_976_710_656;

/// The zones of a partition that a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Zone {
    Key,
    Tag,
    Waiting,
    Running,
    Ended,
    Dead,
}

impl Zone {
    /// Whether a job that is found here is in no other zone of the walk. Among those that are found by a key that they may have
    /// given up, there are also the holder, and jobs that have ended.
    fn has(self, find: &Find, job: &Job) -> bool {
        let is_by_former_key = self == Self::Tag && matches!(find.selector, Selector::Key(..));
        !is_by_former_key || job.is_pending() && job.live_key().is_none()
    }
}

const ZONES: [(Zone, char); 6] = [
    (Zone::Key, 'k'),
    (Zone::Tag, 't'),
    (Zone::Waiting, 'w'),
    (Zone::Running, 'r'),
    (Zone::Ended, 'e'),
    (Zone::Dead, 'd'),
];

/// The position of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stop {
    partition: u16,
    zone: Zone,
    after: Option<Scored>,
    /// The first remaining queue, for waiting jobs of all queues.
    queue: Option<Arc<str>>,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = ZONES.iter().find(|(zone, _)| *zone == self.zone).map_or('?', |&(_, letter)| letter);
        let (score, id) = self.after.map_or((0, 0), |(score, id)| (score, id.get()));
        write!(f, "{};{zone};{score};{id};{}", self.partition, self.queue.as_deref().unwrap_or_default())
    }
}

impl FromStr for Stop {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let mut parts = text.splitn(5, ';');
            let partition = parts.next()?.parse().ok()?;
            let letter = parts.next()?;
            let &(zone, _) = ZONES.iter().find(|(_, known)| letter == known.to_string())?;
            let (score, id) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let queue = parts.next().filter(|queue| !queue.is_empty()).map(Arc::from);
            Some(Self { partition, zone, after: JobId::new(id).map(|id| (score, id)), queue })
        };
        read().ok_or_else(|| Error::invalid("cursor", "the `next_cursor` of an earlier answer", text))
    }
}

impl Jobs {
    pub(super) async fn find_page(&self, find: &Find) -> Result<Found, Error> {
        let is_by_state = find.selector == Selector::State;
        let mut at = match &find.after {
            Some(_) if is_by_state && find.after_place().is_ok() => return self.find_ended(find).await,
            Some(text) => Some(text.parse::<Stop>()?),
            None if is_by_state && zones(find).is_empty() => return self.find_ended(find).await,
            None => first_stop(find, |queue| self.partitions.keys.partition_of(queue)),
        };
        let mut jobs = Vec::new();
        for _ in 0..STOPS_MAX {
            let Some(mut stop) = at else { break };
            if stop.partition >= self.partitions.keys.partitions() || !zones(find).contains(&stop.zone) {
                return Err(Error::invalid("cursor", "the `next_cursor` of an earlier answer", &stop));
            }
            let is_by_queue = stop.zone == Zone::Waiting && queue_of(find).is_none();
            if is_by_queue && stop.after.is_none() {
                let from = stop.queue.as_deref().unwrap_or_default();
                stop.queue = self.queues_of(stop.partition, from, 1).await?.pop();
                if stop.queue.is_none() {
                    at = self.next_stop(find, &stop);
                    continue;
                }
            }
            let limit = find.limit.clamp(1, PAGE_JOBS_MAX);
            let places = self.places(find, &stop, limit).await?;
            let (mut looked_at, mut bytes) = (0, 0);
            for chunk in places.chunks(CHUNK) {
                let ids: Vec<JobId> = chunk.iter().map(|&(_, id)| id).collect();
                let found = self.records(&ids, Detail::Whole).await?.into_iter().flatten().map(|record| record.job);
                for job in found.filter(|job| fits(find, job) && stop.zone.has(find, job)) {
                    bytes += job.held_bytes();
                    jobs.push(job);
                }
                looked_at += chunk.len();
                if bytes > PAGE_BYTES_MAX {
                    break;
                }
            }
            at = match places[..looked_at].last() {
                Some(&last) if looked_at < places.len() || places.len() >= limit => {
                    Some(Stop { after: Some(last), ..stop })
                }
                _ if is_by_queue => Some(Stop { after: None, queue: stop.queue.as_deref().map(after), ..stop }),
                _ => self.next_stop(find, &stop),
            };
            if !jobs.is_empty() {
                break;
            }
        }
        let ended = || (is_by_state && !ended_zones(find).is_empty()).then(|| Place::Id(0).to_string());
        Ok(Found { jobs, next: at.map(|stop| stop.to_string()).or_else(ended) })
    }

    /// Jobs that have ended.
    async fn find_ended(&self, find: &Find) -> Result<Found, Error> {
        // Later than every end, and earlier than every parked job.
        let latest = Some((KEPT, JobId::MIN));
        let wrong = |at| Error::invalid("cursor", "the `next_cursor` of an earlier answer", at);
        let (mut is_parked, mut after) = match find.after_place()? {
            Place::Id(_) => (true, latest),
            Place::Ended(Reverse(at), Reverse(id)) => (at > KEPT, Some((at, JobId::new(id).ok_or_else(|| wrong(id))?))),
        };
        let partitions = match &find.queue {
            Some(queue) => [self.partitions.keys.partition_of(queue)].into(),
            None => (0..self.partitions.keys.partitions()).collect::<Vec<_>>(),
        };
        let zones = ended_zones(find);
        if zones.is_empty() {
            return Ok(Found { jobs: Vec::new(), next: None });
        }
        let limit = find.limit.clamp(1, PAGE_JOBS_MAX);
        let step = limit.max(CHUNK);
        let mut jobs = Vec::new();
        for _ in 0..STOPS_MAX.div_ceil(partitions.len() * zones.len()) {
            let mut places = Vec::new();
            for &partition in &partitions {
                for zone in &zones {
                    let which = match (zone, is_parked) {
                        (Zone::Dead, true) => "dead",
                        (Zone::Dead, false) => "latest_dead",
                        (_, true) => "ended",
                        (_, false) => "latest_ended",
                    };
                    places.extend(self.page(partition, which, "", Window::ALL, after, step).await?);
                }
                places.sort_unstable();
                if !is_parked {
                    places.reverse();
                }
                places.truncate(step);
            }
            let is_last = places.len() < step;
            let (mut looked_at, mut bytes) = (0, 0);
            'places: for chunk in places.chunks(CHUNK) {
                let ids: Vec<JobId> = chunk.iter().map(|&(_, id)| id).collect();
                for record in self.records(&ids, Detail::Whole).await? {
                    if jobs.len() == limit || bytes > PAGE_BYTES_MAX {
                        break 'places;
                    }
                    looked_at += 1;
                    if let Some(job) = record.map(|record| record.job).filter(|job| fits(find, job)) {
                        bytes += job.held_bytes();
                        jobs.push(job);
                    }
                }
            }
            after = places[..looked_at].last().copied().or(after);
            if is_last && looked_at == places.len() {
                if !is_parked {
                    return Ok(Found { jobs, next: None });
                }
                (is_parked, after) = (false, latest);
            }
            if !jobs.is_empty() {
                break;
            }
        }
        let next = after.map(|(at, id)| Place::Ended(Reverse(at), Reverse(id.get())).to_string());
        Ok(Found { jobs, next })
    }

    async fn places(&self, find: &Find, stop: &Stop, limit: usize) -> Result<Vec<Scored>, Error> {
        let page = |which, queue, window| self.page(stop.partition, which, queue, window, stop.after, limit);
        let queue = queue_of(find).or(stop.queue.as_ref()).map_or("", |queue| queue);
        match stop.zone {
            Zone::Waiting => page("due", queue, find.due).await,
            Zone::Running => page("running", "", Window::ALL).await,
            Zone::Ended => page("ended", "", Window::ALL).await,
            Zone::Dead => page("dead", "", Window::ALL).await,
            Zone::Tag => self.tagged(find, stop, limit).await,
            // There is at most one.
            Zone::Key if stop.after.is_some() => Ok(Vec::new()),
            Zone::Key => self.key_holder(find).await,
        }
    }

    async fn tagged(&self, find: &Find, stop: &Stop, limit: usize) -> Result<Vec<Scored>, Error> {
        let length = |name: &str| u8::try_from(name.len().min(TAG_BYTES_MAX)).unwrap_or(u8::MAX);
        let prefix = match &find.selector {
            Selector::Tag(tag) => [&[length(tag)], tag.as_bytes()].concat(),
            // Jobs that have given it up: `key_prefix` of `prelude.lua`.
            Selector::Key(queue, key) => [b"\0\0", queue.as_bytes(), b"\0", &[length(key)], key.as_bytes()].concat(),
            Selector::All | Selector::State => return Ok(Vec::new()),
        };
        let arguments = |text: &mut Text| {
            text.push(b"tags");
            text.push(&prefix);
            text.push(b"");
            text.push(stop.after.map(|(_, id)| bytes(id)).as_ref().map_or(&[], |id| id));
            text.number(limit as u64);
        };
        self.partitions.run(stop.partition, &super::scripts::LIST, &[""], arguments).await?.list()?.scored()
    }

    async fn key_holder(&self, find: &Find) -> Result<Vec<Scored>, Error> {
        let Selector::Key(queue, key) = &find.selector else { return Ok(Vec::new()) };
        let mut command = redis::cmd("HGET");
        let field = format!("{queue}\0{key}");
        command.arg(self.partitions.keys.of(self.partitions.keys.partition_of(queue), "keys")).arg(field);
        match self.partitions.link.query(&command).await? {
            redis::Value::BulkString(id) => Ok(super::reply::id(&id).map(|id| vec![(0, id)])?),
            _ => Ok(Vec::new()),
        }
    }

    /// The next zone, or the first one of the next partition.
    fn next_stop(&self, find: &Find, stop: &Stop) -> Option<Stop> {
        let zones = zones(find);
        let (partition, zone) = match zones.iter().find(|zone| **zone > stop.zone) {
            Some(zone) => (stop.partition, zone),
            None if queue_of(find).is_some() => return None,
            None => {
                (Some(stop.partition + 1).filter(|next| *next < self.partitions.keys.partitions())?, zones.first()?)
            }
        };
        Some(Stop { partition, zone: *zone, after: None, queue: None })
    }
}

/// The only queue that the query names.
fn queue_of(find: &Find) -> Option<&Arc<str>> {
    match &find.selector {
        Selector::Key(queue, _) => Some(queue),
        Selector::All | Selector::State | Selector::Tag(_) => find.queue.as_ref(),
    }
}

fn first_stop(find: &Find, partition_of: impl Fn(&str) -> u16) -> Option<Stop> {
    let partition = queue_of(find).map_or(0, |queue| partition_of(queue));
    Some(Stop { partition, zone: *zones(find).first()?, after: None, queue: None })
}

fn wants(find: &Find, wanted: &[State]) -> bool {
    find.states.is_empty() || find.states.iter().any(|state| wanted.contains(state))
}

/// The zones that a walk visits, in order.
fn zones(find: &Find) -> Vec<Zone> {
    let is_live = wants(find, &[State::Scheduled, State::Ready, State::Running]);
    let live: &[Zone] = match find.selector {
        Selector::Tag(_) => return vec![Zone::Tag],
        _ if !is_live => &[],
        Selector::Key(..) => &[Zone::Key, Zone::Tag],
        Selector::All | Selector::State => &[Zone::Waiting, Zone::Running],
    };
    let ended = if find.selector == Selector::State { Vec::new() } else { ended_zones(find) };
    [live, &ended].concat()
}

/// The zones of jobs that have ended.
fn ended_zones(find: &Find) -> Vec<Zone> {
    let zones = [(Zone::Ended, &[State::Succeeded, State::Cancelled][..]), (Zone::Dead, &[State::Failed])];
    zones.into_iter().filter(|(_, states)| wants(find, states)).map(|(zone, _)| zone).collect()
}

fn fits(find: &Find, job: &Job) -> bool {
    let selected = match &find.selector {
        Selector::All | Selector::State => true,
        Selector::Key(queue, key) => *queue == job.queue && job.key.as_ref() == Some(key),
        Selector::Tag(tag) => job.tags.contains(tag),
    };
    let is_in_states = || match job.stage.end_state() {
        Some(state) => find.states.contains(&state),
        None => find.states.iter().any(|state| state.is_live()),
    };
    selected
        && (find.states.is_empty() || is_in_states())
        && find.queue.as_ref().is_none_or(|queue| *queue == job.queue)
        && find.kind.as_ref().is_none_or(|kind| *kind == job.kind)
        && (find.due.from..=find.due.to).contains(&job.due_at.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_reads_back() {
        let after = JobId::new(77).map(|id| (1_800_000_000_000, id));
        for queue in [None, Some(Arc::from("a;b-c/$_()"))] {
            let stop = Stop { partition: 3, zone: Zone::Waiting, after, queue };
            assert_eq!(stop.to_string().parse::<Stop>().unwrap(), stop);
        }
        for wrong in ["", "3", "3;x;0;0;", "a;w;0;0;", "3;w;0"] {
            assert!(wrong.parse::<Stop>().is_err(), "{wrong}");
        }
    }
}
