//! The engine as its callers see it: each verb is handed on to the service that does it.

use super::events::{Filter, Subscription, Transition};
use super::services::Services;
use crate::api;
use crate::api::{DegradedCode, DueCounts, Failures, Health, HistorySpan, Why, Workers as Page};
use crate::clock::{Millis, MovableClock};
use crate::engine::handout::Unclaimed;
use crate::engine::metrics::Metrics;
use crate::engine::observatory::{Starts, Sum, TargetDown};
use crate::engine::precondition::Precondition;
use crate::engine::status::Fault;
use crate::error::Error;
use crate::json::Span;
use crate::model::id::{JobId, JobRef, Receipt};
use crate::model::job::{Job, NewJob};
use crate::ports::{Change, Grant, Holding, Lease, LockList, Pick, Released};
use crate::request::{
    Answers, BulkAction, BulkCounts, CancelOutcome, Ending, Extension, Imported, Listed, LockRequest, Outcome, Patch,
    Pause, Pushed, Query, QueueSettings, QueueStatus, Reservation, ReserveRequest, Settlement, TakeRequest,
};
use crate::schedule::{Schedule, ScheduleStatus};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A running engine: a cheap handle, to be cloned.
#[derive(Clone)]
pub struct Engine {
    services: Arc<Services>,
}

impl Engine {
    /// An engine of these services.
    pub(super) fn of(services: Services) -> Self {
        Self { services: Arc::new(services) }
    }

    /// The current time, in milliseconds since 1970: the broker's clock, or an instant that it has surely reached.
    pub fn now(&self) -> Millis {
        self.services.vitals.now()
    }

    /// The start of delays: the broker's clock, or an instant that it has not passed.
    pub fn now_at_most(&self) -> Millis {
        self.services.vitals.now_at_most()
    }

    /// Moves its clock forward, and has everything happen on the way that happens by time alone, each at its instant and in its
    /// order: jobs become due, schedules tick, leases and pauses end. Returns what the clock reads then. What became due is
    /// ready to be reserved. Calls are made one after the other.
    ///
    /// It goes from instant to instant, so a month takes no longer than what happens in it. The engine must be on this clock,
    /// alone with its stores, with a horizon beyond all of its jobs.
    pub async fn advance(&self, clock: &MovableClock, by: Span) -> Millis {
        self.services.timers.advance(clock, by).await
    }

    /// The largest payload that it takes, in bytes.
    pub fn payload_bytes_max(&self) -> usize {
        self.services.vitals.payload_bytes_max()
    }

    /// Whether other processes may use the same broker.
    pub fn is_shared(&self) -> bool {
        self.services.vitals.is_shared()
    }

    /// Whether a ledger other than the broker records the jobs.
    pub fn has_ledger(&self) -> bool {
        self.services.vitals.has_ledger()
    }

    /// The engine's health.
    pub fn health(&self) -> Health {
        self.services.vitals.health()
    }

    /// Records for [`health`](Self::health) why a part around the engine does not work, or `None` if it does. Logged when it begins
    /// and when it ends.
    pub fn set_degraded(&self, part: DegradedCode, trouble: Option<impl std::fmt::Display>) {
        self.services.vitals.set_degraded(part, trouble);
    }

    /// Waits until a background task has ended although the engine was not stopped: it panicked. The engine is not ready
    /// from then on, and a process that runs it should stop it, end, and be started again.
    pub async fn fault(&self) -> Fault {
        self.services.vitals.fault().await
    }

    /// The counters of this process.
    pub fn metrics(&self) -> &Metrics {
        self.services.vitals.metrics()
    }

    /// Refuses new requests, ends waiting ones, records outcomes under way, and closes the ledger.
    ///
    /// # Errors
    /// If something could not be recorded.
    pub async fn stop(&self) -> Result<(), Error> {
        self.services.vitals.stop().await
    }

    /// Waits until a broker that is shared with other processes has not answered for 3 s. A stop waits no longer for what needs
    /// the broker: that fails, and whatever was acknowledged is in the broker, where other processes find it.
    pub async fn broker_is_silent(&self) {
        self.services.vitals.broker_is_silent().await;
    }

    /// Pushes jobs; jobs answered with `Ok` are recorded. Not atomic as a whole. May be repeated if each job has an origin.
    ///
    /// # Errors
    /// If the batch as a whole breaks a limit, nothing is pushed. If the ledger cannot be written, nothing is acknowledged,
    /// though a ledger that several processes share may hold a part of a large batch.
    pub async fn push(&self, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        self.services.intake.push(jobs).await
    }

    /// Records whole jobs. Their state, attempts, versions and epochs stay, and waiting jobs keep their due times. Leases
    /// are not imported: a running job becomes a waiting one. Not atomic as a whole.
    ///
    /// # Errors
    /// If the batch as a whole breaks a limit, or the ledger cannot be written: then a part of it may be recorded, and the
    /// import may be repeated. For one job [`Error::Invalid`], also if its id is another job's here, and
    /// [`Error::KeyConflict`].
    pub async fn import(&self, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        self.services.intake.import(jobs).await
    }

    /// Pushes a copy of a job into another queue, with its kind, payload, priority and tags.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it was forwarded too often; as [`push`](Self::push).
    pub async fn hand_on(&self, job: &Job, queue: &Arc<str>) -> Result<Pushed, Error> {
        self.services.intake.hand_on(job, queue).await
    }

    /// Leases due jobs, waiting if none is due. Dropped before it is ready, it has leased nothing, or gives it back.
    ///
    /// # Errors
    /// [`Error::Invalid`] beyond a limit; [`Error::Backlog`]; [`Error::Stopping`].
    pub async fn reserve(&self, request: ReserveRequest) -> Result<Reservation, Error> {
        Ok(self.services.handout.reserve(request, Pick::from).await?.claim())
    }

    /// The same for a caller that may disconnect before it has the answer.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_unclaimed(&self, request: ReserveRequest) -> Result<Unclaimed, Error> {
        self.services.handout.reserve(request, Pick::from).await
    }

    /// The same, with the most urgent jobs of all queues first, in any order of the queues.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_most_urgent(&self, request: ReserveRequest) -> Result<Unclaimed, Error> {
        self.services.handout.reserve(request, Pick::most_urgent).await
    }

    /// Leases a waiting job, even before it is due. When given back, it is due.
    ///
    /// # Errors
    /// [`Error::Running`], [`Error::Finished`], [`Error::NotFound`]; [`Error::HeldBack`] and [`Error::NotDue`] if its queue
    /// is paused or limited; as [`reserve`](Self::reserve).
    pub async fn reserve_early(&self, id: JobId) -> Result<Lease, Error> {
        self.services.handout.reserve_early(id).await
    }

    /// Extends leases to this many milliseconds from now (`None`: their original length).
    pub async fn extend(&self, leases: Vec<(Receipt, Option<u64>)>) -> Answers<Extension> {
        self.services.handout.extend(leases).await
    }

    /// Records the progress of a leased job, 0 to 100 percent, with a note of at most 1 KiB. That also extends its lease, by
    /// its original length, since the worker is evidently alive.
    ///
    /// # Errors
    /// [`Error::Invalid`] beyond a limit; [`Error::LeaseLost`] if the lease has ended.
    pub async fn progress(&self, receipt: Receipt, percent: u8, note: Option<Arc<str>>) -> Result<Extension, Error> {
        self.services.handout.progress(receipt, percent, note).await
    }

    /// Hands out due jobs and finishes them: at most once. Answered once that is recorded.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve). [`Error::Full`] and [`Error::Unavailable`] if it could not be recorded: nothing was
    /// handed out. It may be repeated; if the store did not say whether it was recorded, the same request id gets the jobs
    /// later.
    pub async fn take(&self, request: TakeRequest) -> Result<Reservation, Error> {
        self.services.takes.take(request).await
    }

    /// Ends leases. A settle that is sent again after its reply was lost gets the first answer if it finished the job; also
    /// after a restart. If an end cannot be recorded, it counts and is kept, and its answer is the error: repeat it until it
    /// is recorded. A broker that several processes share keeps it safe, so there it is answered.
    pub async fn settle(&self, outcomes: Vec<(Receipt, Outcome)>) -> Answers<Settlement> {
        self.services.settler.settle(outcomes).await
    }

    /// The same for all endings that there are: those of ports of other protocols too.
    pub async fn end_leases(&self, outcomes: Vec<(Receipt, Ending)>) -> Answers<Settlement> {
        self.services.settler.end_leases(outcomes).await
    }

    /// Cancels jobs: a waiting one will not run; a running one's worker is asked to stop.
    pub async fn cancel(&self, targets: Vec<JobRef>) -> Answers<CancelOutcome> {
        self.services.editor.cancel(targets).await
    }

    /// Changes a waiting job.
    ///
    /// # Errors
    /// [`Error::Running`], [`Error::Finished`], [`Error::VersionMismatch`], [`Error::NotFound`]; [`Error::Invalid`].
    pub async fn update(&self, target: JobRef, patch: Patch) -> Result<Job, Error> {
        self.services.editor.update(target, patch).await
    }

    /// Makes a waiting job due now.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn run(&self, target: JobRef) -> Result<Job, Error> {
        self.services.editor.run(target).await
    }

    /// Makes finished jobs ready again, with attempt 0.
    pub async fn retry(&self, targets: Vec<JobRef>) -> Answers<Job> {
        self.services.editor.retry(targets).await
    }

    /// Makes a change of each of these jobs. For ports of other protocols: what they keep with a job changes with it.
    pub async fn change_each(&self, changes: Vec<(JobRef, Change)>) -> Answers<Job> {
        self.services.editor.change_each(changes).await
    }

    /// Removes jobs that do not run, with their records.
    pub async fn delete(&self, targets: Vec<JobRef>) -> Answers<()> {
        self.services.editor.delete(targets).await
    }

    /// Cancels, retries, reschedules or deletes every job that the query finds; a query without conditions is refused. Jobs
    /// are read page by page: jobs that are pushed or end meanwhile may or may not be found. A delay begins with the call: a
    /// repeated call postpones the jobs again. Jobs that already have the new due time are not counted; for a reschedule to
    /// now, neither are due jobs.
    ///
    /// # Errors
    /// [`Error::Invalid`]; or of the ledger, in which case changes made so far remain.
    pub async fn bulk(&self, query: &Query, action: BulkAction) -> Result<BulkCounts, Error> {
        self.bulk_while(query, action, &|| true).await
    }

    /// The same for as long as this is true, which is asked before each page is changed. Otherwise it ends early, with the counts
    /// until then.
    ///
    /// # Errors
    /// As [`bulk`](Self::bulk).
    pub async fn bulk_while(
        &self,
        query: &Query,
        action: BulkAction,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<BulkCounts, Error> {
        self.services.editor.bulk(query, action, goes_on).await
    }

    /// Cancels every waiting job of a queue, with the message `purged`; returns how many.
    ///
    /// # Errors
    /// As [`bulk`](Self::bulk).
    pub async fn purge(&self, queue: &str) -> Result<u64, Error> {
        self.services.editor.purge(queue).await
    }

    /// One job.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn job(&self, id: JobId) -> Result<Job, Error> {
        self.services.search.job(id).await
    }

    /// One job once it has ended: it has succeeded, failed, expired or been cancelled. If it has not ended after this wait, at
    /// most 60 s, it is returned as it is then.
    ///
    /// # Errors
    /// [`Error::NotFound`], also if its record is deleted meanwhile; [`Error::Invalid`] beyond the limit; [`Error::Stopping`].
    pub async fn ended(&self, id: JobId, wait: Span) -> Result<Job, Error> {
        self.services.observatory.ends.ended(id, wait).await
    }

    /// Which of these jobs are in a queue that `accepts`; a job that does not exist is in none. The answer stays true: a job
    /// never changes its queue, and an id is given out once. A job of another queue costs the same reads as one that does
    /// not exist, so that the time of an answer does not tell them apart.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn are_in(&self, ids: &[JobId], accepts: impl Fn(&str) -> bool + Send) -> Result<Vec<bool>, Error> {
        self.services.search.are_in(ids, accepts).await
    }

    /// The queue of each of these jobs, for a caller who may know it; `None` for a job that does not exist.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn queues_of(&self, ids: &[JobId]) -> Result<Vec<Option<Arc<str>>>, Error> {
        self.services.search.queues_of(ids).await
    }

    /// A page of jobs. `limit` is 1 to 1000. Jobs that have ended come in the order of their ends, the latest one first, parked
    /// ones before them. Live and ended jobs of a queue come in this order, too, live ones first. With a key or a tag, or
    /// without a queue and a state, jobs come in the order of ids.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn find(&self, query: &Query, cursor: Option<&str>, limit: usize) -> Result<Listed, Error> {
        self.services.search.find(query, cursor, limit).await
    }

    /// Sets a queue's settings.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        self.services.queues.settings.configure(queue, settings).await
    }

    /// Stops handing out a queue's jobs. Running jobs continue.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn pause(&self, queue: &str, pause: Pause) -> Result<QueueSettings, Error> {
        self.pause_by(queue, pause, None).await
    }

    /// The same for the holder of a token with this name, which the settings say then.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn pause_by(&self, queue: &str, pause: Pause, by: Option<Arc<str>>) -> Result<QueueSettings, Error> {
        self.services.queues.settings.pause(queue, pause, by).await
    }

    /// Hands out a queue's jobs again.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn resume(&self, queue: &str) -> Result<QueueSettings, Error> {
        self.services.queues.settings.resume(queue).await
    }

    /// Applies a function to a queue's settings and stores the result. Concurrent calls are made one after the other.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn reconfigure(
        &self,
        queue: &str,
        change: impl Fn(QueueSettings) -> QueueSettings + Send + 'static,
    ) -> Result<QueueSettings, Error> {
        self.services.queues.settings.reconfigure(queue, change).await
    }

    /// The same if the settings are as expected; also returns their new version.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Changed`].
    pub async fn reconfigure_if(
        &self,
        queue: &str,
        expected: Precondition,
        change: impl Fn(QueueSettings) -> QueueSettings + Send + 'static,
    ) -> Result<(QueueSettings, u64), Error> {
        self.services.queues.settings.reconfigure_if(queue, expected, change).await
    }

    /// Deletes a queue: the records of its jobs, its settings, its counts and its name, in all processes. A job that is pushed at
    /// the same time makes the queue anew, with default settings, or keeps it from being deleted. Repeat the call after an
    /// error: it goes on where it ended.
    ///
    /// Is refused while jobs wait or run, or a schedule pushes to the queue. By force schedules do not count, jobs that were
    /// made before the call are cancelled, and running ones are asked to stop; the queue is deleted once none of them runs.
    ///
    /// # Errors
    /// [`Error::QueueInUse`]; [`Error::Invalid`]; of the stores.
    pub async fn delete_queue(&self, queue: &str, force: bool) -> Result<api::DeletedQueue, Error> {
        self.services.queues.remover.delete(queue, force).await
    }

    /// A queue's settings that this process has read. Cheap, since no store is asked.
    pub fn queue_settings(&self, queue: &str) -> Arc<QueueSettings> {
        self.services.queues.settings.of(queue)
    }

    /// The queues that have a target, with their settings; cheap to ask often.
    pub fn queues_with_targets(&self) -> Vec<(Arc<str>, Arc<QueueSettings>)> {
        self.services.queues.settings.with_targets()
    }

    /// Waits until settings may have changed since this call.
    pub fn settings_changed(&self) -> impl Future<Output = ()> + '_ {
        self.services.queues.settings.changed()
    }

    /// All queues that have jobs or settings, by name. If there may be many, ask for [some](Self::queues_from) at a time.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        self.services.queues.counter.queues().await.map(|queues| self.with_lately(queues))
    }

    /// At most `limit` (and at most 1,000) queues that have jobs or settings, by name, from this name on. Fewer only at the
    /// end of the list.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn queues_from(&self, from: &str, limit: usize) -> Result<Vec<QueueStatus>, Error> {
        self.services.queues.counter.queues_from(from, limit).await.map(|queues| self.with_lately(queues))
    }

    /// One queue, known or not.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        let mut status = self.services.queues.counter.queue(queue).await?;
        self.services.observatory.watch.add_lately(std::slice::from_mut(&mut status));
        Ok(status)
    }

    /// The same with its settings as they are stored just now, and their version: 0 if none were ever set.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn queue_versioned(&self, queue: &str) -> Result<(QueueStatus, u64), Error> {
        let (mut status, version) = self.services.queues.counter.queue_versioned(queue).await?;
        self.services.observatory.watch.add_lately(std::slice::from_mut(&mut status));
        Ok((status, version))
    }

    fn with_lately(&self, mut queues: Vec<QueueStatus>) -> Vec<QueueStatus> {
        self.services.observatory.watch.add_lately(&mut queues);
        queues
    }

    /// All schedules, by name. Unreadable ones are omitted and logged.
    ///
    /// # Errors
    /// Of the registry.
    pub async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        self.services.schedules.schedules().await
    }

    /// One schedule.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Damaged`].
    pub async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        self.services.schedules.schedule(name).await
    }

    /// The answer of [`set_schedule`](Self::set_schedule), without a change.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn preview_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        self.services.schedules.preview_schedule(name, schedule).await
    }

    /// The answer of [`set_schedule_if`](Self::set_schedule_if), without a change.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Changed`].
    pub async fn preview_schedule_if(
        &self,
        name: &str,
        schedule: Schedule,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        self.services.schedules.preview_schedule_if(name, schedule, expected).await
    }

    /// Creates or replaces a schedule; see [`set_schedule_if`](Self::set_schedule_if).
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn set_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        self.services.schedules.set_schedule(name, schedule).await
    }

    /// Creates or replaces a schedule if the current one is as expected. If it ticks at other times than before, the next
    /// tick is the first from now on. Else it stays, and a tick that has begun is pushed with the old settings.
    ///
    /// # Errors
    /// [`Error::Invalid`], also if there are too many (counted only here: concurrent calls may exceed the limit slightly);
    /// [`Error::Changed`] if the current one is not as expected.
    pub async fn set_schedule_if(
        &self,
        name: &str,
        schedule: Schedule,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        self.services.schedules.set_schedule_if(name, schedule, expected).await
    }

    /// Stops pushing the jobs of a schedule. A tick that has begun may still push its job.
    /// Ticks during the pause are skipped.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`]; [`Error::Invalid`].
    pub async fn pause_schedule(
        &self,
        name: &str,
        pause: Pause,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        self.services.schedules.pause_schedule(name, pause, expected).await
    }

    /// Pushes the jobs of a schedule again, from its first tick after now.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`].
    pub async fn resume_schedule(&self, name: &str, expected: Precondition) -> Result<ScheduleStatus, Error> {
        self.services.schedules.resume_schedule(name, expected).await
    }

    /// Pushes the job of a schedule now, also if the schedule is paused or a job of it is live. Its ticks stay as they are.
    /// The call may be repeated if it has an origin.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`]; and as [`push`](Self::push).
    pub async fn run_schedule(
        &self,
        name: &str,
        origin: Option<Arc<str>>,
        expected: Precondition,
    ) -> Result<Pushed, Error> {
        self.services.schedules.run_schedule(name, origin, expected).await
    }

    /// Deletes a schedule. A tick that has begun is pushed, and pushed jobs stay.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.services.schedules.delete_schedule(name).await
    }

    /// Deletes a schedule that is as expected.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`].
    pub async fn delete_schedule_if(&self, name: &str, expected: Precondition) -> Result<(), Error> {
        self.services.schedules.delete_schedule_if(name, expected).await
    }

    /// Acquires a lock, waiting for it if it is held: first come, first served. The owner who holds it already gets the same
    /// fence again, and its time to live restarts. A call that is dropped while it waits has acquired nothing.
    ///
    /// # Errors
    /// [`Error::LockHeld`] if it could not be acquired within the wait; [`Error::Invalid`] beyond a limit;
    /// [`Error::Stopping`].
    pub async fn acquire(&self, request: LockRequest) -> Result<Grant, Error> {
        self.services.locks.acquire(request).await
    }

    /// Gives a lock this time to live from now on.
    ///
    /// # Errors
    /// [`Error::LockLost`] if it is not held by this owner under this fence, or no longer; [`Error::Invalid`].
    pub async fn renew(&self, name: &str, owner: &str, fence: u64, ttl: Span) -> Result<Grant, Error> {
        self.services.locks.renew(name, owner, fence, ttl).await
    }

    /// Frees a lock.
    ///
    /// # Errors
    /// As [`renew`](Self::renew).
    pub async fn release_lock(&self, name: &str, owner: &str, fence: u64) -> Result<(), Error> {
        self.services.locks.release_lock(name, owner, fence).await
    }

    /// Frees all locks of an owner; returns how many, and how many it had lost within the last minute.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn release_all(&self, owner: &str) -> Result<Released, Error> {
        self.services.locks.release_all(owner).await
    }

    /// The holder of a lock; `None` if it is free.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn inspect(&self, name: &str) -> Result<Option<Holding>, Error> {
        self.services.locks.inspect(name).await
    }

    /// A page of the locks that are held, by name. `limit` is 1 to 1000; a page may be short, and still have a next.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn list_locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        self.services.locks.list_locks(cursor, limit).await
    }

    /// The same for locks with this prefix. The cursor names no other lock either.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn list_locks_in(&self, beginning: &str, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        self.services.locks.list_locks_in(beginning, cursor, limit).await
    }

    /// Subscribes to job events from now on, also of other processes that share the broker. Those may be lost on their way:
    /// they are for watching, not for accounting.
    ///
    /// With a shared broker this takes about a second, unless this process has a subscriber already: then the others know.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Stopping`]; or of the broker, if it is shared.
    pub async fn subscribe(&self, filter: Filter) -> Result<Subscription, Error> {
        self.services.observatory.publisher.subscribe(filter).await
    }

    /// The same, with the last events before that fit: at most [`RECENT_TRANSITIONS`](super::events::RECENT_TRANSITIONS) of all that
    /// this process has seen, oldest first. With Redis, ends of jobs are among them only if somebody had subscribed.
    ///
    /// # Errors
    /// The same.
    pub async fn subscribe_late(&self, filter: Filter) -> Result<(Subscription, Vec<Arc<Transition>>), Error> {
        self.services.observatory.publisher.subscribe_late(filter).await
    }

    /// At most `limit` named workers of this process, by name, after this name. Only workers of queues that the caller may
    /// read, and only that part of them.
    pub fn workers(&self, after: Option<&str>, limit: usize, may_read: impl Fn(&str) -> bool) -> Page {
        self.services.observatory.consumers.workers(after, limit, may_read)
    }

    /// The problems that an operator should look at, without queues that the caller may not read. The list is at most about a
    /// second old. It is made from counts of the first 200 queues; other queues, failures and schedules are read in the
    /// background, or less often. If the store does not answer, it has what this process knows.
    pub async fn attention(&self, may_read: impl Fn(&str) -> bool) -> api::Attention {
        self.services.observatory.watch.list(&self.health(), may_read).await
    }

    /// Records that the target of a queue takes no jobs of this process, for [`attention`](Self::attention); `None` once it does.
    pub fn set_target_down(&self, queue: &Arc<str>, down: Option<TargetDown>) {
        self.services.observatory.watch.set_target_down(queue, down);
    }

    /// The number of workers of each queue that have asked this process within the last minute.
    pub(super) fn workers_by_queue(&self) -> HashMap<Arc<str>, u64> {
        self.services.observatory.consumers.by_queue()
    }

    /// What each queue started lately.
    pub(super) fn lately(&self) -> HashMap<Arc<str>, Starts> {
        self.services.observatory.history.lately()
    }

    /// The targets that take no jobs of this process, by queue.
    pub fn targets_down(&self) -> BTreeMap<Arc<str>, TargetDown> {
        self.services.observatory.watch.targets_down()
    }

    /// Throughput and lateness of this process in the last hour or day, for one queue or for all.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn history(&self, queue: Option<&str>, span: HistorySpan) -> Result<api::History, Error> {
        self.services.observatory.history.history(queue, span)
    }

    /// Unfinished jobs by due time, of a queue or of all. They are read in the background. Waits this long for a new reading
    /// if the last one is old.
    ///
    /// # Errors
    /// [`Error::Invalid`]; of the stores, while there is no reading.
    pub async fn due_counts(&self, queue: Option<&str>, wait: Duration) -> Result<DueCounts, Error> {
        self.services.observatory.reports.due_counts(queue, wait).await
    }

    /// The jobs that failed last, grouped by queue, kind and message, in a queue or in all. They are read in the
    /// background. Waits this long for a new reading if the last one is old.
    ///
    /// # Errors
    /// [`Error::Invalid`]; of the stores, while there is no reading.
    pub async fn failures(&self, queue: Option<&str>, wait: Duration) -> Result<Failures, Error> {
        self.services.observatory.reports.failures(queue, wait).await
    }

    /// Counts of each of the first 200 queues, by name. The sum of all others is under [`OTHER_QUEUES`](super::metrics::OTHER_QUEUES) once it is
    /// available: some seconds after the first request, then at most about ten seconds old.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn sums(&self) -> Result<Vec<(Arc<str>, Sum)>, Error> {
        self.services.observatory.census.sums().await
    }

    /// Why a job does not run.
    ///
    /// # Errors
    /// [`Error::NotFound`]; of the stores.
    pub async fn why(&self, id: JobId) -> Result<Why, Error> {
        self.services.observatory.explainer.why(id).await
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
