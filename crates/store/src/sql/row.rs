//! A job as a row, both ways, in types that every server has.

use super::fault::Fault;
use duetime_core::ports::bucket;
use duetime_core::{AttemptError, Error, Job, JobId, KeyUntil, Millis, Stage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A new row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inserted<'a> {
    pub(crate) job: &'a Job,
    pub(crate) bucket: i64,
    pub(crate) live_key: Option<&'a Arc<str>>,
}

impl<'a> Inserted<'a> {
    /// The job as it says itself.
    pub(super) fn new(job: &'a Job, frontier: Millis) -> Self {
        Self { job, bucket: bucket(job.due_at, frontier), live_key: job.live_key() }
    }

    /// Whether it is as most new jobs are: fewer columns say it all.
    pub(crate) fn is_plain(&self) -> bool {
        let job = self.job;
        let is_fresh = job.is_pending() && (job.attempt, job.crashes, job.epoch) == (0, 0, 0) && !job.cancel_asked;
        let is_new = (job.created_at, job.updated_at, job.first_due_at) == (job.version, job.version, job.due_at);
        let has_times = [job.started_at, job.finished_at, job.lease_until, job.lease_ms, job.expires_ms] != [None; 5];
        let is_bare = job.key.is_none() && job.tags.is_empty() && job.options.is_none() && self.is_silent();
        is_fresh && is_new && !has_times && is_bare && job.key_until == KeyUntil::Finished
    }

    /// Whether it has ended as most jobs do: fewer columns say it all.
    pub(crate) fn is_plain_end(&self) -> bool {
        let job = self.job;
        !job.is_pending()
            && job.lease_until.is_none()
            && !job.cancel_asked
            && self.live_key.is_none()
            && self.is_silent()
    }

    /// Whether nothing was said of it.
    fn is_silent(&self) -> bool {
        let job = self.job;
        job.message.is_none() && job.errors.is_empty() && job.result.is_none() && job.progress.is_none()
    }
}

/// A row that is written again.
pub(crate) type Changed<'a> = Inserted<'a>;

/// What is stored of a row, as far as a change of it needs.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: JobId,
    pub(crate) version: u64,
    pub(crate) epoch: u64,
    pub(crate) queue: Arc<str>,
    pub(crate) stage: Stage,
    pub(crate) live_key: Option<Arc<str>>,
    pub(crate) tags: Vec<Arc<str>>,
}

/// What is looked at of a row before it is read.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) id: JobId,
    pub(crate) bucket: i64,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) stage: Stage,
    pub(crate) due_at: u64,
    pub(crate) is_leased: bool,
    /// Of payload and result.
    pub(crate) bytes: usize,
}

/// A whole row as a server gives it.
#[derive(Debug)]
pub(crate) struct RawJob {
    pub(crate) id: i64,
    pub(crate) queue: Vec<u8>,
    pub(crate) kind: Vec<u8>,
    pub(crate) state: i16,
    /// due_at, first_due_at, priority, attempt, crashes, version, epoch, created_at, updated_at.
    pub(crate) numbers: [i64; 9],
    /// started_at, finished_at, lease_until, lease_ms, expires_ms.
    pub(crate) options: [Option<i64>; 5],
    pub(crate) cancel_asked: bool,
    pub(crate) key_until: i16,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) tags: Option<Vec<u8>>,
    pub(crate) message: Option<Vec<u8>>,
    pub(crate) errors: Option<Vec<u8>>,
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
    pub(crate) job_options: Option<Vec<u8>>,
    pub(crate) progress: Option<Vec<u8>>,
}

impl RawJob {
    /// The job.
    pub(crate) fn job(self) -> Result<Job, Fault> {
        let [due_at, first_due_at, priority, attempt, crashes, version, epoch, created_at, updated_at] =
            self.numbers.map(number);
        let [started_at, finished_at, lease_until, lease_ms, expires_ms] =
            self.options.map(|option| option.map(number).transpose());
        let small = |number: u64| u32::try_from(number).map_err(|_| Fault::damaged("a small number", number));
        Ok(Job {
            id: id(self.id)?,
            queue: text(&self.queue)?,
            kind: text(&self.kind)?,
            payload: self.payload.into(),
            stage: stage(self.state)?,
            due_at: due_at?,
            first_due_at: first_due_at?,
            priority: small(priority?)?,
            attempt: small(attempt?)?,
            crashes: small(crashes?)?,
            lease_ms: lease_ms?,
            expires_ms: expires_ms?,
            key: self.key.as_deref().map(text).transpose()?,
            key_until: match self.key_until {
                0 => KeyUntil::Finished,
                1 => KeyUntil::Started,
                other => return Err(Fault::damaged("key_until", other)),
            },
            tags: parsed(self.tags.as_deref())?.unwrap_or_default(),
            options: parsed(self.job_options.as_deref())?.map(Arc::new),
            message: self.message.as_deref().map(text).transpose()?,
            errors: parsed::<Vec<AttemptError>>(self.errors.as_deref())?.unwrap_or_default(),
            result: self.result.map(Arc::from),
            progress: parsed(self.progress.as_deref())?.map(Arc::new),
            version: version?,
            epoch: epoch?,
            lease_until: lease_until?,
            cancel_asked: self.cancel_asked,
            created_at: created_at?,
            updated_at: updated_at?,
            started_at: started_at?,
            finished_at: finished_at?,
        })
    }
}

impl Head {
    /// From the columns id, version, epoch, queue, state, live_key, tags.
    pub(crate) fn new(
        id: i64,
        version: i64,
        epoch: i64,
        queue: &[u8],
        state: i16,
        live_key: Option<&[u8]>,
        tags: Option<&[u8]>,
    ) -> Result<Self, Fault> {
        Ok(Self {
            id: self::id(id)?,
            version: number(version)?,
            epoch: number(epoch)?,
            queue: text(queue)?,
            stage: stage(state)?,
            live_key: live_key.map(text).transpose()?,
            tags: parsed(tags)?.unwrap_or_default(),
        })
    }
}

/// An id.
pub(crate) fn id(number: i64) -> Result<JobId, Fault> {
    u64::try_from(number).ok().and_then(JobId::new).ok_or_else(|| Fault::damaged("id", number))
}

/// A stage by its code.
pub(crate) fn stage(code: i16) -> Result<Stage, Fault> {
    u8::try_from(code).ok().and_then(Stage::from_code).ok_or_else(|| Fault::damaged("state", code))
}

/// A number that is never negative.
pub(crate) fn number(stored: i64) -> Result<u64, Fault> {
    u64::try_from(stored).map_err(|_| Fault::damaged("a number", stored))
}

/// How long ago a row was inserted. The clock of the database may have been set back, or the row name any time.
pub(crate) fn age_ms(now: i64, created_at: i64) -> u64 {
    u64::try_from(now.saturating_sub(created_at)).unwrap_or(0)
}

/// A number as it is stored; [`check`] has been.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Text.
pub(crate) fn text(bytes: &[u8]) -> Result<Arc<str>, Fault> {
    std::str::from_utf8(bytes).map(Arc::from).map_err(|error| Fault::damaged("text", error))
}

/// JSON.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Error::invalid("job", "writable as JSON", error).into())
}

/// JSON, or NULL for an empty list.
pub(crate) fn list<T: Serialize>(items: &[T]) -> Result<Option<String>, Fault> {
    if items.is_empty() { Ok(None) } else { json(&items).map(Some) }
}

/// A job's options as they are stored.
pub(crate) fn job_options(job: &Job) -> Result<Option<String>, Fault> {
    job.options.as_ref().map(json).transpose()
}

/// How far a job has come, as it is stored.
pub(crate) fn progress(job: &Job) -> Result<Option<String>, Fault> {
    job.progress.as_ref().map(json).transpose()
}

fn parsed<T: DeserializeOwned>(json: Option<&[u8]>) -> Result<Option<T>, Fault> {
    json.map(serde_json::from_slice).transpose().map_err(|error| Fault::damaged("JSON", error))
}

/// Refuses numbers that no server can store.
pub(super) fn check(job: &Job) -> Result<(), Error> {
    let always = [job.due_at, job.first_due_at, job.version, job.epoch, job.created_at, job.updated_at];
    let perhaps = [job.started_at, job.finished_at, job.lease_until, job.lease_ms, job.expires_ms];
    let mut numbers = always.into_iter().chain(perhaps.into_iter().flatten());
    match numbers.find(|&number| i64::try_from(number).is_err()) {
        Some(number) => Err(Error::invalid("number", "below 2^63", number)),
        None => Ok(()),
    }
}
