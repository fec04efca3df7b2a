//! The answers that every client got, which of them were lost, and when.

use crate::common::Exchange;
use duetime::Error;
use duetime::server::Cause;
use duetime_core::api::{Pushed, Span};
use duetime_core::engine::{CancelOutcome, Outcome, PushOutcome, Reservation, Settlement};
use duetime_core::json::Timestamp;
use duetime_core::ports::Lease;
use duetime_core::{Error as CoreError, JobId, Millis, Receipt, State};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Account {
    /// By the number in the payload.
    pub(crate) pushes: BTreeMap<u64, Push>,
    pub(crate) jobs: BTreeMap<JobId, Life>,
    pub(crate) tag_cancels: Vec<(Arc<str>, Exchange<()>)>,
    /// Answers that must never come.
    pub(crate) wrong: Vec<String>,
}

/// A push of one job.
pub(crate) struct Push {
    pub(crate) key: Option<Arc<str>>,
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) exchange: Exchange<Pushed>,
}

/// The recorded answers about a job.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// By epoch.
    pub(crate) leases: BTreeMap<u64, HeldLease>,
    pub(crate) cancels: Vec<Exchange<CancelOutcome>>,
}

/// A lease as its holder knows it.
#[derive(Debug)]
pub(crate) struct HeldLease {
    pub(crate) generation: usize,
    pub(crate) seen_at: Millis,
    pub(crate) due_at: Millis,
    pub(crate) started_at: Millis,
    /// When it expires, as its holder was told last. A kill undoes nothing that was answered.
    pub(crate) until: Millis,
    pub(crate) settles: Vec<Settle>,
}

/// An attempt to end a lease.
#[derive(Debug)]
pub(crate) struct Settle {
    pub(crate) end: End,
    /// The state that the job was left in; `None` if the lease was reported as ended before.
    pub(crate) exchange: Exchange<Option<State>>,
}

/// The intended end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    FailFinally,
    /// The job comes back no sooner than after this time in milliseconds; 0 for at once.
    Again(u64),
}

impl HeldLease {
    /// The answers that ended it, or may have: those that were lost.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &Settle> {
        let refused = |settle: &&Settle| !matches!(settle.exchange.answer, Some((_, None)));
        self.settles.iter().filter(refused)
    }
}

impl Account {
    /// A batch was pushed: the answers come in the order of the numbers.
    pub(crate) fn pushed(&mut self, batch: Vec<(u64, NewPush)>, exchange: Exchange<Vec<Result<Pushed, Error>>>) {
        let Exchange { generation, sent, .. } = exchange;
        let mut answers = exchange.answer.map(|(at, answers)| (at, answers.into_iter()));
        for (number, NewPush { key, tags }) in batch {
            let answer = answers.as_mut().and_then(|(at, answers)| match answers.next() {
                Some(Ok(pushed)) => Some((*at, pushed)),
                other => {
                    self.wrong.push(format!("the push {number} was answered {other:?}"));
                    None
                }
            });
            if let Some((_, pushed)) = &answer {
                if pushed.outcome == PushOutcome::Created {
                    self.jobs.entry(pushed.id).or_default();
                } else if key.is_none() {
                    self.wrong.push(format!("the push {number} without a key was answered {pushed:?}"));
                }
            }
            self.pushes.insert(number, Push { key, tags, exchange: Exchange { generation, sent, answer } });
        }
    }

    /// Leases were handed out.
    pub(crate) fn handed_out(&mut self, reservation: &Reservation, generation: usize, seen_at: Millis) {
        for Lease { job, .. } in &reservation.leases {
            let (started_at, until) = (job.started_at.unwrap_or(Timestamp(0)), job.lease_until.unwrap_or(Timestamp(0)));
            let held = HeldLease {
                generation,
                seen_at,
                due_at: job.due_at.0,
                started_at: started_at.0,
                until: until.0,
                settles: Vec::new(),
            };
            if self.jobs.entry(job.id).or_default().leases.insert(job.epoch, held).is_some() {
                self.wrong.push(format!("the lease {} was handed out twice", job.receipt()));
            }
        }
    }

    pub(crate) fn extended(&mut self, receipt: Receipt, until: Millis) {
        let held = self.held(receipt);
        held.until = held.until.max(until);
    }

    /// The end of a lease was asked for.
    pub(crate) fn settled(&mut self, receipt: Receipt, end: End, exchange: &Exchange<Result<Settlement, Error>>) {
        let answer = exchange.answer.as_ref().and_then(|(at, result)| match result {
            Ok(settlement) => Some((*at, Some(settlement.state))),
            Err(error) if matches!(error.cause(), Cause::Core(CoreError::LeaseLost(lost)) if *lost == receipt) => {
                Some((*at, None))
            }
            Err(error) => {
                self.wrong.push(format!("{end:?} of {receipt} was answered {error}"));
                None
            }
        });
        let exchange = Exchange { generation: exchange.generation, sent: exchange.sent, answer };
        self.held(receipt).settles.push(Settle { end, exchange });
    }

    pub(crate) fn cancelled(&mut self, id: JobId, exchange: Exchange<Result<CancelOutcome, Error>>) {
        let Exchange { generation, sent, answer } = exchange;
        let answer = answer.and_then(|(at, result)| match result {
            Ok(outcome) => Some((at, outcome)),
            Err(error) => {
                self.wrong.push(format!("the cancel of {id} was answered {error}"));
                None
            }
        });
        self.jobs.entry(id).or_default().cancels.push(Exchange { generation, sent, answer });
    }

    fn held(&mut self, receipt: Receipt) -> &mut HeldLease {
        let life = self.jobs.get_mut(&receipt.id).expect("it was handed out");
        life.leases.get_mut(&receipt.epoch).expect("it was handed out")
    }
}

/// The parts of a push that are accounted for.
pub(crate) struct NewPush {
    pub(crate) key: Option<Arc<str>>,
    pub(crate) tags: Vec<Arc<str>>,
}

impl End {
    pub(crate) fn outcome(self) -> Outcome {
        let failure = |is_final, retry_after| {
            Outcome::Fail(duetime_core::rules::Failure { message: Arc::from("told to"), is_final, retry_after })
        };
        match self {
            Self::Complete => Outcome::complete(None),
            Self::FailFinally => failure(true, None),
            // Half of them one way, half the other: they come back in the same way.
            Self::Again(after_ms) if after_ms % 2 == 0 => Outcome::release(Span(after_ms)),
            Self::Again(after_ms) => failure(false, Some(Span(after_ms))),
        }
    }
}
