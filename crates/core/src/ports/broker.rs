//! The broker: live jobs, in order, and leases.

use super::broker_clock::{BrokerClock, Reading};
use super::host::Host;
use super::leases::LeaseRecord;
use super::ledger::{OutboxEntry, Tally};
use super::limits::Limits;
use super::outbox::Outbox;
use super::queue_leases::QueueLeases;
use super::queues::Queues;
use super::room::Room;
use super::window::Window;
use crate::clock::Millis;
use crate::error::Error;
use crate::json::{Span, Timestamp};
use crate::limits::{MINUTE_MS, SECOND_MS};
use crate::model::edit::{Edit, Edited};
use crate::model::id::{JobId, JobRef, Receipt};
use crate::model::job::{Job, State};
use crate::model::progress::Progress;
use crate::rules::Decision;
use async_trait::async_trait;
use std::sync::Arc;

/// Holds live jobs.
///
/// # Contract
/// - A job has at most one live lease. Epochs and versions only grow, each new one by [`crate::model::id::Numbers`].
/// - A memory that has not [begun](Self::begin) hands nothing out: it knows neither its generation nor the limits of queues.
///   It takes jobs, shows them, and forgets entries. Other verbs begin it first, or fail.
/// - No job is handed out before its `due_at`, by [`now`](BrokerClock::now).
/// - Every change of a job leaves an [`OutboxEntry`] in the outbox in the same atomic step, and the entry stays until it is
///   forgotten. Only the latest entry of a job is kept. A lease, begun or extended, leaves one only if the job has one there
///   already. A verb returns its entries as they stand in the outbox; a repeat returns those that still do.
/// - A job that ended here is not put again in a version below its end, up to twice `READ_AGE_MS_MAX` after its entry was
///   forgotten. Nor is one that [`forget`](Outbox::forget) dropped, in a version below that, nor one that is
///   [barred](Self::bar).
/// - If it may lose its memory while its users continue, its [`incarnation`](Self::incarnation) shows that, and nothing is
///   put that was read before its present memory was known, by whatever clock.
/// - No verb touches an unbounded number of jobs in one atomic step.
#[async_trait]
pub trait Broker: BrokerClock + Outbox {
    /// Identifies the present life of its memory. If it differs from before, the broker may have lost jobs. Empty for a
    /// broker in the memory of one process.
    async fn incarnation(&self) -> Result<String, Error> {
        Ok(String::new())
    }

    /// Whether other processes may use it. It outlives this process then, and remembers leases itself.
    fn is_shared(&self) -> bool;

    /// Why no call reaches it at the moment, as its connections show without a call: they are closed, and new ones are refused.
    /// A broker that is only slow is reached.
    fn unreached(&self) -> Option<Error> {
        None
    }

    /// Whether it is its own ledger: recording a job puts it, it holds all pending jobs, and nothing is added to the outbox
    /// but copies that go to other queues.
    fn is_ledger(&self) -> bool {
        false
    }

    /// Whether several processes share both it and a ledger beside it. One of them leads: it loads, drains the outbox and prunes
    /// for all.
    fn shares_ledger(&self) -> bool {
        self.is_shared() && !self.is_ledger()
    }

    /// The partition in which it holds a queue's jobs: their ids must name it.
    fn partition(&self, _queue: &str) -> u16 {
        0
    }

    /// The names of queues that it knows in this partition, from this one on, in order; at most `limit`, and fewer only at the end.
    async fn queues_in(&self, partition: u16, from: &str, limit: usize) -> Result<Vec<Arc<str>>, Error> {
        let (mut found, mut queues) = (Vec::new(), Some(Queues::From(from.into(), limit)));
        while let Some(asked) = queues.take().filter(|_| found.len() < limit) {
            let counted = self.counts(asked.clone()).await?;
            queues = asked.next(counted.iter().map(|(queue, ..)| queue));
            found.extend(
                counted.into_iter().map(|(queue, ..)| queue).filter(|queue| self.partition(queue) == partition),
            );
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Running jobs of this partition, each a [head](Detail::Head), by the ends of their leases: those after this place, about
    /// `limit` of them, and the place after which there are more. Pages show each job whose lease does not end meanwhile.
    async fn running_in(
        &self,
        partition: u16,
        _after: Option<(Millis, JobId)>,
        _limit: usize,
    ) -> Result<(Vec<Job>, Option<(Millis, JobId)>), Error> {
        let (mut jobs, mut queues) = (Vec::new(), Some(Queues::first()));
        while let Some(asked) = queues.take() {
            let counted = self.counts(asked.clone()).await?;
            queues = asked.next(counted.iter().map(|(queue, ..)| queue));
            let named = counted.into_iter().map(|(queue, ..)| queue);
            for queue in named.filter(|queue| self.partition(queue) == partition) {
                let (states, window, limit, detail) = (vec![State::Running], Window::ALL, usize::MAX, Detail::Head);
                jobs.extend(self.list(Listing { queue, states, window, after: None, limit, detail }).await?);
            }
        }
        Ok((jobs, None))
    }

    /// Makes its memory, and any memory that may follow it, begin with the values of this host; from now on the host is
    /// woken. Called once, before any other verb. The burst of a queue with a rate counts as used up: the memory before may
    /// just have let it pass.
    async fn begin(&self, host: Arc<dyn Host>) -> Result<(), Error>;

    /// Holds these jobs from now on: waiting, or leased if they carry a `lease_until`. Idempotent by id and version.
    ///
    /// Within [a bound](Room::Within) a waiting job that is not held yet is refused if its queue has no room: if the queue
    /// holds as many bytes as are left free of the bound. So no queue fills the broker alone. For a job that is due later
    /// than now only a part of the bound counts ([`Room::share`]), so jobs that wait for their time keep out none that is
    /// due. A queue that holds no waiting job always gets one in.
    async fn put(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<Put>, Error>;

    /// The ledger has these jobs in these versions. Drops those that wait here in that version, are in no entry of the outbox,
    /// and have no [room](Room::Within) any more, because they grew: a failed attempt keeps its error. Returns them. The
    /// caller has the ledger mark them as not loaded; until then only a new process would load them. So a shared broker,
    /// which may outlive the caller, drops none.
    async fn crowded_out(&self, _jobs: &[(JobId, u64)], _room: Room) -> Result<Vec<Job>, Error> {
        Ok(Vec::new())
    }

    /// Leases due jobs, most urgent first: by priority, then `due_at`, then id; queues in the given order, each within its
    /// limits. Attempt and epoch are counted.
    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error>;

    /// Takes due jobs, in the same order: they do not run, so `max_running` does not count. A broker that is its own ledger
    /// finishes them in the same step, as succeeded with the message [`TAKEN`](crate::rules::TAKEN). Any other leases them
    /// for `TAKE_LEASE_MS`, until the ledger has recorded that. Such a lease cannot be edited ([`Edited::Running`]), and its
    /// end is reported separately ([`Expired::untaken`]).
    async fn take(&self, take: Take) -> Result<Taken, Error>;

    /// The instant before which nothing more is handed out of a queue, as of the last look at it. `None` if nothing waits, or
    /// if the next job depends on an event other than the time.
    async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error>;

    /// Extends leases, and records the progress of their jobs, which stays with a job until its next lease.
    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error>;

    /// Ends leases. Repeated with the receipt that finished a job it returns the same again, while it remembers.
    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error>;

    /// At most `limit` running jobs whose leases have expired, and waiting ones that were not started in time, each a
    /// [head](Detail::Head). Of large ones it returns few at a time.
    async fn expired(&self, limit: usize) -> Result<Expired, Error>;

    /// Changes jobs from outside. The entries are those of the changes. A broker whose outbox ends with its process adds
    /// those of the jobs that it returns as ended, because a crash would undo an end that is not recorded.
    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error>;

    /// The ledger has these jobs in these versions, and is about to edit them, if they still have them then: they are not put
    /// in these or earlier versions for `BARRED_MS`. Returns those that are here already; they
    /// are left alone, to be edited here.
    ///
    /// So nothing has to be taken back if the edit fails or its engine dies: a later version shows that it was made, or can
    /// no longer be made, and is put.
    async fn bar(&self, rows: &[(JobId, u64)]) -> Result<Vec<JobId>, Error>;

    /// The state of these jobs: live ones, and those whose outcome is still in the outbox.
    async fn get(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Job>>, Error>;

    /// Live jobs of one queue in due order (`due_at`, then id). A page of large jobs ends early, but none is empty before the
    /// last one.
    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error>;

    /// Live jobs by queue: for each named queue, or for those that it has, by name. A broker that is its own ledger also
    /// returns the tallies, from the same read.
    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Option<Tally>)>, Error>;

    /// Sets the limits of a queue over all callers of `reserve`. `version` is that of the settings: a call with a lower
    /// version than an earlier one changes nothing.
    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error>;

    /// Removes what it keeps of a queue: its limits in any case, and if it holds no job of it, and as its own ledger no record,
    /// also its name and its counts. Returns whether these are gone, and were there before. Limits of settings up to this
    /// version change nothing from now on; 0 if the queue had no settings.
    async fn remove_queue(&self, queue: &Arc<str>, version: u64) -> Result<bool, Error>;

    /// From now on [`forget`](Outbox::forget) keeps jobs due before this instant. Until the first call, and whenever it has
    /// lost its memory, it keeps everything. The watermark never goes back.
    async fn set_watermark(&self, watermark: Millis) -> Result<(), Error>;
}

impl dyn Broker {
    /// A reading of the ledger older than this is not put: it must be read again.
    pub const READ_AGE_MS_MAX: u64 = 5_000;
    /// How long a tombstone lasts, in milliseconds: longer than any earlier reading may still be put.
    pub const TOMBSTONE_MS: u64 = 2 * Self::READ_AGE_MS_MAX;
    /// How long an edit of the ledger may take: the same for jobs that are barred.
    pub const BARRED_MS: u64 = MINUTE_MS;
    /// How long jobs are leased to be taken; after that their rows are checked.
    pub const TAKE_LEASE_MS: u64 = 30 * SECOND_MS;
}

/// The outcome of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is held (also if it was already, in this version or a later one).
    Held,
    /// A tombstone says that the job has changed since it was read: read it again later.
    Tombstone,
    /// It was read too long ago, by a clock that was set back since, or before this memory was known: read it again.
    Stale,
    /// Another live job of the queue holds its key.
    KeyHeld(JobId),
    /// Its queue has no room: it waits in the ledger.
    Full,
}

/// The parts of a job that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    Whole,
    /// All that a decision about the job needs. Payload and result may be left out; they are empty then.
    Head,
}

/// The source of a reserve.
#[derive(Clone, Debug)]
pub enum Source {
    /// These queues, in strict order.
    Queues(Vec<Arc<str>>),
    /// These jobs, if they are due.
    Jobs(Vec<JobRef>),
}

/// This queue.
impl From<&str> for Source {
    fn from(queue: &str) -> Self {
        Self::Queues(vec![queue.into()])
    }
}

/// Which jobs are picked.
#[derive(Clone, Debug)]
pub enum Pick {
    /// Due ones of these queues, in strict order: those of a queue once those before it have none left.
    InOrder(Vec<Arc<str>>),
    /// Due ones of these queues, the most urgent of all first. With several partitions, only within each of them.
    MostUrgent(Vec<Arc<str>>),
    /// These, if they are due.
    Named(Vec<JobRef>),
    /// This one, due or not. It keeps its due time.
    Early(JobRef),
}

impl Pick {
    /// As [`From`], but of several queues the most urgent job first.
    pub(crate) fn most_urgent(source: Source) -> Self {
        match source {
            Source::Queues(queues) => Self::MostUrgent(queues),
            Source::Jobs(jobs) => Self::Named(jobs),
        }
    }

    /// The queues, unless jobs are named.
    pub fn queues(&self) -> Option<&[Arc<str>]> {
        match self {
            Self::InOrder(queues) | Self::MostUrgent(queues) => Some(queues),
            Self::Named(_) | Self::Early(_) => None,
        }
    }

    /// The jobs that are named.
    pub fn named(&self) -> &[JobRef] {
        match self {
            Self::InOrder(_) | Self::MostUrgent(_) => &[],
            Self::Named(jobs) => jobs,
            Self::Early(job) => std::slice::from_ref(job),
        }
    }
}

impl From<Source> for Pick {
    fn from(source: Source) -> Self {
        match source {
            Source::Queues(queues) => Self::InOrder(queues),
            Source::Jobs(jobs) => Self::Named(jobs),
        }
    }
}

/// A request for jobs to run.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// The jobs.
    pub pick: Pick,
    /// The maximum number of jobs; if many are skipped, it may return fewer than are due.
    pub limit: usize,
    /// The lease in milliseconds; else each job's own length, its queue's, or the default.
    pub lease_ms: Option<u64>,
    /// The queues' own lease lengths, for those that have one.
    pub queue_leases: Arc<QueueLeases>,
    /// A repeat with the same id gets the same leases, if they are still live.
    pub request_id: Option<Arc<str>>,
}

impl Reserve {
    /// At most this many of these jobs, for the leases that they ask for.
    pub fn new(pick: Pick, limit: usize) -> Self {
        Self { pick, limit, lease_ms: None, queue_leases: Arc::default(), request_id: None }
    }
}

/// A request for jobs to take.
#[derive(Clone, Debug)]
pub struct Take {
    /// The jobs.
    pub from: Source,
    /// The maximum number of jobs; if many are skipped, it may return fewer than are due.
    pub limit: usize,
    /// The range of due times.
    pub window: Window,
    /// A repeat with the same id takes nothing more.
    pub request_id: Option<Arc<str>>,
}

impl Take {
    /// At most this many of these jobs, whenever they were due.
    pub fn new(from: Source, limit: usize) -> Self {
        Self { from, limit, window: Window::ALL, request_id: None }
    }
}

/// A reserve or a take, for code that treats both alike.
#[derive(Clone, Copy, Debug)]
pub enum HandOut<'a> {
    /// Jobs to run.
    Reserve(&'a Reserve),
    /// Jobs to take.
    Take(&'a Take),
}

impl<'a> HandOut<'a> {
    /// Whether the jobs are taken.
    pub fn takes(self) -> bool {
        matches!(self, Self::Take(_))
    }

    /// The queues, unless jobs are named.
    pub fn queues(self) -> Option<&'a [Arc<str>]> {
        match self {
            Self::Reserve(reserve) => reserve.pick.queues(),
            Self::Take(Take { from: Source::Queues(queues), .. }) => Some(queues),
            Self::Take(Take { from: Source::Jobs(_), .. }) => None,
        }
    }

    /// The jobs that are named.
    pub fn named(self) -> &'a [JobRef] {
        match self {
            Self::Reserve(reserve) => reserve.pick.named(),
            Self::Take(Take { from: Source::Jobs(jobs), .. }) => jobs,
            Self::Take(Take { from: Source::Queues(_), .. }) => &[],
        }
    }

    /// Whether the most urgent job of several queues comes first.
    pub fn is_merged(self) -> bool {
        let most_urgent = matches!(self, Self::Reserve(Reserve { pick: Pick::MostUrgent(_), .. }));
        most_urgent && self.queues().is_some_and(|queues| queues.len() > 1)
    }

    /// Whether the job that is named need not be due.
    pub fn is_early(self) -> bool {
        matches!(self, Self::Reserve(Reserve { pick: Pick::Early(_), .. }))
    }

    /// The maximum number of jobs.
    pub fn limit(self) -> usize {
        match self {
            Self::Reserve(reserve) => reserve.limit,
            Self::Take(take) => take.limit,
        }
    }

    /// The range of due times.
    pub fn window(self) -> Window {
        match self {
            Self::Reserve(_) => Window::ALL,
            Self::Take(take) => take.window,
        }
    }

    /// What a repeat is known by.
    pub fn request_id(self) -> Option<&'a Arc<str>> {
        match self {
            Self::Reserve(reserve) => reserve.request_id.as_ref(),
            Self::Take(take) => take.request_id.as_ref(),
        }
    }

    /// The lease that it gives to all its jobs, in milliseconds.
    pub fn lease_ms(self) -> Option<u64> {
        match self {
            Self::Reserve(reserve) => reserve.lease_ms,
            Self::Take(_) => Some(<dyn Broker>::TAKE_LEASE_MS),
        }
    }

    /// The lease length that a queue has.
    pub fn queue_lease_ms(self, queue: &str) -> Option<u64> {
        match self {
            Self::Reserve(reserve) => reserve.queue_leases.of(queue),
            Self::Take(_) => None,
        }
    }

    /// Why a waiting job that was requested by id is not handed out, judging by the job alone.
    pub fn refusal(self, job: &Job, version: Option<u64>, now: Millis) -> Option<Edited> {
        let window = self.window();
        let is_due =
            (self.is_early() || job.due_at <= Timestamp(now)) && (window.from..=window.to).contains(&job.due_at.0);
        if version.is_some_and(|version| version != job.version) {
            Some(Edited::Mismatch(job.clone()))
        } else if job.lease_until.is_some() {
            Some(Edited::Running(job.clone()))
        } else if !is_due || job.start_by().is_some_and(|by| by <= now) {
            Some(Edited::Unfit { id: job.id, state: job.state(now) })
        } else {
            None
        }
    }
}

/// A leased job. The job carries `lease_until`, `attempt` and `epoch` as they are now.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Lease {
    /// The job, with what proves the lease ([`Job::receipt`]).
    pub job: Job,
    /// The length of the lease.
    pub length: Span,
}

impl Lease {
    /// A lease of this length.
    #[doc(hidden)]
    pub fn new(job: Job, length: Span) -> Self {
        Self { job, length }
    }
}

/// The result of a reserve.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    /// The leases.
    pub leases: Vec<Lease>,
    /// Whether it repeats a request that got leases: these are those that are still held, if any.
    pub is_repeat: bool,
    /// Before this instant nothing more is handed out of these queues. `None` if nothing waits, or if the next job depends
    /// on another event that [`wake`](Host::wake) will report.
    pub next_at: Option<Millis>,
    /// Named jobs that were not handed out, and why: an edit's answer. It leaves no tombstone.
    pub refused: Vec<(JobId, Edited)>,
    /// The entries that it wrote to the outbox: leases of jobs that had an entry there already.
    pub entries: Vec<OutboxEntry>,
}

/// The result of a take.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// As of a reserve. A broker that is its own ledger has finished the jobs. Entries may stay as they were.
    pub reserved: Reserved,
    /// If this repeats a take: the leases of the first one. Nothing is leased then.
    pub repeats: Vec<Receipt>,
}

impl AsMut<Reserved> for Reserved {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl AsMut<Reserved> for Taken {
    fn as_mut(&mut self) -> &mut Reserved {
        &mut self.reserved
    }
}

/// A lease to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend {
    /// The lease.
    pub receipt: Receipt,
    /// The new end in milliseconds from now; `None`: the original length.
    pub lease_ms: Option<u64>,
    /// The job's progress; `None` leaves it unchanged.
    pub progress: Option<Arc<Progress>>,
}

impl Extend {
    /// Without progress.
    pub fn new(receipt: Receipt, lease_ms: Option<u64>) -> Self {
        Self { receipt, lease_ms, progress: None }
    }
}

/// The outcome of an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease continues.
    Until {
        /// When it ends, by the wall clock.
        lease_until: Millis,
        /// Its new version.
        version: u64,
        /// Whether the worker is asked to stop.
        cancel_asked: bool,
        /// The lease as the ledger records it, from a broker in the memory of one process. `None` if the outbox has an entry
        /// of the job: that contains the lease.
        lease: Option<LeaseRecord>,
    },
    /// The lease has ended.
    Lost,
}

/// A lease to end.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// The lease.
    pub receipt: Receipt,
    /// End it only if the job has this version. A decision that its holder did not make, such as that the lease has expired,
    /// carries the version it was made from, and loses against any later change.
    pub version: Option<u64>,
    /// The [head](Detail::Head) of the job that the decision was made from, if it was read. If it has not changed since, a
    /// remote broker need not read it again.
    pub read: Option<Box<Job>>,
    /// The job's new state.
    pub decision: Decision,
}

impl Settle {
    /// By the holder of the lease, whatever has changed meanwhile.
    pub fn new(receipt: Receipt, decision: Decision) -> Self {
        Self { receipt, version: None, read: None, decision }
    }

    /// From a reading, while the job is still as it was read.
    pub fn while_unchanged(read: Job, decision: Decision) -> Self {
        Self { receipt: read.receipt(), version: Some(read.version), read: Some(Box::new(read)), decision }
    }
}

/// The result of a settle.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// For each lease the job's state now, or `None` if it had ended or the job has another version.
    pub states: Vec<Option<State>>,
    /// For each lease the run that ended; `None` also if it was settled before.
    pub runs: Vec<Option<Run>>,
    /// The entries that it wrote to the outbox.
    pub entries: Vec<OutboxEntry>,
    /// Those that were not carried out, with their positions: the decision lacks the jobs that are to begin with the end
    /// ([`rules::is_whole`](crate::rules::is_whole)). The lease goes on.
    pub undecided: Vec<(usize, Settle)>,
}

/// A run that was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The job's queue.
    pub queue: Arc<str>,
    /// The handler that it is for. A broker may leave it out if nobody has subscribed.
    pub kind: Option<Arc<str>>,
    /// Its attempts, as they count now.
    pub attempt: u32,
    /// The earliest time at which it may run, if it waits now.
    pub due_at: Millis,
    /// When its lease began.
    pub started_at: Millis,
}

impl Run {
    /// The last run of a job that no longer runs.
    pub fn of(job: &Job) -> Self {
        Self {
            queue: job.queue.clone(),
            kind: Some(job.kind.clone()),
            attempt: job.attempt,
            due_at: job.due_at.0,
            started_at: job.started_at.unwrap_or(job.updated_at).0,
        }
    }
}

/// Expired leases and jobs.
#[derive(Clone, Debug, Default)]
pub struct Expired {
    /// Running jobs whose leases have expired.
    pub crashed: Vec<Job>,
    /// The same for jobs that were leased by a take: the ledger knows whether they were taken.
    pub untaken: Vec<Job>,
    /// Waiting jobs that were not started in time.
    pub unstarted: Vec<Job>,
    /// In how many milliseconds the next known lease or job may expire; 0 if there are more now, `None` if nothing can.
    pub next_ms: Option<u64>,
    /// Whether the broker has no room for new jobs.
    pub is_full: bool,
}

/// The live jobs to list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Their queue.
    pub queue: Arc<str>,
    /// Scheduled, ready, running: those that are named.
    pub states: Vec<State>,
    /// The range of due times.
    pub window: Window,
    /// Those after this one in the order.
    pub after: Option<(Millis, JobId)>,
    /// The maximum number of jobs.
    pub limit: usize,
    /// What is read of them.
    pub detail: Detail,
}

/// The number of due jobs that a count examines for the one that waits longest, while each was made after its due time.
pub const OLDEST_HEADS: usize = 16;
/// A job that was made at most this long after its due time ends that search, in milliseconds.
pub const OLDEST_LATE_MS: u64 = 1_000;

/// Live jobs of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Counts {
    /// Due in the future.
    pub scheduled: u64,
    /// Due now.
    pub ready: u64,
    /// Leased.
    pub running: u64,
    /// Since when the ready job that waits longest is ready: its due time, or when it was made if that is later. Jobs that
    /// were made more than a second after their due time may hide others: of each priority (or of the queue), only the
    /// first [`OLDEST_HEADS`] that are due are examined.
    pub oldest_due: Option<Timestamp>,
    /// Whether the queue is paused.
    pub paused: bool,
}

impl Counts {
    /// Of scheduled, ready and running jobs.
    #[doc(hidden)]
    pub fn new([scheduled, ready, running]: [u64; 3], oldest_due: Option<Millis>, paused: bool) -> Self {
        Self { scheduled, ready, running, oldest_due: oldest_due.map(Timestamp), paused }
    }
}
