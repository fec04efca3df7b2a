//! One call: a connection, a transaction, a time-out, and what is done again after which error.

use super::connection::Database;
use super::fault::Fault;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::Error;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// How long one attempt may take before its connection is given up. Servers end a statement before.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);
/// How often a transaction that met another one is run again.
const RACES_MAX: u32 = 30;
/// The longest wait before that.
const RACE_PAUSE_MAX: Duration = Duration::from_millis(50);
/// The waits before another attempt after a lost connection; then it is told.
const LOSS_PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(250)];

/// What is done in one transaction, perhaps more than once.
#[async_trait]
pub(super) trait Verb: Send {
    /// What comes of it.
    type Answer: Send;
    /// Whether it changes anything, and so needs a transaction.
    const WRITES: bool;

    /// Does it. `is_careful` where an attempt before met another transaction.
    async fn run(&mut self, session: &mut Session, is_careful: bool) -> Result<Self::Answer, Fault>;

    /// The connection was lost while it was committed, so it may have been. Answers whether it can be run again.
    fn unsure(&mut self) -> bool {
        true
    }
}

/// A function of what is asked, and what is asked.
pub(super) struct Plain<A, T, const WRITES: bool>(pub(super) A, pub(super) Function<A, T>);

pub(super) type Function<A, T> = for<'a> fn(&'a mut Session, &'a A) -> BoxFuture<'a, Result<T, Fault>>;

#[async_trait]
impl<A: Send + Sync, T: Send, const WRITES: bool> Verb for Plain<A, T, WRITES> {
    type Answer = T;
    const WRITES: bool = WRITES;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<T, Fault> {
        (self.1)(session, &self.0).await
    }
}

enum CallStep {
    Before,
    Commit,
}

/// Calls a verb until it succeeds or nothing helps.
pub(super) async fn call<V: Verb>(database: &dyn Database, mut verb: V) -> Result<V::Answer, Error> {
    let (mut races, mut losses) = (0, 0);
    loop {
        let (step, fault) = match attempt(database, &mut verb, races > 0).await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        tracing::debug!(?fault, races, losses, "an attempt failed; trying again");
        match fault {
            Fault::Race(_) if races < RACES_MAX => {
                races += 1;
                tokio::time::sleep(Duration::from_millis(u64::from(races)).min(RACE_PAUSE_MAX)).await;
            }
            Fault::Lost(_) if losses < LOSS_PAUSES.len() && (matches!(step, CallStep::Before) || verb.unsure()) => {
                tokio::time::sleep(LOSS_PAUSES[losses]).await;
                losses += 1;
            }
            fault => return Err(fault.into_error()),
        }
    }
}

async fn attempt<V: Verb>(
    database: &dyn Database,
    verb: &mut V,
    is_careful: bool,
) -> Result<V::Answer, (CallStep, Fault)> {
    let mut session = Session::new(database).await.map_err(|fault| (CallStep::Before, fault))?;
    let mut step = CallStep::Before;
    let work = async {
        if !V::WRITES {
            return verb.run(&mut session, is_careful).await;
        }
        session.begin().await?;
        match verb.run(&mut session, is_careful).await {
            Ok(answer) => {
                step = CallStep::Commit;
                session.commit().await?;
                Ok(answer)
            }
            Err(Fault::Lost(text)) => Err(Fault::Lost(text)),
            Err(fault) => session.rollback().await.and(Err(fault)),
        }
    };
    let Ok(outcome) = tokio::time::timeout(ATTEMPT_MAX, work).await else {
        // The caller has waited long enough; the connection is closed.
        let silent = Error::Unavailable(format!("the database did not answer within {} s", ATTEMPT_MAX.as_secs()));
        return Err((step, silent.into()));
    };
    // A connection that failed in the middle of something is closed, too.
    if outcome.is_ok() || (matches!(step, CallStep::Before) && !matches!(outcome, Err(Fault::Lost(_)))) {
        session.release();
    }
    outcome.map_err(|fault| (step, fault))
}
