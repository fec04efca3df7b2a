//! Requests and answers, and whether they keep the promises.

use super::given::Given;
use super::known_job::{KnownJob, LeaseEnd};
use super::moment::{At, RequestTime, Span};
use super::removing::Removing;
use super::replacing::Replacing;
use crate::clock::Millis;
use crate::json;
use crate::json::Timestamp;
use crate::limits::SECOND_MS;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Due, Job, KeyUntil, Stage, State};
use crate::model::retry::WhenExhausted;
use crate::ports::Lease;
use crate::request::Patch;
use crate::rules::TAKEN;
use crate::testing::edits::Edits;
use crate::testing::{ModelLedger, adds_a_job};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest lease, or extension of one.
pub(super) const LEASE_MS_LONGEST: u64 = 10 * SECOND_MS;
/// Jobs with this tag may be rescheduled at any time.
pub(super) const RESCHEDULED: &str = "tag-0";

#[derive(Debug, Default)]
pub(super) struct History {
    jobs: BTreeMap<JobId, KnownJob>,
    /// Jobs that were handed out, or leased by a take; some of them before their push was answered.
    pub(super) started: BTreeSet<JobId>,
    pub(super) given: Given,
    pub(super) replacing: Replacing,
    pub(super) removing: Removing,
    pub(super) violations: Vec<String>,
    pub(super) handed_out: u64,
    /// The number of answered extensions.
    pub(super) extended: u64,
    /// A shared broker fell back, and its jobs were not compared with the ledger yet.
    pub(super) is_unfenced: bool,
    /// Whether callers went away while they waited for jobs.
    pub(super) callers_went: bool,
    /// The last life that a shared broker began empty.
    pub(super) emptied_in: Option<u64>,
}

impl History {
    /// The same for the same history and rows, in every build: FNV-1a over their text.
    pub(super) fn digest(&self, ledger: &ModelLedger) -> u64 {
        let text = format!("{self:?}{:?}", rows(ledger));
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    pub(super) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// It was requested at this time, or before with the same origin.
    pub(super) fn pushed(&mut self, job: Job, due: Due, at: At) {
        let may_be_gone = |known: &KnownJob| {
            known.may_be_gone || self.replacing.may_drop(&known.pushed) || self.removing.is_asked(&known.pushed.queue)
        };
        let wrong = self.given.made(&job, |id| self.jobs.get(&id).is_some_and(may_be_gone));
        self.blame(job.id, "was pushed", wrong.into_iter().collect(), at);
        if let Due::After(json::Span(delay_ms @ 1..)) = due
            && job.due_at < Timestamp(at.wall + delay_ms)
        {
            let wrong = format!("to be due {} ms early", at.wall + delay_ms - job.due_at.0);
            self.blame(job.id, "was pushed", vec![wrong], at);
        }
        let exhausted = job.options().retry.when_exhausted.clone();
        let known = KnownJob {
            is_touched: job.key.is_some() || job.tags.iter().any(|tag| **tag == *RESCHEDULED),
            may_be_gone: exhausted == Some(WhenExhausted::Drop),
            ended: None,
            taken_by: None,
            revivals: 0,
            unanswered: 0,
            span: None,
            version: job.version,
            epoch: job.epoch,
            leases: BTreeMap::new(),
            is_stopped: false,
            edits: job.key.is_none().then(Edits::default),
            pushed: job,
        };
        self.jobs.entry(known.pushed.id).or_insert(known);
    }

    /// The process restarts: it knows only the leases that were noted, which are all that were answered.
    pub(super) fn restarted(&mut self, ledger: &ModelLedger, at: At) {
        let rows = rows(ledger);
        let is_forgotten =
            |id: &JobId, epoch: u64| rows.get(id).is_some_and(|row| row.is_pending() && row.epoch < epoch);
        let answered = self.jobs.iter().filter_map(|(id, known)| Some((*id, known.span?.epoch)));
        let forgotten: Vec<_> = answered.filter(|(id, epoch)| is_forgotten(id, *epoch)).collect();
        for (id, epoch) in forgotten {
            self.blame(id, "was leased", vec![format!("and the lease {epoch} was forgotten by a restart")], at);
        }
        for (id, known) in &mut self.jobs {
            let row = rows.get(id);
            known.span = known.span.filter(|span| {
                // Its end is noted by the wall clock, and meaningless once that was stepped.
                let is_noted = row.is_some_and(|row| row.epoch == span.epoch && row.lease_until.is_some());
                is_noted && span.began.wall_steps == at.wall_steps
            });
            if let (Some(span), Some(until)) = (&mut known.span, row.and_then(|row| row.lease_until)) {
                // An extension may not have been noted.
                span.until = span.until.min(at.mono + until.0.saturating_sub(at.wall));
            }
            known.is_stopped = false;
            known.keep_recorded_end(row);
        }
    }

    /// A shared broker lost some of its memory, or all: no lease from before counts, nor an end that was not recorded.
    pub(super) fn memory_lost(&mut self, ledger: &ModelLedger, fell_back: bool) {
        let rows = rows(ledger);
        for (id, known) in &mut self.jobs {
            (known.span, known.is_stopped) = (None, false);
            known.keep_recorded_end(rows.get(id));
            known.edits = known.edits.take().filter(|_| !fell_back);
        }
        self.is_unfenced |= fell_back;
    }

    /// The jobs that a failover brought back have been compared with the ledger. Those that were handed out again until then
    /// may go on.
    pub(super) fn fenced(&mut self, ledger: &ModelLedger) {
        let rows = rows(ledger);
        for (id, known) in self.jobs.iter_mut().filter(|_| self.is_unfenced) {
            let row = rows.get(id);
            known.keep_recorded_end(row);
            if known.ended.is_some() || row.is_none() {
                // It was handed out by mistake, and no longer keeps others from its key.
                known.span = None;
            }
        }
        self.is_unfenced = false;
    }

    pub(super) fn asked(&self, id: JobId, at: At) -> RequestTime {
        RequestTime { life: at.life, revivals: self.jobs.get(&id).map_or(0, |known| known.revivals) }
    }

    /// A change was requested; whether it is made is known later, or never.
    pub(super) fn touched(&mut self, id: JobId, may_be_gone: bool, may_live_again: bool) {
        if let Some(known) = self.jobs.get_mut(&id) {
            known.is_touched = true;
            known.may_be_gone |= may_be_gone;
            if may_live_again {
                (known.ended, known.is_stopped) = (None, false);
                known.revivals += 1;
                known.unanswered += 1;
            }
        }
    }

    /// An edit was asked for at this time, and answered as made if `is_made`.
    pub(super) fn edited(&mut self, id: JobId, patch: &Patch, asked: Millis, is_made: bool, at: At) {
        let is_unfenced = self.is_unfenced;
        if let Some(known) = self.jobs.get_mut(&id) {
            known.edits = known.edits.take().filter(|_| !is_unfenced);
            if let Some(edits) = &mut known.edits {
                edits.asked(patch, asked, is_made.then_some(at.mono));
            }
        }
    }

    /// A request to revive the job was answered.
    pub(super) fn revived(&mut self, id: JobId) {
        if let Some(known) = self.jobs.get_mut(&id) {
            known.unanswered -= 1;
        }
    }

    pub(super) fn handed_out(&mut self, lease: &Lease, at: At) {
        self.handed_out += 1;
        let job = &lease.job;
        let mut wrong: Vec<String> = self.removing.handed_out(job).into_iter().collect();
        // The clock may have been set back since it was handed out.
        let handed_out_at = at.wall.max(job.started_at.map_or(0, |at| at.0));
        if job.due_at > Timestamp(handed_out_at) {
            wrong.push(format!("early by {} ms", job.due_at.0 - handed_out_at));
        }
        if job.start_by().is_some_and(|by| by <= at.wall) && job.attempt == 0 {
            wrong.push("after it had expired".into());
        }
        if let Some(known) = self.jobs.get_mut(&job.id) {
            let is_first = !self.started.contains(&job.id);
            // An attempt of which no worker was told, since the process died, may have crashed.
            let due_at = if job.attempt == 1 { job.due_at } else { job.first_due_at };
            if is_first && !known.is_touched && due_at != known.pushed.due_at {
                wrong.push(format!("with another due time than {}: {job:?}", known.pushed.due_at));
            }
            if !known.is_touched && job.payload != known.pushed.payload {
                wrong.push("with another payload".into());
            }
            if let Some(end) = known.ended {
                wrong.push(format!("after it had ended as {end:?}"));
            }
            if known.is_stopped {
                wrong.push("after its worker was asked to stop".into());
            }
            if job.epoch <= known.epoch || job.version <= known.version {
                wrong.push(format!("with an epoch or version not above {} and {}", known.epoch, known.version));
            }
            if let Some(span) = known.span.filter(|span| span.holds(at, self.callers_went)) {
                wrong.push(format!("while the lease {} lives", span.epoch));
            }
            known.leases.insert(job.epoch, at.life);
            (known.epoch, known.version) = (job.epoch, job.version);
            let left_ms = job.lease_until.map_or(0, |until| until.0.saturating_sub(at.wall)).min(lease.length.0);
            known.span = Some(Span { epoch: job.epoch, began: at, until: at.mono + left_ms, is_claimed: false });
        }
        wrong.extend(self.given.leased(job));
        self.started.insert(job.id);
        self.check_key(job, at, &mut wrong);
        self.blame(job.id, "was handed out", wrong, at);
        self.saw(job, at);
    }

    /// A job was seen in this state.
    pub(super) fn saw(&mut self, job: &Job, at: At) {
        let wrong = self.given.saw(job);
        self.blame(job.id, "was seen", wrong.into_iter().collect(), at);
    }

    fn check_key(&self, job: &Job, at: At, wrong: &mut Vec<String>) {
        let key = job.key.as_ref().filter(|_| job.key_until == KeyUntil::Finished);
        let holds = |known: &&KnownJob| {
            let span = known.span.filter(|span| span.until > at.mono && span.began.life == at.life);
            let same = known.pushed.key.as_ref() == key && known.pushed.queue == job.queue;
            // A replacement may have another `key_until`.
            let holds = known.pushed.key_until == KeyUntil::Finished && !self.replacing.may_differ(&known.pushed);
            same && holds && known.pushed.id != job.id && span.is_some()
        };
        if key.is_some()
            && !self.is_unfenced
            && let Some(other) = self.jobs.values().find(holds)
        {
            wrong.push(format!("while the job {} runs with its key", other.pushed.id));
        }
    }

    /// Its holder is about to change the end of a lease: until that is answered, the earlier of both counts.
    pub(super) fn extending(&mut self, receipt: Receipt, until: Millis) {
        if let Some(span) = self.span(receipt) {
            span.until = span.until.min(until);
        }
    }

    /// A lease was extended, until then by the monotonic clock: no other caller got the job before.
    pub(super) fn extended(&mut self, receipt: Receipt, asked: RequestTime, until: Millis, at: At) {
        self.extended += 1;
        let is_sure = !self.is_unfenced && asked.life == at.life;
        let Some(known) = self.jobs.get_mut(&receipt.id).filter(|_| is_sure) else { return };
        match &mut known.span {
            Some(span) if span.epoch == receipt.epoch => span.until = until,
            Some(span) if span.epoch > receipt.epoch && span.began.mono < until => {
                let wrong = format!("under {}, though the lease {} had begun", receipt.epoch, span.epoch);
                self.blame(receipt.id, "was extended", vec![wrong], at);
            }
            _ => {}
        }
    }

    /// The worker was asked to stop.
    pub(super) fn stopped(&mut self, id: JobId, asked: RequestTime, at: At) {
        let is_sure = !self.is_unfenced && asked.life == at.life;
        let known = self.jobs.get_mut(&id).filter(|known| is_sure && known.revivals == asked.revivals);
        if let Some(known) = known.filter(|known| known.unanswered == 0) {
            known.is_stopped = true;
        }
    }

    /// A process has begun, and restored these leases.
    pub(super) fn restored(&mut self, jobs: &[Job], at: At) {
        for job in jobs {
            if job.lease_until.is_some_and(|until| until > Timestamp(at.wall + LEASE_MS_LONGEST)) {
                self.blame(job.id, "was restored", vec![format!("with a lease until {:?}", job.lease_until)], at);
            }
        }
    }

    /// A caller has got the lease.
    pub(super) fn claimed(&mut self, receipt: Receipt) {
        let known = self.jobs.get_mut(&receipt.id);
        if let Some(span) = known.and_then(|known| known.span.as_mut()).filter(|span| span.epoch == receipt.epoch) {
            span.is_claimed = true;
        }
    }

    /// The holder is about to end its lease: from now on another may follow.
    pub(super) fn settling(&mut self, receipt: Receipt) {
        if let Some(known) = self.jobs.get_mut(&receipt.id) {
            known.span = known.span.filter(|span| span.epoch != receipt.epoch);
        }
    }

    /// A settle was answered. A receipt from before the broker was emptied must have been refused, unless the ledger has
    /// that very end.
    pub(super) fn settled(&mut self, receipt: Receipt, asked: RequestTime, state: State, ledger: &ModelLedger, at: At) {
        let Some(emptied) = self.emptied_in else { return };
        let Some(known) = self.jobs.get(&receipt.id) else { return };
        let began = known.leases.get(&receipt.epoch).copied().unwrap_or(at.life);
        let row = rows(ledger).remove(&receipt.id);
        let is_known = row.is_none_or(|row| row.receipt() == receipt && !row.is_pending());
        if began < emptied && asked.life >= emptied && !is_known {
            let wrong = format!("as {state:?} by a receipt from before the broker was emptied");
            self.blame(receipt.id, "was settled", vec![wrong], at);
        }
    }

    /// The number of requests to revive each job.
    pub(super) fn revivals(&self) -> BTreeMap<JobId, u64> {
        self.jobs.iter().map(|(id, known)| (*id, known.revivals)).collect()
    }

    /// A take returned this job: at most once, except for repeats of the same request. Since then no other caller has it.
    pub(super) fn taken(&mut self, job: &Job, by: Option<&Arc<str>>, revivals: &BTreeMap<JobId, u64>, at: At) {
        let asked = RequestTime { life: at.life, revivals: revivals.get(&job.id).copied().unwrap_or(0) };
        let mut wrong = Vec::new();
        if job.state(at.wall) != State::Succeeded {
            wrong.push(format!("as {}", job.state(at.wall)));
        }
        if let Some(known) = self.jobs.get_mut(&job.id).filter(|known| known.revivals == asked.revivals) {
            let is_repeat = by.is_some() && known.taken_by.as_ref() == by;
            if let Some(end) = known.ended.filter(|end| end.is_recorded && known.unanswered == 0 && !is_repeat) {
                wrong.push(format!("after it had ended as {end:?}"));
            }
            let span = known.span.filter(|span| span.holds(at, self.callers_went) && !self.is_unfenced);
            wrong.extend(span.map(|span| format!("while the lease {} lives", span.epoch)));
            known.taken_by = by.cloned();
        }
        self.blame(job.id, "was taken", wrong, at);
        self.ended(job.id, asked, State::Succeeded, true, at);
    }

    /// The answer was that the job had ended before: that is recorded, so that no restart undoes it.
    pub(super) fn found_ended(&mut self, id: JobId, asked: RequestTime, ledger: &ModelLedger, at: At) {
        let is_settled = |known: &KnownJob| known.revivals == asked.revivals && known.unanswered == 0;
        let row = rows(ledger).remove(&id).filter(Job::is_pending);
        if let Some(row) = row.filter(|_| self.jobs.get(&id).is_some_and(is_settled)) {
            self.blame(id, "was found to have ended", vec![format!("while it is recorded as {row:?}")], at);
        }
    }

    /// The answer was that the job has ended.
    pub(super) fn ended(&mut self, id: JobId, asked: RequestTime, state: State, is_recorded: bool, at: At) {
        let stage = match state {
            State::Succeeded => Stage::Succeeded,
            State::Failed => Stage::Failed,
            State::Cancelled => Stage::Cancelled,
            State::Scheduled | State::Ready | State::Running => return,
        };
        // Unrecorded changes in a memory that is lost since do not count.
        let is_lost = !is_recorded && asked.life != at.life;
        let is_unfenced = self.is_unfenced;
        let known = self.jobs.get_mut(&id).filter(|known| known.revivals == asked.revivals && !is_lost);
        let known = known.filter(|known| known.unanswered == 0);
        // A job that was handed out by mistake does not end twice.
        let has_ended = |known: &KnownJob| is_unfenced && known.ended.is_some_and(|end| end.is_recorded);
        if let Some(known) = known.filter(|known| !has_ended(known) && (!is_unfenced || asked.life == at.life)) {
            known.ended = Some(LeaseEnd { stage, is_recorded });
        }
    }

    fn span(&mut self, receipt: Receipt) -> Option<&mut Span> {
        self.jobs.get_mut(&receipt.id)?.span.as_mut().filter(|span| span.epoch == receipt.epoch)
    }

    /// Every job whose push was answered has ended as its end was answered.
    pub(super) fn check_end(&mut self, ledger: &ModelLedger, at: At) {
        let (rows, mut blames) = (rows(ledger), Vec::new());
        for (id, known) in &self.jobs {
            let row = rows.get(id).cloned().or_else(|| ledger.removed(*id));
            blames.extend(self.removing.wrong(&known.pushed, row.as_ref()).map(|wrong| (*id, wrong)));
            match rows.get(id) {
                None if known.may_be_gone || self.replacing.may_drop(&known.pushed) => {}
                None if self.removing.is_asked(&known.pushed.queue) && row.is_some_and(|row| !row.is_pending()) => {}
                None => blames.push((*id, "is lost".to_owned())),
                Some(row) if row.is_pending() => blames.push((*id, format!("never ended: {row:?}"))),
                Some(row) if known.ended.is_some_and(|end| end.stage != row.stage) => {
                    blames.push((*id, format!("ended as {:?} and is recorded as {:?}", known.ended, row.stage)));
                }
                Some(row) => {
                    let lost = known.edits.as_ref().and_then(|edits| edits.lost(row, |_| true));
                    blames.extend(lost.map(|lost| (*id, lost)));
                }
            }
        }
        for (id, blame) in blames {
            self.blame(id, "at the end", vec![blame], at);
        }
        self.check_instants(rows.values(), at);
        self.check_follow_ups(ledger, at);
    }

    /// Each end has begun what the job names for it, once.
    fn check_follow_ups(&mut self, ledger: &ModelLedger, at: At) {
        let all = ledger.all();
        let mut begun: BTreeMap<(JobId, &str), usize> = BTreeMap::new();
        let previous = |job: &Job| job.options().previous.as_ref().map(|previous| (previous.id, previous.state.word()));
        all.iter().filter_map(previous).for_each(|end| *begun.entry(end).or_default() += 1);
        let mut blames = Vec::new();
        for job in &all {
            let of = |state: State| begun.get(&(job.id, state.word())).copied().unwrap_or(0);
            let revivals = self.jobs.get(&job.id).map_or(0, |known| known.revivals) as usize;
            let (then, otherwise) = (job.follow_ups(Stage::Succeeded).len(), job.follow_ups(Stage::Failed).len());
            // A worker adds one as it completes the job. If that end was forgotten, or replaces such an end, it may not count.
            let is_completed = job.stage == Stage::Succeeded && job.message.as_deref() != Some(TAKEN);
            let is_added = is_completed && adds_a_job(job.receipt());
            let is_sure = is_added && !self.is_unfenced && self.emptied_in.is_none();
            let epochs = self.jobs.get(&job.id).into_iter().flat_map(|known| known.leases.keys());
            let may_add = is_added || epochs.into_iter().any(|&epoch| adds_a_job(Receipt { id: job.id, epoch }));
            let (succeeded, ended) = (of(State::Succeeded), of(State::Failed) + of(State::Cancelled));
            // After a retry by hand a job ends again. A push may replace a job that waits.
            let is_exact = revivals == 0 && !self.replacing.may_differ(job);
            let due = match job.stage {
                Stage::Pending => (0, 0),
                Stage::Succeeded => (then + usize::from(is_sure), 0),
                Stage::Failed | Stage::Cancelled => (0, otherwise),
            };
            let is_right = if is_exact {
                succeeded >= due.0 && ended >= due.1 && succeeded <= then + usize::from(may_add) && ended <= otherwise
            } else {
                self.replacing.may_differ(job) || succeeded >= due.0 && ended >= due.1
            };
            if !is_right {
                blames.push((
                    job.id,
                    format!("has begun {succeeded} and {ended} jobs, of {then} and {otherwise}: {job:?}"),
                ));
            }
        }
        for (id, blame) in blames {
            self.blame(id, "at the end", vec![blame], at);
        }
    }

    /// One name of a schedule and one instant have one job.
    fn check_instants<'a>(&mut self, rows: impl Iterator<Item = &'a Job>, at: At) {
        let mut pushed: BTreeMap<(&str, Millis), &Job> = BTreeMap::new();
        let is_of_schedule = |tag: &&Arc<str>| tag.starts_with("schedule:");
        for (row, tag) in rows.flat_map(|row| row.tags.iter().filter(is_of_schedule).map(move |tag| (row, tag))) {
            if let Some(first) = pushed.insert((tag, row.first_due_at.0), row) {
                let wrong = format!("for an instant of {tag} that had {first:?}: {row:?}");
                self.blame(row.id, "was pushed", vec![wrong], at);
            }
        }
    }

    /// A key has at most one live job in its queue.
    pub(super) fn check_keys(&mut self, ledger: &ModelLedger, at: At) {
        for id in ledger.beside_holder() {
            self.blame(id, "is live", vec!["beside the holder of its key".into()], at);
        }
    }

    fn blame(&mut self, id: JobId, when: &str, wrong: Vec<String>, at: At) {
        self.violations.extend(wrong.into_iter().map(|wrong| format!("the job {id} {when} {wrong} ({at:?})")));
    }
}

fn rows(ledger: &ModelLedger) -> BTreeMap<JobId, Job> {
    ledger.jobs().into_iter().map(|job| (job.id, job)).collect()
}

/// Shared by all actors.
pub(super) type Shared = Arc<std::sync::Mutex<History>>;
