//! A live job as the memory broker packs it: fields that every job has are inline, others in boxes.

use super::names::{Label, Names};
use super::queue::Entered;
use super::wheel::Handle;
use crate::clock::Millis;
use crate::json::{Span, Timestamp};
use crate::model::id::{JobId, Receipt};
use crate::model::job::{AttemptError, Job, KeyUntil, Payload, Stage};
use crate::model::options::JobOptions;
use crate::model::progress::Progress;
use crate::model::sent::Sent;
use crate::ports::LeaseRecord;
use std::sync::Arc;

/// Approximate memory of a job without a payload, as measured: itself, its entry by id, and its place in a wheel or an
/// order.
const LIVE_BYTES: usize = 200;
/// Approximate memory of a text besides its bytes.
const TEXT_BYTES: usize = 48;

/// A live job, without its id, under which it is stored.
#[derive(Clone, Debug)]
pub(super) struct Live {
    label: Arc<Label>,
    payload: Payload,
    pub(super) due_at: Millis,
    pub(super) version: u64,
    created_at: Timestamp,
    pub(super) priority: u32,
    pub(super) attempt: u32,
    pub(super) place: Whereabouts,
    extra: Option<Box<Extra>>,
}

/// The place of a live job.
#[derive(Clone, Debug)]
pub(super) enum Whereabouts {
    /// In its queue's wheel.
    Scheduled(Handle),
    /// In its queue's `held_back`: the wheel is past its due time, but the clock was set back before it.
    HeldBack,
    /// In its queue's `ready`.
    Ready,
    /// In its queue's `overdue`: its deadline to start has passed, and it waits for its end.
    Overdue(Millis),
    /// In the wheel of leases.
    Running(Box<LiveLease>),
}

impl From<Entered> for Whereabouts {
    fn from(entered: Entered) -> Self {
        match entered {
            Entered::Scheduled(handle) => Self::Scheduled(handle),
            Entered::HeldBack => Self::HeldBack,
            Entered::Ready => Self::Ready,
        }
    }
}

/// A lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveLease {
    pub(super) handle: Handle,
    pub(super) epoch: u64,
    /// The end by the wall clock, for display.
    pub(super) lease_until: Millis,
    pub(super) lease_ms: u64,
    pub(super) started_at: Millis,
    /// When the job last changed.
    pub(super) updated_at: Millis,
    /// Whether the job is taken rather than run.
    pub(super) takes: bool,
}

/// What many jobs have, and many have not.
#[derive(Clone, Debug, Default, PartialEq)]
struct Extra {
    /// Its own lease length, 0 for none: at most 12 h.
    lease_ms: u32,
    origin: Option<Arc<str>>,
    /// Of its options: every push of a client has an origin, and few have other options.
    sent: Option<Sent>,
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rare {
    /// The epoch of its last lease.
    epoch: u64,
    first_due_at: Timestamp,
    updated_at: Timestamp,
    started_at: Option<Timestamp>,
    crashes: u32,
    expires: Option<Span>,
    key: Option<Arc<str>>,
    key_until: KeyUntil,
    tags: Arc<[Arc<str>]>,
    options: Option<Arc<JobOptions>>,
    message: Option<Arc<str>>,
    errors: Vec<AttemptError>,
    progress: Option<Arc<Progress>>,
    cancel_asked: bool,
}

impl Live {
    pub(super) fn pack(mut job: Job, place: Whereabouts, names: &mut Names) -> Self {
        let sent = job.sent();
        job.set_sent(None);
        let rare = Rare {
            epoch: job.epoch,
            first_due_at: job.first_due_at,
            updated_at: job.updated_at,
            started_at: job.started_at,
            crashes: job.crashes,
            expires: job.expires,
            key: job.key,
            key_until: job.key_until,
            tags: job.tags,
            options: job.options,
            message: job.message,
            errors: job.errors,
            progress: job.progress,
            cancel_asked: job.cancel_asked,
        };
        let extra = Extra {
            lease_ms: job.lease.map_or(0, |Span(ms)| u32::try_from(ms).expect("a lease is at most 12 h")),
            origin: job.origin,
            sent,
            rare: (rare != Rare::plain(job.due_at, job.created_at)).then(|| Box::new(rare)),
        };
        Self {
            label: names.share(&job.queue, &job.kind),
            payload: job.payload,
            due_at: job.due_at.0,
            version: job.version,
            created_at: job.created_at,
            priority: job.priority,
            attempt: job.attempt,
            place,
            extra: (extra != Extra::default()).then(|| Box::new(extra)),
        }
    }

    pub(super) fn unpack(&self, id: JobId) -> Job {
        let extra = self.extra.as_deref().cloned();
        self.with_parts(id, extra, self.payload.clone())
    }

    /// The same without copies.
    pub(super) fn into_job(mut self, id: JobId) -> Job {
        let extra = self.extra.take().map(|extra| *extra);
        let payload = std::mem::take(&mut self.payload);
        self.with_parts(id, extra, payload)
    }

    fn with_parts(&self, id: JobId, extra: Option<Extra>, payload: Payload) -> Job {
        let Extra { lease_ms, origin, sent, rare } = extra.unwrap_or_default();
        let rare = rare.map_or_else(|| Rare::plain(Timestamp(self.due_at), self.created_at), |rare| *rare);
        let run = self.run();
        let mut job = Job {
            id,
            queue: self.label.queue.clone(),
            kind: self.label.kind.clone(),
            payload,
            stage: Stage::Pending,
            due_at: Timestamp(self.due_at),
            first_due_at: rare.first_due_at,
            priority: self.priority,
            attempt: self.attempt,
            crashes: rare.crashes,
            lease: own(lease_ms).map(Span),
            expires: rare.expires,
            key: rare.key,
            key_until: rare.key_until,
            origin,
            tags: rare.tags,
            options: rare.options,
            message: rare.message,
            errors: rare.errors,
            result: None,
            progress: rare.progress,
            version: self.version,
            epoch: run.map_or(rare.epoch, |run| run.epoch),
            lease_until: run.map(|run| Timestamp(run.lease_until)),
            cancel_asked: rare.cancel_asked,
            created_at: self.created_at,
            updated_at: run.map_or(rare.updated_at, |run| Timestamp(run.updated_at)),
            started_at: run.map(|run| Timestamp(run.started_at)).or(rare.started_at),
            finished_at: None,
        };
        job.set_sent(sent);
        job
    }

    pub(super) fn made_at(&self) -> Millis {
        self.created_at.0
    }

    pub(super) fn queue(&self) -> &Arc<str> {
        &self.label.queue
    }

    pub(super) fn run(&self) -> Option<&LiveLease> {
        match &self.place {
            Whereabouts::Running(run) => Some(run),
            _ => None,
        }
    }

    /// About how many bytes of memory it takes, with its places in the indexes.
    pub(super) fn bytes(&self) -> u64 {
        let extra = self.extra.as_ref().map_or(0, |extra| extra.bytes());
        (LIVE_BYTES + self.payload.len() + extra) as u64
    }

    /// Its lease, if it is the one that the receipt proves.
    pub(super) fn run_of(&self, receipt: Receipt) -> Option<&LiveLease> {
        self.run().filter(|run| run.epoch == receipt.epoch)
    }

    /// The instant from which it may no longer start, if it waits for its first start and has one.
    pub(super) fn start_by(&self, id: JobId) -> Option<Millis> {
        self.rare()?.expires?;
        self.unpack(id).start_by()
    }

    /// Its own lease length.
    pub(super) fn lease_ms(&self) -> Option<u64> {
        own(self.extra.as_ref()?.lease_ms)
    }

    /// The record of its lease, if it has one.
    pub(super) fn lease_entry(&self, id: JobId) -> Option<LeaseRecord> {
        let &LiveLease { epoch, lease_until, started_at, updated_at, .. } = self.run()?;
        let frees_key = self.rare().is_some_and(|rare| rare.key.is_some() && rare.key_until == KeyUntil::Started);
        let Self { version, attempt, .. } = *self;
        Some(LeaseRecord { id, version, epoch, attempt, lease_until, started_at, updated_at, frees_key })
    }

    /// Whether others may begin with its end.
    pub(super) fn has_follow_ups(&self) -> bool {
        let options = self.rare().and_then(|rare| rare.options.as_ref());
        options.is_some_and(|options| options.has_follow_ups())
    }

    pub(super) fn is_cancel_asked(&self) -> bool {
        self.rare().is_some_and(|rare| rare.cancel_asked)
    }

    /// Sets the progress of its attempt; `None` clears it.
    pub(super) fn set_progress(&mut self, progress: Option<Arc<Progress>>) {
        if self.rare().is_some() || progress.is_some() {
            let plain = || Box::new(Rare::plain(Timestamp(self.due_at), self.created_at));
            self.extra.get_or_insert_default().rare.get_or_insert_with(plain).progress = progress;
        }
    }

    /// Whether it is in indexes other than its queue's: because it has a key, or must start in time.
    pub(super) fn is_indexed(&self) -> bool {
        self.rare().is_some_and(|rare| rare.key.is_some() || rare.expires.is_some())
    }

    fn rare(&self) -> Option<&Rare> {
        self.extra.as_ref()?.rare.as_deref()
    }
}

/// A lease length of a job's own, which is 0 if it has none.
fn own(lease_ms: u32) -> Option<u64> {
    (lease_ms > 0).then_some(lease_ms.into())
}

impl Extra {
    fn bytes(&self) -> usize {
        let origin = self.origin.as_ref().map_or(0, |origin| TEXT_BYTES + origin.len());
        size_of::<Self>() + origin + self.rare.as_ref().map_or(0, |rare| rare.bytes())
    }
}

impl Rare {
    fn bytes(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |message| message.len());
        let options = self.options.as_ref().map_or(0, |options| options.bytes());
        let tags: usize = self.tags.iter().map(|tag| TEXT_BYTES + tag.len()).sum();
        let errors: usize = self.errors.iter().map(|error| size_of::<AttemptError>() + error.message.len()).sum();
        let key = self.key.as_ref().map_or(0, |key| 2 * TEXT_BYTES + key.len());
        size_of::<Self>() + key + tags + errors + message + options
    }

    fn plain(due_at: Timestamp, created_at: Timestamp) -> Self {
        Self {
            epoch: 0,
            first_due_at: due_at,
            updated_at: created_at,
            started_at: None,
            crashes: 0,
            expires: None,
            key: None,
            key_until: KeyUntil::Finished,
            tags: Arc::default(),
            options: None,
            message: None,
            errors: Vec::new(),
            progress: None,
            cancel_asked: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meta;
    use crate::json::Span;
    use crate::model::job::{Due, NewJob};

    #[test]
    fn packing_loses_nothing() {
        let id = JobId::new(1).unwrap();
        let plain = NewJob::new(*b"x").accept(id, 1_000, 10).unwrap();
        let mut rich =
            NewJob { key: Some("k".into()), tags: vec!["t".into()], due: Due::After(Span(5)), ..NewJob::new(*b"x") }
                .accept(id, 1_000, 10)
                .unwrap();
        rich.crashes = 2;
        rich.message = Some("m".into());
        rich.origin = Some("o".into());
        rich.set_sent(Some(NewJob::new(*b"x").sent()));
        let with = |options: JobOptions| Job { options: options.shared(), ..plain.clone() };
        let traced = with(JobOptions { trace: Some("t".into()), ..JobOptions::default() });
        let told = Progress { percent: 1, note: None, at: Timestamp(9) };
        let under_way = Job { progress: Some(told.into()), ..plain.clone() };
        let leased = Job { lease: Some(Span(60_000)), ..plain.clone() };
        let repeatable = NewJob { origin: Some("o".into()), ..NewJob::new(*b"x") }.accept(id, 1_000, 10).unwrap();
        for small in [&leased, &repeatable] {
            assert!(Live::pack(small.clone(), Whereabouts::Ready, &mut Names::default()).rare().is_none());
        }
        for job in [plain, rich, traced, under_way, leased, repeatable] {
            assert_eq!(Live::pack(job.clone(), Whereabouts::Ready, &mut Names::default()).unpack(id), job);
        }
    }

    #[test]
    fn whatever_a_job_carries_counts_as_memory() {
        let bytes = |job: Job| Live::pack(job, Whereabouts::Ready, &mut Names::default()).bytes();
        let plain = NewJob::new(*b"x").accept(JobId::new(1).unwrap(), 1_000, 10).unwrap();
        let of_plain = bytes(plain.clone());
        let long: Arc<str> = "x".repeat(1_000).into();
        let errors = vec![AttemptError { at: Timestamp(1), attempt: 1, message: long.clone(), crashed: false }];
        let noted = Meta::from_iter([("n", long.clone())]);
        for larger in [
            Job { payload: vec![0; 1_000].into(), ..plain.clone() },
            Job { key: Some(long.clone()), ..plain.clone() },
            Job { origin: Some(long.clone()), ..plain.clone() },
            Job { tags: vec![long.clone()].into(), ..plain.clone() },
            Job { message: Some(long.clone()), ..plain.clone() },
            Job { options: JobOptions { trace: Some(long), ..JobOptions::default() }.shared(), ..plain.clone() },
            Job { options: JobOptions { meta: Some(noted.into()), ..JobOptions::default() }.shared(), ..plain.clone() },
            Job { errors, ..plain },
        ] {
            assert!(bytes(larger.clone()) > of_plain + 900, "{larger:?}");
        }
    }

    #[test]
    fn a_live_job_is_small() {
        assert_eq!((size_of::<Live>(), size_of::<Extra>()), (80, 56));
    }
}
