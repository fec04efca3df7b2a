//! What was asked and answered, and whether that keeps the promises.

use crate::clock::Millis;
use crate::id::{JobId, Receipt};
use crate::job::{Job, KeyUntil, Stage, State};
use crate::ports::Lease;
use crate::retry::WhenExhausted;
use crate::testing::ModelLedger;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Both clocks, and the life of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) wall: Millis,
    pub(super) mono: Millis,
    pub(super) life: u64,
    /// How often the wall clock was stepped.
    pub(super) wall_steps: u64,
}

/// What is known of a job whose push was answered.
#[derive(Debug)]
struct Known {
    pushed: Job,
    /// Somebody asked to change it, so that its fields may differ from what was pushed.
    is_touched: bool,
    may_be_gone: bool,
    ended: Option<Stage>,
    span: Option<Span>,
    version: u64,
    epoch: u64,
}

/// A lease as its holder sees it.
#[derive(Clone, Copy, Debug)]
struct Span {
    epoch: u64,
    began: At,
    until: Millis,
}

#[derive(Debug, Default)]
pub(super) struct History {
    jobs: BTreeMap<JobId, Known>,
    pub(super) violations: Vec<String>,
    pub(super) handed_out: u64,
}

impl History {
    pub(super) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    pub(super) fn pushed(&mut self, job: Job) {
        let exhausted = job.retry.as_ref().and_then(|retry| retry.when_exhausted.clone());
        let known = Known {
            is_touched: false,
            may_be_gone: exhausted == Some(WhenExhausted::Drop),
            ended: None,
            span: None,
            version: job.version,
            epoch: job.epoch,
            pushed: job,
        };
        self.jobs.entry(known.pushed.id).or_insert(known);
    }

    /// Somebody asks for a change; whether it is made is known later, or never.
    pub(super) fn touched(&mut self, id: JobId, may_be_gone: bool, may_live_again: bool) {
        if let Some(known) = self.jobs.get_mut(&id) {
            known.is_touched = true;
            known.may_be_gone |= may_be_gone;
            if may_live_again {
                known.ended = None;
            }
        }
    }

    pub(super) fn handed_out(&mut self, lease: &Lease, at: At, ledger: &ModelLedger) {
        self.handed_out += 1;
        let job = &lease.job;
        let mut wrong = Vec::new();
        if job.due_at > at.wall {
            wrong.push(format!("early by {} ms", job.due_at - at.wall));
        }
        if job.start_by().is_some_and(|by| by <= at.wall) && job.attempt == 0 {
            wrong.push("after it had expired".into());
        }
        if let Some(known) = self.jobs.get_mut(&job.id) {
            let first = job.attempt == 1 && job.epoch > 0 && known.epoch == 0;
            if first && !known.is_touched && job.due_at != known.pushed.due_at {
                wrong.push(format!("with another due time than {}", known.pushed.due_at));
            }
            if !known.is_touched && job.payload != known.pushed.payload {
                wrong.push("with another payload".into());
            }
            if let Some(ended) = known.ended {
                wrong.push(format!("after it had ended as {ended:?}"));
            }
            if job.epoch <= known.epoch || job.version <= known.version {
                wrong.push(format!("with an epoch or version not above {} and {}", known.epoch, known.version));
            }
            if let Some(span) = known.span.filter(|span| span.until > at.mono) {
                // A restart knows only the leases that were noted, and their ends only by the wall clock.
                let is_explained = span.began.life < at.life
                    && (!ledger.knows_lease(job.id, span.epoch) || span.began.wall_steps < at.wall_steps);
                // The new lease is in the ledger by now at the earliest; an older epoch there says nothing.
                if !is_explained && span.began.life == at.life {
                    wrong.push(format!("while the lease {} lives", span.epoch));
                } else if !is_explained && span.began.wall_steps == at.wall_steps {
                    wrong.push(format!("while the noted lease {} lives", span.epoch));
                }
            }
            (known.epoch, known.version) = (job.epoch, job.version);
            known.span = Some(Span { epoch: job.epoch, began: at, until: at.mono + lease.lease_ms });
        }
        self.check_key(job, at, &mut wrong);
        self.blame(job.id, "was handed out", wrong, at);
    }

    fn check_key(&self, job: &Job, at: At, wrong: &mut Vec<String>) {
        let key = job.key.as_ref().filter(|_| job.key_until == KeyUntil::Finished);
        let holds = |known: &&Known| {
            let span = known.span.filter(|span| span.until > at.mono && span.began.life == at.life);
            let same = known.pushed.key.as_ref() == key && known.pushed.queue == job.queue;
            same && known.pushed.key_until == KeyUntil::Finished && known.pushed.id != job.id && span.is_some()
        };
        if key.is_some()
            && let Some(other) = self.jobs.values().find(holds)
        {
            wrong.push(format!("while the job {} runs with its key", other.pushed.id));
        }
    }

    pub(super) fn extended(&mut self, receipt: Receipt, until: Millis) {
        if let Some(span) = self.span(receipt) {
            span.until = until;
        }
    }

    /// The holder is about to end its lease: from now on another may follow.
    pub(super) fn settling(&mut self, receipt: Receipt) {
        if let Some(known) = self.jobs.get_mut(&receipt.id) {
            known.span = known.span.filter(|span| span.epoch != receipt.epoch);
        }
    }

    pub(super) fn ended(&mut self, id: JobId, state: State, recorded: bool) {
        let stage = match state {
            State::Succeeded => Stage::Succeeded,
            State::Failed => Stage::Failed,
            State::Cancelled => Stage::Cancelled,
            State::Scheduled | State::Ready | State::Running => return,
        };
        if let Some(known) = self.jobs.get_mut(&id).filter(|_| recorded) {
            known.ended = Some(stage);
        }
    }

    fn span(&mut self, receipt: Receipt) -> Option<&mut Span> {
        self.jobs.get_mut(&receipt.id)?.span.as_mut().filter(|span| span.epoch == receipt.epoch)
    }

    /// Every job whose push was answered has ended, and as was answered.
    pub(super) fn check_end(&mut self, ledger: &ModelLedger, at: At) {
        let rows: BTreeMap<JobId, Job> = ledger.jobs().into_iter().map(|job| (job.id, job)).collect();
        let mut blames = Vec::new();
        for (id, known) in &self.jobs {
            match rows.get(id) {
                None if known.may_be_gone => {}
                None => blames.push((*id, "is lost".to_owned())),
                Some(row) if row.is_pending() => blames.push((*id, format!("never ended: {row:?}"))),
                Some(row) if known.ended.is_some_and(|ended| ended != row.stage) => {
                    blames.push((*id, format!("ended as {:?} and is recorded as {:?}", known.ended, row.stage)));
                }
                Some(_) => {}
            }
        }
        for (id, blame) in blames {
            self.blame(id, "at the end", vec![blame], at);
        }
    }

    fn blame(&mut self, id: JobId, when: &str, wrong: Vec<String>, at: At) {
        self.violations.extend(wrong.into_iter().map(|wrong| format!("the job {id} {when} {wrong} ({at:?})")));
    }
}

/// Shared by all who ask.
pub(super) type Shared = Arc<std::sync::Mutex<History>>;
