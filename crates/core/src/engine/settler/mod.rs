//! Ends of leases by their holders.

mod pending_ends;

use crate::api::Span;
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::consumers::Consumers;
use crate::engine::events::Publisher;
use crate::engine::follow_ups::FollowUps;
use crate::engine::ids::Ids;
use crate::engine::metrics::Metrics;
use crate::engine::observation::Observation;
use crate::engine::queues::Settings;
use crate::engine::recorder::Recorder;
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::limits::{BATCH_JOBS_MAX, DELAY_MS_MAX, MESSAGE_BYTES_MAX, RESULT_BYTES_MAX};
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Job, Stage, State};
use crate::model::marks::Marks;
use crate::model::retry::{Retry, WhenExhausted};
use crate::ports::{Broker, Detail, Ledger, Outcomes, Settle};
use crate::request::{Answers, Ending, Outcome, Settlement};
use crate::rules::{self, Again, Decision, Finish};
use pending_ends::{PendingEnd, PendingEnds};
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Bytes of an attempt's message that the log shows, at most.
const LOGGED_BYTES_MAX: usize = 1_000;
/// How long a batch of ends waits for the ledger, which alone may know some of them.
const LEDGER_WAIT: Duration = Duration::from_secs(5);

/// Ends leases.
pub(in crate::engine) struct Settler {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    follow_ups: Arc<FollowUps>,
    recorder: Arc<Recorder>,
    publisher: Arc<Publisher>,
    consumers: Arc<Consumers>,
    ids: Arc<Ids>,
    settings: Arc<Settings>,
    metrics: Arc<Metrics>,
    supervisor: Arc<Supervisor>,
    pending_ends: PendingEnds,
    kind_rules: &'static [(&'static str, Retry)],
}

impl Settler {
    pub(in crate::engine) fn new(
        base: &Base,
        follow_ups: Arc<FollowUps>,
        recorder: Arc<Recorder>,
        consumers: Arc<Consumers>,
        ids: Arc<Ids>,
        settings: Arc<Settings>,
    ) -> Self {
        let Base { stores, options, metrics, publisher, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            follow_ups,
            recorder,
            publisher: publisher.clone(),
            consumers,
            ids,
            settings,
            metrics: metrics.clone(),
            supervisor: supervisor.clone(),
            pending_ends: PendingEnds::new(options.backlog_max),
            kind_rules: options.kind_rules,
        }
    }

    pub(in crate::engine) async fn settle(self: &Arc<Self>, outcomes: Vec<(Receipt, Outcome)>) -> Answers<Settlement> {
        self.end_leases(outcomes.into_iter().map(|(receipt, outcome)| (receipt, outcome.into())).collect()).await
    }

    pub(in crate::engine) async fn end_leases(
        self: &Arc<Self>,
        outcomes: Vec<(Receipt, Ending)>,
    ) -> Answers<Settlement> {
        let count = outcomes.len();
        if let Err(error) = self.supervisor.check_open().and_then(|()| check_count(count)) {
            return vec![Err(error); count];
        }
        match self.supervisor.complete(self, |settler| async move { settler.settle_batch(outcomes).await }).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); count],
        }
    }

    async fn settle_batch(&self, outcomes: Vec<(Receipt, Ending)>) -> Result<Answers<Settlement>, Error> {
        let pending = |(receipt, ending): &(Receipt, Ending)| self.pending_ends.of(pending_ends::key(*receipt, ending));
        let repeats: Vec<_> = outcomes.iter().map(|asked| (asked.0, pending(asked))).collect();
        let new = outcomes.into_iter().zip(&repeats).filter(|(_, (_, end))| end.is_none());
        let new: Vec<_> = new.map(|(outcome, _)| outcome).collect();
        if !new.is_empty() {
            self.recorder.check_bytes()?;
        }
        let mut settled = if new.is_empty() { Vec::new() } else { self.settle_new(new).await? }.into_iter();
        let (mut answers, mut until) = (Vec::with_capacity(repeats.len()), pin!(sleep(LEDGER_WAIT)));
        for (receipt, end) in repeats {
            answers.push(match end {
                Some(end) => self.settle_again(receipt, end, until.as_mut()).await,
                None => settled.next().expect("each has an answer"),
            });
        }
        Ok(answers)
    }

    /// Answers a repeated ending that could not be recorded the first time.
    async fn settle_again(
        &self,
        receipt: Receipt,
        (state, version): PendingEnd,
        until: Pin<&mut Sleep>,
    ) -> Result<Settlement, Error> {
        let mut entries = self.broker.outcomes(Outcomes::Of(receipt.id)).await?;
        // An end has its own entry. Any other ending may have been followed by another lease, which is in its entry.
        let has_it = |job: &Job| {
            if state.is_live() { job.version >= version } else { job.receipt() == receipt && !job.is_pending() }
        };
        entries.retain(|entry| has_it(entry.job()));
        if entries.is_empty() {
            // It was recorded meanwhile, or lost with the broker's memory.
            let row = self.rows(&[receipt.id], until).await?.pop().flatten();
            let is_other = |row: &Job| !state.is_live() && (row.receipt() != receipt || row.is_pending());
            if row.is_some_and(|row| row.version < version || is_other(&row)) {
                return Err(Error::LeaseLost(receipt));
            }
            self.recorder.drop_outdated(&[(receipt.id, version)]).await?;
        }
        self.recorder.try_record(entries).await?;
        Ok(Settlement { receipt, state, recorded: true })
    }

    async fn settle_new(&self, outcomes: Vec<(Receipt, Ending)>) -> Result<Answers<Settlement>, Error> {
        let is_plain = |ending: &Ending| matches!(ending, Ending::Outcome(Outcome::Complete { then: None, .. }));
        let to_read = outcomes.iter().filter(|(_, ending)| !is_plain(ending));
        let ids: Vec<JobId> = to_read.map(|(receipt, _)| receipt.id).collect();
        let jobs = if ids.is_empty() { Vec::new() } else { self.broker.get(&ids, Detail::Head).await? };
        let mut jobs: HashMap<Receipt, Job> = jobs.into_iter().flatten().map(|job| (job.receipt(), job)).collect();

        let mut settles = Vec::with_capacity(outcomes.len());
        let mut answers = Vec::with_capacity(outcomes.len());
        let mut events: Vec<fn(u64) -> Observation> = Vec::with_capacity(outcomes.len());
        let mut asked = Vec::with_capacity(outcomes.len());
        for (receipt, outcome) in outcomes {
            let ending = pending_ends::key(receipt, &outcome);
            let event: fn(u64) -> Observation = match outcome {
                Ending::Outcome(Outcome::Complete { .. }) => Observation::Succeeded,
                Ending::Outcome(Outcome::Fail(_) | Outcome::Park(_)) | Ending::Park(..) => Observation::Failed,
                Ending::Outcome(Outcome::Release(_)) | Ending::Unclaimed | Ending::Abandoned | Ending::Return(..) => {
                    |_| Observation::Released
                }
            };
            let decided = match check_outcome(&outcome) {
                Ok(()) => self.decide(receipt, outcome, &mut jobs).await,
                Err(invalid) => Err(invalid.into()),
            };
            answers.push(decided.map(|settle| {
                // A release may end a job that is too old.
                events.push(if settle.decision.end() == Some(Stage::Failed) { Observation::Failed } else { event });
                settles.push(settle);
                asked.push(ending);
                receipt
            }));
        }
        let ends: Vec<Option<(Receipt, Stage)>> =
            settles.iter().map(|settle| Some((settle.receipt, settle.decision.end()?))).collect();
        let memory = self.broker.reading().memory;
        let mut settled = self.metrics.stores.settle.time(self.follow_ups.settle(settles)).await?;
        let ids = answers.iter().flatten().map(|receipt| receipt.id);
        self.publisher.observe_settled(&ids, &settled, |place, ms| events[place](ms));
        self.consumers.workers.ended(answers.iter().flatten().copied());
        let noted = settled.entries.iter().map(|entry| (entry.job().id, entry.job().version));
        let noted: Vec<(JobId, u64)> = noted.collect();
        let (recorded, refused) = match self.recorder.record_soon(settled.entries).await {
            Ok(recorded) => (recorded, None),
            Err(_) if self.recorder.may_leave() => (false, None),
            Err(error) => (true, Some(error)),
        };
        let may_be_lost = recorded && refused.is_none() && self.broker.reading().memory != memory;
        let noted: HashMap<JobId, u64> =
            if may_be_lost || refused.is_some() { noted.into_iter().collect() } else { HashMap::new() };
        if may_be_lost {
            // If the broker lost these ends before they were recorded, it may have handed the jobs out again.
            for (end, state) in ends.iter().zip(&mut settled.states) {
                if end.is_some_and(|(receipt, stage)| noted.contains_key(&receipt.id) && *state == stage.end_state()) {
                    *state = None;
                }
            }
        }
        let unknown = self.find_settled(&ends, &mut settled.states).await.err();
        let mut states = settled.states.into_iter().zip(ends).zip(asked);
        let mut settlement = |receipt: Receipt| match states.next().expect("the broker answers for each receipt") {
            ((Some(state), _), asked) => match (&refused, noted.get(&receipt.id)) {
                (Some(error), Some(&version)) => {
                    self.pending_ends.remember(asked, (state, version));
                    Err(error.clone())
                }
                _ => Ok(Settlement { receipt, state, recorded }),
            },
            // Only an end can be found out later.
            ((None, end), _) => Err(unknown.clone().filter(|_| end.is_some()).unwrap_or(Error::LeaseLost(receipt))),
        };
        Ok(answers.into_iter().map(|answer| answer.and_then(&mut settlement)).collect())
    }

    /// Looks in the ledger for ends that the broker does not know. The first call of a repeated settle may have been carried
    /// out long ago, or before a restart.
    ///
    /// # Errors
    /// One of the stores does not answer. So a job may have ended as asked and nobody knows, or the broker may still hold it as
    /// it was before.
    async fn find_settled(&self, ends: &[Option<(Receipt, Stage)>], states: &mut [Option<State>]) -> Result<(), Error> {
        let lost = ends.iter().zip(states).filter(|(_, state)| state.is_none());
        let (ends, states): (Vec<_>, Vec<_>) = lost.filter_map(|(end, state)| Some(((*end)?, state))).unzip();
        if ends.is_empty() {
            return Ok(());
        }
        let ids: Vec<JobId> = ends.iter().map(|(receipt, _)| receipt.id).collect();
        let rows = self.rows(&ids, pin!(sleep(LEDGER_WAIT))).await?;
        let found = ends.into_iter().zip(states).zip(rows).filter_map(|(((receipt, stage), state), row)| {
            let row = row.filter(|job| job.receipt() == receipt && job.stage == stage)?;
            Some(((row.id, row.version), (state, stage)))
        });
        let (found, states): (Vec<(JobId, u64)>, Vec<_>) = found.unzip();
        if !found.is_empty() {
            // Another process may have recorded it just now.
            self.recorder.drop_outdated(&found).await?;
        }
        states.into_iter().for_each(|(state, stage)| *state = stage.end_state());
        Ok(())
    }

    /// Reads rows of the ledger, if it answers in time.
    async fn rows(&self, ids: &[JobId], until: Pin<&mut Sleep>) -> Result<Vec<Option<Job>>, Error> {
        tokio::select! {
            biased;
            rows = self.ledger.get(ids) => rows,
            () = until => Err(Error::Unavailable("the ledger does not answer".into())),
        }
    }

    async fn decide(
        &self,
        receipt: Receipt,
        outcome: Ending,
        jobs: &mut HashMap<Receipt, Job>,
    ) -> Result<Settle, Error> {
        let job = jobs.remove(&receipt);
        if let Ending::Outcome(Outcome::Complete { result, then }) = outcome {
            let successors = match &job {
                Some(job) => self.follow_ups.after_success(job, result.as_ref(), then).await?,
                None => Vec::new(),
            };
            let finish = Finish { result, successors, ..Finish::new(Stage::Succeeded) };
            return Ok(Settle::new(receipt, Decision::Finish(finish)));
        }
        let decision = match (&outcome, &job) {
            (Ending::Outcome(Outcome::Fail(failure)), Some(job)) => {
                self.decide_by_rule(job, |retry, now, copy_id| rules::after_failure(job, retry, failure, now, copy_id))
                    .await?
            }
            (&Ending::Outcome(Outcome::Release(release)), Some(job)) => {
                self.decide_by_rule(job, |retry, now, copy_id| rules::after_release(job, retry, release, now, copy_id))
                    .await?
            }
            (Ending::Unclaimed, Some(job)) => Some(rules::after_unclaimed(job, self.broker.now())),
            (Ending::Abandoned, Some(job)) => Some(rules::after_abandonment(job, self.broker.now())),
            (Ending::Return(release, marks), Some(job)) => {
                let decision = self
                    .decide_by_rule(job, |retry, now, copy_id| rules::after_return(job, retry, *release, now, copy_id))
                    .await?;
                decision.map(|decision| with_marks(decision, marks.clone()))
            }
            (Ending::Outcome(Outcome::Park(park)), Some(_)) => Some(Decision::Park(park.clone(), None)),
            (Ending::Park(park, marks), Some(_)) => Some(Decision::Park(park.clone(), marks.clone())),
            (_, _) => None,
        };
        match decision {
            Some(decision) => {
                job.iter().for_each(|job| log_end(job, &decision));
                // A head lacks the payload, which is written again with what the decision changes.
                let read = job.filter(|_| !decision.rewrites()).map(Box::new);
                Ok(Settle { read, ..Settle::new(receipt, decision) })
            }
            // A repeat of a final failure or a park must still find what the first one decided.
            None if matches!(outcome, Ending::Outcome(Outcome::Fail(_) | Outcome::Park(_)) | Ending::Park(..)) => {
                Ok(Settle::new(receipt, Decision::Finish(Finish::new(Stage::Failed))))
            }
            None => Err(Error::LeaseLost(receipt)),
        }
    }

    /// The decision of a rule about a job whose attempt has ended without success; `None` if the lease is over meanwhile.
    pub(in crate::engine) async fn decide_by_rule(
        &self,
        job: &Job,
        rule: impl FnOnce(&Retry, Millis, Option<JobId>) -> Decision + Send,
    ) -> Result<Option<Decision>, Error> {
        let retry = self.retry_rule(job);
        let (now, copy_id) = (self.broker.now(), self.copy_id(&retry).await?);
        let mut decision = self.wait_in_full(rule(&retry, now, copy_id), now);
        if let Decision::Finish(Finish { successors, .. }) = &mut decision
            && let Some(copy) = successors.first_mut()
        {
            // Only a copy needs the whole job. Nobody changes it while the job is leased.
            let whole = self.broker.get(&[job.id], Detail::Whole).await?.pop().flatten();
            let Some(whole) = whole.filter(|whole| whole.receipt() == job.receipt()) else { return Ok(None) };
            copy.payload = whole.payload;
        }
        Ok(Some(decision))
    }

    /// A wait begins at the latest that the broker's clock can read, so that it is never cut short. Without a wait the job
    /// is due at once.
    fn wait_in_full(&self, decision: Decision, now: Millis) -> Decision {
        let late_ms = self.broker.now_at_most().saturating_sub(now);
        match decision {
            Decision::Again(again) if again.due_at > now => {
                Decision::Again(Again { due_at: again.due_at.saturating_add(late_ms), ..again })
            }
            decision => decision,
        }
    }

    /// Whether the job ends if its lease expires.
    pub(in crate::engine) fn ends_by_crash(&self, job: &Job) -> bool {
        let ends_at = job.lease_until.map_or(Millis::MAX, |until| until.0);
        matches!(rules::after_crash(job, &self.retry_rule(job), ends_at, Some(JobId::MIN)), Decision::Finish(_))
    }

    /// The rule in force for a job.
    fn retry_rule(&self, job: &Job) -> Retry {
        let of_queue = self.settings.of(&job.queue);
        let rule = job.options().retry.or(&of_queue.rule());
        match self.kind_rules.iter().find(|(kind, _)| **kind == *job.kind) {
            Some((_, of_kind)) => rule.or(of_kind),
            None => rule,
        }
    }

    /// An id for the copy, if the rule moves the job to another queue.
    async fn copy_id(&self, retry: &Retry) -> Result<Option<JobId>, Error> {
        match &retry.when_exhausted {
            Some(WhenExhausted::Move(queue)) => {
                let partition = self.broker.partition(queue);
                Ok(self.ids.next(&[partition], self.broker.now()).await?.pop())
            }
            _ => Ok(None),
        }
    }
}

/// Logs jobs that were given up, and why.
pub(in crate::engine) fn log_end(job: &Job, decision: &Decision) {
    if let Decision::Finish(Finish { stage: Stage::Failed, message, error: Some(error), drop, successors, .. }) =
        decision
    {
        let moved_to = successors.first().map(|job| job.queue.as_ref());
        let (id, queue, message) = (job.id, &job.queue, logged(message.as_ref().unwrap_or(&error.message)));
        tracing::warn!(%id, %queue, attempt = job.attempt, dropped = drop, moved_to, %message, "a job has failed");
    } else if let Decision::Again(again) = decision
        && again.attempt == 0
        && let Some(error) = &again.error
    {
        let message = logged(&error.message);
        tracing::warn!(id = %job.id, queue = %job.queue, %message, "a job starts over at attempt 0");
    }
}

/// The beginning of a message. The job has all of it.
fn logged(message: &str) -> &str {
    let end = (0..=LOGGED_BYTES_MAX.min(message.len())).rev().find(|&at| message.is_char_boundary(at));
    &message[..end.unwrap_or(0)]
}

/// The same, for a job that runs again and has these marks of a port then.
fn with_marks(decision: Decision, marks: Option<Arc<Marks>>) -> Decision {
    match decision {
        Decision::Again(again) => Decision::Again(Again { marks, ..again }),
        decision => decision,
    }
}

pub(in crate::engine) fn check_count(count: usize) -> Result<(), Error> {
    if count > BATCH_JOBS_MAX {
        return Err(Error::invalid("leases", format!("at most {BATCH_JOBS_MAX} in a batch"), count));
    }
    Ok(())
}

fn check_outcome(outcome: &Ending) -> Result<(), Invalid> {
    let at_most = |what, bytes: usize, max: usize| {
        if bytes <= max { Ok(()) } else { Err(Invalid::new(what, format!("at most {max} bytes"), bytes)) }
    };
    let delay = |what, delay: Span| delay.check(what, 0, DELAY_MS_MAX);
    match outcome {
        Ending::Outcome(Outcome::Complete { result, .. }) => {
            at_most("result", result.as_ref().map_or(0, |r| r.len()), RESULT_BYTES_MAX)
        }
        Ending::Outcome(Outcome::Fail(failure)) => {
            at_most("message", failure.message.len(), MESSAGE_BYTES_MAX)?;
            delay("retry_after", failure.retry_after.unwrap_or_default())
        }
        Ending::Outcome(Outcome::Release(release)) | Ending::Return(release, _) => delay("delay", release.delay),
        Ending::Outcome(Outcome::Park(park)) | Ending::Park(park, _) => {
            at_most("message", park.message.len(), MESSAGE_BYTES_MAX)
        }
        Ending::Unclaimed | Ending::Abandoned => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, job};
    use crate::model::job::NewJob;
    use crate::ports::Room;
    use crate::request::{Options, QueueSettings};
    use crate::rules::{Failure, Park, Release};
    use crate::testing::{ModelLedger, Shared, TokioClock};

    const DONE: Outcome = Outcome::complete(None);

    fn rule(max_attempts: Option<u32>, max_crashes: Option<u32>, max_age: Option<u64>) -> Retry {
        Retry { max_attempts, max_crashes, max_age: max_age.map(Span), ..Retry::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_jobs_own_rule_comes_first_then_its_queues_then_its_kinds() {
        let kind_rules = Box::leak(Box::new([("default", rule(Some(1), Some(1), Some(1)))]));
        let fixture = Fixture::with(Options { kind_rules, ..Options::default() }).await;
        let of_queue = QueueSettings { max_attempts: Some(2), max_crashes: Some(2), ..QueueSettings::default() };
        fixture.services.queues.settings.set(QUEUE.into(), of_queue);
        let own = fixture.push(NewJob { options: rule(Some(3), None, None).into(), ..job() }).await;
        let other = Job { kind: "other".into(), ..own.clone() };
        let settler = &fixture.services.settler;
        assert_eq!(settler.retry_rule(&own), rule(Some(3), Some(2), Some(1)));
        assert_eq!(settler.retry_rule(&other), rule(Some(3), Some(2), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_begins_at_the_latest_that_the_clock_can_read() {
        let broker = Shared::new(Arc::new(TokioClock::new()));
        let fixture = Fixture::sharing(&broker, &ModelLedger::default()).await;
        broker.blur_clock(0, 40);
        let now = fixture.now();
        let due_at = |after_ms: u64| {
            let again = Decision::Again(Again { due_at: now + after_ms, ..Again::default() });
            match fixture.services.settler.wait_in_full(again, now) {
                Decision::Again(again) => again.due_at - now,
                decision => panic!("{decision:?}"),
            }
        };
        assert_eq!((due_at(0), due_at(1), due_at(5_000)), (0, 41, 5_040));
    }

    /// Its caller got an error, and asks again: the lease is over by then, and the job waits as if it had expired.
    #[tokio::test(start_paused = true)]
    async fn a_failure_that_could_not_be_recorded_is_recorded_when_it_is_repeated() {
        let fixture = Fixture::new().await;
        let receipt = fixture.running(job()).await.receipt();
        let fails = || Outcome::Fail(Failure { message: "no".into(), ..Failure::default() });
        fixture.ledger.set_away(true);
        assert_eq!(fixture.settle(receipt, fails()).await.unwrap_err().code(), "store_unavailable");
        fixture.ledger.set_away(false);
        assert_eq!(fixture.settle(receipt, fails()).await.unwrap().state, State::Scheduled);
        assert_eq!(fixture.row(receipt.id).unwrap().message.as_deref(), Some("no"));
        assert_eq!(fixture.settle(receipt, Outcome::release(Duration::ZERO)).await, Err(Error::LeaseLost(receipt)));
    }

    /// Its first call was carried out before the broker lost its memory, and the job is in the new one as it was before.
    #[tokio::test(start_paused = true)]
    async fn a_job_does_not_run_after_its_end_was_answered_as_recorded() {
        let broker = Shared::new(Arc::new(TokioClock::new()));
        let fixture = Fixture::sharing(&broker, &ModelLedger::default()).await;
        let receipt = fixture.running(job()).await.receipt();
        let settled = fixture.settle(receipt, DONE).await.unwrap();
        assert_eq!((settled.state, settled.recorded), (State::Succeeded, false));
        let entries = fixture.base.stores.broker.outcomes(Outcomes::Of(receipt.id)).await.unwrap();
        broker.flush();
        load(&fixture, &[receipt]).await;
        assert!(fixture.held(receipt.id).await.is_some_and(|job| job.is_pending()));
        // Another process is about to have the broker forget it.
        fixture.ledger.apply(entries, Millis::MAX).await.unwrap();
        let settled = fixture.settle(receipt, DONE).await.unwrap();
        assert_eq!((settled.state, settled.recorded), (State::Succeeded, true));
        assert_eq!(fixture.lease(1).await, []);
    }

    /// Another process runs it when the ledger learns of its end.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_runs_again_does_not_run_once_more_after_its_end_was_answered_as_recorded() {
        let broker = Shared::new(Arc::new(TokioClock::new()));
        let fixture = Fixture::sharing(&broker, &ModelLedger::default()).await;
        let receipt = fixture.running(job()).await.receipt();
        fixture.settle(receipt, DONE).await.unwrap();
        let entries = fixture.base.stores.broker.outcomes(Outcomes::Of(receipt.id)).await.unwrap();
        broker.flush();
        load(&fixture, &[receipt]).await;
        let again = fixture.lease(1).await.remove(0).receipt();
        fixture.ledger.apply(entries, Millis::MAX).await.unwrap();
        assert!(fixture.settle(receipt, DONE).await.unwrap().recorded);
        assert_eq!(fixture.settle(again, Outcome::release(Duration::ZERO)).await, Err(Error::LeaseLost(again)));
        assert_eq!(fixture.lease(1).await, []);
    }

    /// Its end waits for a ledger that is away, in a broker that is emptied.
    #[tokio::test(start_paused = true)]
    async fn an_end_that_was_lost_before_it_was_recorded_is_answered_as_a_lost_lease() {
        let broker = Shared::new(Arc::new(TokioClock::new()));
        let options = Options { settles_recorded: true, ..Options::default() };
        let fixture = Fixture::sharing_with(&broker, &ModelLedger::default(), options).await;
        let (lost, kept) = (fixture.running(job()).await.receipt(), fixture.running(job()).await.receipt());
        fixture.ledger.set_away(true);
        for receipt in [lost, kept] {
            assert_eq!(fixture.settle(receipt, DONE).await.unwrap_err().code(), "store_unavailable");
        }
        let entries = fixture.base.stores.broker.outcomes(Outcomes::Of(kept.id)).await.unwrap();
        broker.flush();
        fixture.ledger.set_away(false);
        load(&fixture, &[lost, kept]).await;
        fixture.ledger.apply(entries, Millis::MAX).await.unwrap();
        assert_eq!(fixture.settle(lost, DONE).await, Err(Error::LeaseLost(lost)));
        assert!(fixture.settle(kept, DONE).await.unwrap().recorded);
        let again: Vec<JobId> = fixture.lease(2).await.into_iter().map(|job| job.id).collect();
        assert_eq!(again, [lost.id]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_only_the_ledger_may_know_is_no_lost_lease_while_it_is_away() {
        let broker = Shared::new(Arc::new(TokioClock::new()));
        let fixture = Fixture::sharing(&broker, &ModelLedger::default()).await;
        let receipt = fixture.running(job()).await.receipt();
        fixture.settle(receipt, DONE).await.unwrap();
        let entries = fixture.base.stores.broker.outcomes(Outcomes::Of(receipt.id)).await.unwrap();
        fixture.ledger.apply(entries, Millis::MAX).await.unwrap();
        broker.flush();
        // It begins.
        fixture.base.stores.broker.expired(1).await.unwrap();
        fixture.ledger.set_away(true);
        let outcomes = vec![(receipt, DONE), (receipt, Outcome::release(Duration::ZERO))];
        let answers = fixture.services.settler.settle(outcomes).await;
        let codes: Vec<_> = answers.into_iter().map(|answer| answer.unwrap_err().code()).collect();
        assert_eq!(codes, ["store_unavailable", "lease_lost"]);
        fixture.ledger.set_away(false);
        assert_eq!(fixture.settle(receipt, DONE).await.unwrap().state, State::Succeeded);
    }

    /// Loads jobs into a broker that was emptied, as the leader does.
    async fn load(fixture: &Fixture, receipts: &[Receipt]) {
        let broker = &fixture.base.stores.broker;
        // Its new memory is noticed.
        broker.incarnation().await.unwrap();
        let reading = broker.reading();
        let jobs = receipts.iter().map(|receipt| fixture.row(receipt.id).unwrap()).collect();
        broker.put(jobs, reading, Room::Any).await.unwrap();
        // It begins.
        broker.expired(1).await.unwrap();
    }

    #[test]
    fn what_a_worker_says_is_bounded() {
        let text = |bytes: usize| "x".repeat(bytes).into();
        let fails = |bytes: usize| Outcome::Fail(Failure { message: text(bytes), ..Failure::default() });
        let parks = |bytes: usize| Outcome::Park(Park { message: text(bytes), ..Park::default() });
        let completes = |bytes: usize| Outcome::complete(Some(vec![0; bytes].into()));
        let releases = |delay| Outcome::Release(Release { delay: Span(delay), ..Release::default() });
        let is_within = |outcome: Outcome| check_outcome(&outcome.into()).is_ok();
        assert!(is_within(fails(MESSAGE_BYTES_MAX)) && !is_within(fails(MESSAGE_BYTES_MAX + 1)));
        assert!(is_within(parks(MESSAGE_BYTES_MAX)) && !is_within(parks(MESSAGE_BYTES_MAX + 1)));
        assert!(is_within(completes(RESULT_BYTES_MAX)) && !is_within(completes(RESULT_BYTES_MAX + 1)));
        assert!(is_within(releases(DELAY_MS_MAX)) && !is_within(releases(DELAY_MS_MAX + 1)));
    }
}
