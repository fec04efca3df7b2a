//! The loop: claim, push, settle.
//!
//! Invariant: a claim is removed from the source once its push was answered, and put back only if it cannot have been
//! pushed. In any other case it stays, and the next run pushes it again under its id.

use super::push::{Fate, Pusher};
use super::report::Report;
use super::source::{Claim, Done, Source, Step, Trouble};
use crate::cli::exit::{Failure, Result, TRY_LATER};
use crate::cli::output::note;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Batches that are pushed at a time.
const PUSHES_MAX: usize = 6;
/// Claims that are refused and wait to be put back. Beyond that something is wrong with all of them.
const REFUSED_MAX: usize = 1_000;
/// Between tries to connect to the source.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a session may still take once it is stopped: longer than its pushes.
const END_MAX: Duration = Duration::from_secs(8);
/// How long the last look may take, at a source that did not answer before.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// How long a drain waits for the source, or for the target, to come back.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Claims that are being pushed.
struct Push {
    claims: Arc<[Claim]>,
    fates: JoinHandle<Vec<Fate>>,
}

pub(super) struct Adopter {
    source: Box<dyn Source>,
    pusher: Pusher,
    step: Step,
    pushes: VecDeque<Push>,
    /// Claims that go back at the end.
    refused: Vec<Arc<str>>,
    /// Why the command ends before everything is done.
    failure: Option<Failure>,
    /// Why it ends after the replay.
    look: Option<Failure>,
    /// A drain found nothing more.
    is_drained: bool,
    report: Report,
}

impl Adopter {
    pub(super) fn new(source: Box<dyn Source>, pusher: Pusher, step: Step, report: Report) -> Self {
        let (pushes, refused) = (VecDeque::new(), Vec::new());
        Self { source, pusher, step, pushes, refused, failure: None, look: None, is_drained: false, report }
    }

    /// Runs until a drain is done, or until it is stopped. If a look has failed, only claims of an earlier run are finished.
    pub(super) async fn run(mut self, look: Option<Failure>) -> Result {
        self.look = look;
        let mut away_since = None;
        let result = loop {
            let before = self.report.claimed;
            let stop = self.pusher.stop.clone();
            let overdue = async {
                stop.cancelled().await;
                tokio::time::sleep(END_MAX).await;
            };
            let session = tokio::select! {
                session = self.session() => session,
                () = overdue => Err(Trouble::Away(format!("it did not answer within {END_MAX:?} of the signal"))),
            };
            let trouble = match session {
                Ok(()) => break self.end(),
                Err(trouble) => trouble,
            };
            let left = self.forget_pushes().await;
            let why = match trouble {
                Trouble::Failed(failure) => {
                    self.leave(left).await;
                    break Err(failure);
                }
                Trouble::Away(why) => why,
            };
            if self.report.claimed > before {
                away_since = None;
            }
            let since = *away_since.get_or_insert_with(Instant::now);
            let is_over = self.step == Step::Drain && since.elapsed() > PATIENCE;
            if is_over || self.pusher.stop.is_cancelled() {
                self.leave(left).await;
                break Err(Failure::new(TRY_LATER, why).hint("run the same command again to continue"));
            }
            note!("the source is unavailable: {why}; trying again");
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.pusher.stop.cancelled() => {}
            }
        };
        self.report.end(result)
    }

    /// The result of the last session.
    fn end(&mut self) -> Result {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.step == Step::Drain && !self.is_drained {
            return Err(Failure::new(TRY_LATER, "stopped before everything was taken")
                .hint("run the same command again to continue"));
        }
        Ok(())
    }

    /// Gives up on the source; these claims stay in it.
    async fn leave(&mut self, claims: u64) {
        self.report.claimed += claims;
        self.report.left_claimed += claims;
        self.report.there = match timeout(LOOK_MAX, self.source.look()).await {
            Ok(Ok(look)) => Some(look.parts.into_iter().filter(|part| !part.is_empty()).collect()),
            _ => None,
        };
    }

    /// From a connection to the source until it breaks, or all is done.
    async fn session(&mut self) -> Done {
        self.is_drained = false;
        self.source.connect().await?;
        self.replay().await?;
        if let Some(failure) = self.look.take() {
            self.fail(failure);
        }
        while !self.is_ending() {
            if self.pushes.len() == PUSHES_MAX {
                self.settle().await?;
                continue;
            }
            let claims = self.source.claim(self.step).await?;
            if !claims.is_empty() {
                self.begin(claims).await?;
            } else if !self.pushes.is_empty() {
                self.settle().await?;
            } else if self.step == Step::Drain {
                self.is_drained = true;
                break;
            } else {
                self.source.wait().await?;
            }
            self.report.show()?;
        }
        self.settle_all().await?;
        let refused = std::mem::take(&mut self.refused);
        let put_back = self.source.put_back(&refused).await;
        if put_back.is_err() {
            self.refused = refused;
        }
        put_back?;
        let parts = self.source.look().await?.parts;
        self.report.there = Some(parts.into_iter().filter(|part| !part.is_empty()).collect());
        Ok(())
    }

    /// Claims of an earlier run, or of a connection that broke.
    async fn replay(&mut self) -> Done {
        loop {
            let claims = self.source.replay().await?;
            if claims.is_empty() || self.is_ending() {
                return self.settle_all().await;
            }
            self.begin(claims).await?;
            self.report.show()?;
        }
    }

    fn is_ending(&self) -> bool {
        self.pusher.stop.is_cancelled() || self.failure.is_some()
    }

    /// Begins to push claims. A claim waits for those before it that have its key, so that the last one counts.
    async fn begin(&mut self, mut claims: Vec<Claim>) -> Done {
        self.report.claimed += claims.len() as u64;
        self.report.lag_ms = claims.iter().rev().find_map(|claim| claim.late_ms).or(self.report.lag_ms);
        while !claims.is_empty() {
            let mut keys: HashSet<_> = self.pushes.iter().flat_map(|push| push.claims.iter()).filter_map(key).collect();
            let is_held = |claim| key(claim).is_some_and(|key| !keys.insert(key));
            let free = claims.iter().position(is_held).unwrap_or(claims.len());
            if free > 0 && self.pushes.len() < PUSHES_MAX {
                let later = claims.split_off(free);
                self.push(std::mem::replace(&mut claims, later));
                continue;
            }
            if let Err(trouble) = self.settle().await {
                self.report.claimed -= claims.len() as u64;
                return Err(trouble);
            }
            if self.failure.is_some() {
                let (left, back): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| claim.is_replay);
                self.report.left_claimed += left.len() as u64;
                let back: Vec<_> = back.into_iter().map(|claim| claim.id).collect();
                return self.source.put_back(&back).await;
            }
        }
        Ok(())
    }

    fn push(&mut self, claims: Vec<Claim>) {
        self.report.in_flight += claims.len() as u64;
        let claims: Arc<[Claim]> = claims.into();
        let fates = tokio::spawn(self.pusher.clone().push(claims.clone()));
        self.pushes.push_back(Push { claims, fates });
    }

    async fn settle_all(&mut self) -> Done {
        while !self.pushes.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }

    /// Waits for the oldest push, and settles its claims at the source.
    async fn settle(&mut self) -> Done {
        let Some(Push { claims, fates }) = self.pushes.pop_front() else { return Ok(()) };
        let fates = fates.await.map_err(|error| Failure::error(format!("a push ended unexpectedly: {error}")))?;
        self.report.in_flight -= claims.len() as u64;
        let (mut done, mut back, mut repeated) = (Vec::with_capacity(claims.len()), Vec::new(), 0);
        for (claim, fate) in claims.iter().zip(fates) {
            match fate {
                Fate::Taken(is_repeated) => {
                    repeated += u64::from(is_repeated);
                    done.push(claim.id.clone());
                }
                Fate::Refused(why) => {
                    self.report.refuse(claim, &why);
                    self.refused.push(claim.id.clone());
                }
                Fate::Forbidden { queue, why } => {
                    self.report.refuse(claim, &why);
                    back.push(claim.id.clone());
                    if !self.source.skip(&queue) {
                        self.fail(Failure::error(why));
                    }
                }
                Fate::Unchanged(error) => {
                    back.push(claim.id.clone());
                    self.fail(error.into());
                }
                Fate::Open(error) => {
                    self.report.left_claimed += 1;
                    self.fail(error.into());
                }
            }
        }
        if let Err(trouble) = self.source.done(&done).await {
            // These are replayed.
            self.report.claimed -= done.len() as u64;
            return Err(trouble);
        }
        self.report.repeated += repeated;
        self.report.adopted += done.len() as u64 - repeated;
        self.source.put_back(&back).await?;
        if self.refused.len() > REFUSED_MAX {
            self.fail(Failure::error(format!("more than {REFUSED_MAX} jobs were refused")));
        }
        Ok(())
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Waits for pushes whose claims the source will give again. Returns how many it will give.
    async fn forget_pushes(&mut self) -> u64 {
        let refused = self.refused.drain(..).len() as u64;
        self.report.refused -= refused;
        let mut in_flight = 0;
        while let Some(Push { claims, fates }) = self.pushes.pop_front() {
            in_flight += claims.len() as u64;
            let _ = fates.await;
        }
        self.report.in_flight -= in_flight;
        self.report.claimed -= refused + in_flight;
        refused + in_flight
    }
}

/// The key of its job in its queue.
fn key(claim: &Claim) -> Option<(Arc<str>, Arc<str>)> {
    let job = claim.job.as_ref().ok()?;
    Some((job.queue.clone(), job.key.clone()?))
}
