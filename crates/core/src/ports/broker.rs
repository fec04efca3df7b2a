//! The broker: live jobs, in order, and leases.

use super::broker_clock::{BrokerClock, Reading};
use super::edit::{Edit, Edited};
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
use crate::limits::MINUTE_MS;
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
/// - A memory that has not [begun](Self::begin) hands nothing out, whoever asks: it knows neither its generation nor what
///   limits queues. It takes jobs, shows them, and forgets entries. Other verbs begin it first, or fail.
/// - No job is handed out before its `due_at`, by [`now`](BrokerClock::now).
/// - Every change of a job leaves an [`OutboxEntry`] in the outbox in the same atomic step, and the entry stays until it is
///   forgotten. Of one job only the latest entry is kept. Leases, begun or extended, leave one only where the job has
///   one there already. A verb answers its entries as they stand in the outbox; a repeat answers those that still do.
/// - A job that ended here is not put again in a version below its end, up to twice
///   `READ_AGE_MS_MAX` after its entry was forgotten. Nor is one that [`forget`](Outbox::forget)
///   let go, in a version below that. An edit that does not know the job leaves a tombstone: no version is put until
///   `forget` answers it, or it lapses (no sooner than after twice that time).
/// - Where it may lose its memory while its users go on, its [`incarnation`](Self::incarnation) tells, and nothing is put
///   that was read before its present memory was known, by whatever clock.
/// - No verb touches an unbounded number of jobs in one atomic step.
#[async_trait]
pub trait Broker: BrokerClock + Outbox {
    /// Identifies the present life of its memory. If it differs from before, the broker may have lost jobs. Empty for a broker
    /// in the memory of one process.
    async fn incarnation(&self) -> Result<String, Error> {
        Ok(String::new())
    }

    /// The partition in which it holds a queue's jobs: their ids must name it.
    fn partition(&self, _queue: &str) -> u16 {
        0
    }

    /// Has its memory begin with what this host says, and any memory that may follow it; from now on the host is woken.
    /// Called once, before anything is asked for. Of a queue with a rate the burst counts as used up: the memory before may
    /// have let it pass just now.
    async fn begin(&self, host: Arc<dyn Host>) -> Result<(), Error>;

    /// Holds these jobs from now on: waiting, or leased where they carry a `lease_until`. Idempotent by id and version.
    ///
    /// Within [a bound](Room::Within) a waiting job that is not held yet is refused where its queue has no room: where it
    /// holds as many bytes as are left free of the bound. So no queue fills it alone. For a job that is due later than now
    /// a part of the bound counts ([`Room::share`]), so jobs that wait for their time keep out none that is due. A queue
    /// that holds no waiting job always gets one in.
    async fn put(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<Put>, Error>;

    /// Leases due jobs, most urgent first: by priority, then `due_at`, then id; queues in the order that they are
    /// named, each within its limits. Attempt and epoch are counted. With a limit of 0 it only answers
    /// [`next_at`](Reserved::next_at).
    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error>;

    /// Moves the end of leases, and takes down how far their jobs have come. That stays with a job until its next lease.
    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error>;

    /// Ends leases. Repeated with the receipt that finished a job it answers the same again, while it remembers.
    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error>;

    /// At most `limit` running jobs whose lease is over, and waiting ones that were not started in time, each a
    /// [head](Detail::Head).
    async fn expired(&self, limit: usize) -> Result<Expired, Error>;

    /// Changes jobs from outside. The entries are those of the changes. A broker whose outbox ends with its process adds those
    /// of the jobs that it answers as ended, because a crash would undo an end that is not recorded.
    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error>;

    /// The state of these jobs: live ones, and those whose outcome is still in the outbox.
    async fn get(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Job>>, Error>;

    /// Live jobs of one queue in due order (`due_at`, then id).
    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error>;

    /// Live jobs by queue: for each queue that is named, or for those that it knows, by name. A broker that is its own
    /// ledger also answers the tallies, from the same look.
    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Option<Tally>)>, Error>;

    /// Limits the handing out of a queue's jobs from now on, over all who reserve from it. `version` is that of the
    /// settings which say so: a call with a lower version than an earlier one changes nothing.
    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error>;

    /// From now on [`forget`](Outbox::forget) keeps what is due before this instant. Until it has been told one, and whenever it
    /// lost its memory, it keeps everything. It never goes back.
    async fn set_watermark(&self, watermark: Millis) -> Result<(), Error>;
}

impl dyn Broker {
    /// A reading of the ledger older than this is not put: it must be read again.
    pub const READ_AGE_MS_MAX: u64 = 5_000;
    /// How long a tombstone stands, in milliseconds: longer than anybody may put what they read before.
    pub const TOMBSTONE_MS: u64 = 2 * Self::READ_AGE_MS_MAX;
    /// The same for one that an edit left which was not answered.
    pub const UNSEEN_MS: u64 = MINUTE_MS;
}

/// What came of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is held (also where it was already, in this version or a later one).
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

/// How much of a job is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    Whole,
    /// All that a decision about the job needs. Payload and result may be left out; they are empty then.
    Head,
}

/// Where a reserve looks.
#[derive(Clone, Debug)]
pub enum Source {
    /// In these queues, in strict order.
    Queues(Vec<Arc<str>>),
    /// At these jobs, if they are due.
    Jobs(Vec<JobRef>),
}

/// A request for jobs.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// Where to look.
    pub source: Source,
    /// Whether the most urgent of all queues comes first, and not the queues in their order. Beside other partitions, only within
    /// each of them.
    pub merges: bool,
    /// Whether named jobs are leased also before they are due. They keep their due times.
    pub early: bool,
    /// At most so many; where much is to be passed over, it may be fewer than are due.
    pub limit: usize,
    /// Due when.
    pub window: Window,
    /// How long to lease them, in milliseconds; else each job's own length, its queue's, or the default.
    pub lease_ms: Option<u64>,
    /// The queues' own lease lengths, for those that have one.
    pub queue_leases: Arc<QueueLeases>,
    /// A repeat with the same id gets what the first got, if those leases are still live.
    pub request_id: Option<Arc<str>>,
    /// Whether the jobs are taken: they do not run, so `max_running` does not count. A broker that is its own ledger
    /// finishes them in the same step, as succeeded with the message [`TAKEN`](crate::rules::TAKEN). Any other leases them
    /// until the ledger has recorded that. Such a lease is edited by nobody ([`Edited::Running`]), and its end is answered
    /// apart ([`Expired::untaken`]).
    pub take: bool,
}

impl Reserve {
    /// Why a waiting job that is asked for by name is not handed out, as far as the job itself says.
    pub fn refusal(&self, job: &Job, version: Option<u64>, now: Millis) -> Option<Edited> {
        let is_due = (self.early || job.due_at <= now) && (self.window.from..=self.window.to).contains(&job.due_at);
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
pub struct Lease {
    /// The job, with what proves the lease ([`Job::receipt`]).
    pub job: Job,
    /// The length of the lease, in milliseconds.
    pub lease_ms: u64,
}

/// What a reserve got.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    /// The leases, or for a take of a broker that is its own ledger the finished jobs.
    pub leases: Vec<Lease>,
    /// Where this repeats a take: what that leased. Nothing is leased then.
    pub repeats: Vec<Receipt>,
    /// Before this instant nothing more is handed out of these queues; `None` where nothing waits, or where it has to be
    /// told first ([`wake`](Host::wake)) that something else has ended or changed.
    pub next_at: Option<Millis>,
    /// Named jobs that were not handed out, and why: an edit's answer. It leaves no tombstone.
    pub refused: Vec<(JobId, Edited)>,
    /// What it wrote to the outbox: leases of jobs that had an entry there already. Of a take these entries may stay as
    /// they were.
    pub entries: Vec<OutboxEntry>,
}

/// A lease to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend {
    /// Which.
    pub receipt: Receipt,
    /// Its end is to be so many milliseconds from now; `None`: the length that it began with.
    pub lease_ms: Option<u64>,
    /// How far the job has come; `None` leaves what was said before.
    pub progress: Option<Arc<Progress>>,
}

impl Extend {
    /// With nothing said of how far the job has come.
    pub fn new(receipt: Receipt, lease_ms: Option<u64>) -> Self {
        Self { receipt, lease_ms, progress: None }
    }
}

/// What came of an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease goes on.
    Until {
        /// When it ends, by the wall clock.
        lease_until: Millis,
        /// Its new version.
        version: u64,
        /// Whether the worker is asked to stop.
        cancel_asked: bool,
        /// The lease as the ledger records it, from a broker in the memory of one process. `None` if the outbox has an entry of
        /// the job: that contains the lease.
        lease: Option<LeaseRecord>,
    },
    /// The lease has ended.
    Lost,
}

/// A lease to end.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// Which.
    pub receipt: Receipt,
    /// End it only where the job has this version. A decision that its holder did not make, such as that the lease is over,
    /// carries the version it was made from, and loses against whatever has changed since.
    pub version: Option<u64>,
    /// The [head](Detail::Head) of the job that the decision was made from, where it was read: if it has not changed since,
    /// a remote broker need not read it again.
    pub read: Option<Box<Job>>,
    /// What becomes of the job.
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

/// What a settle did.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// For each lease the job's state now, or `None` where it had ended or the job has another version.
    pub states: Vec<Option<State>>,
    /// For each lease the run that ended, `None` also where it was settled before.
    pub runs: Vec<Option<Run>>,
    /// What it wrote to the outbox.
    pub entries: Vec<OutboxEntry>,
}

/// A run that was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The job's queue.
    pub queue: Arc<str>,
    /// Which handler it is for. A broker may leave it out where nobody listens.
    pub kind: Option<Arc<str>>,
    /// Its attempts, as they count now.
    pub attempt: u32,
    /// From when it may run, where it waits now.
    pub due_at: Millis,
    /// When its lease began.
    pub started_at: Millis,
}

impl Run {
    /// The last one of a job that runs no more.
    pub fn of(job: &Job) -> Self {
        Self {
            queue: job.queue.clone(),
            kind: Some(job.kind.clone()),
            attempt: job.attempt,
            due_at: job.due_at,
            started_at: job.started_at.unwrap_or(job.updated_at),
        }
    }
}

/// What has run out.
#[derive(Clone, Debug, Default)]
pub struct Expired {
    /// Running jobs whose lease is over.
    pub crashed: Vec<Job>,
    /// The same of jobs that were leased by a take: whether they were taken, the ledger knows.
    pub untaken: Vec<Job>,
    /// Waiting jobs that were not started in time.
    pub unstarted: Vec<Job>,
    /// In how many milliseconds the next one may run out, of those that are known now; 0 where there are more now, `None`
    /// where nothing can.
    pub next_ms: Option<u64>,
    /// Whether the broker has no room for new jobs.
    pub is_full: bool,
}

/// Which live jobs to list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Their queue.
    pub queue: Arc<str>,
    /// Scheduled, ready, running: those that are named.
    pub states: Vec<State>,
    /// Due when.
    pub window: Window,
    /// Those after this one in the order.
    pub after: Option<(Millis, JobId)>,
    /// At most so many.
    pub limit: usize,
}

/// Live jobs of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Due in the future.
    pub scheduled: u64,
    /// Due now.
    pub ready: u64,
    /// Leased.
    pub running: u64,
    /// The earliest `due_at` among the ready.
    pub oldest_due: Option<Millis>,
    /// Whether the queue is paused.
    pub paused: bool,
}
