//! One call: connection, transaction, time limit, and which errors are retried.

use super::connection::Database;
use super::fault::Fault;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::Error;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Time limit of one attempt, after which its connection is closed. Servers cancel a statement earlier.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);
/// Time limit of a call for which a client waits, with all its attempts. One for many jobs has more: a second for so many, or for so many
/// bytes.
const CLIENT_MAX: Duration = Duration::from_secs(10);
const JOBS_PER_SECOND: usize = 50;
const BYTES_PER_SECOND: usize = 1 << 20;
/// How often a transaction is retried after a conflict with another.
const RACES_MAX: u32 = 30;
/// The longest pause before that.
const RACE_PAUSE_MAX: Duration = Duration::from_millis(50);
/// The pauses before each retry after a lost connection. After the last one the error is returned.
const LOSS_PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(250)];

/// The work of one transaction, which may run more than once.
#[async_trait]
pub(super) trait Verb: Send {
    /// The result.
    type Answer: Send;
    /// Whether it writes, and so needs a transaction.
    const WRITES: bool;

    /// Runs the work. `is_careful` is set if an earlier attempt conflicted with another transaction.
    async fn run(&mut self, session: &mut Session, is_careful: bool) -> Result<Self::Answer, Fault>;

    /// Called if the connection was lost during a commit, which may have succeeded. Returns whether to run it again.
    fn unsure(&mut self) -> bool {
        true
    }
}

/// Arguments and a function of them.
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

/// Waits for a call for which a client waits.
pub(super) async fn soon<T>(
    jobs: usize,
    bytes: usize,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let most = CLIENT_MAX + Duration::from_secs((jobs / JOBS_PER_SECOND + bytes / BYTES_PER_SECOND) as u64);
    let late = |_| Err(Error::Unavailable(format!("the database did not answer within {} s", most.as_secs())));
    tokio::time::timeout(most, call).await.unwrap_or_else(late)
}

/// Runs a verb until it succeeds or retries are exhausted.
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
        // The time limit has passed; the connection is closed.
        let silent = Error::Unavailable(format!("the database did not answer within {} s", ATTEMPT_MAX.as_secs()));
        return Err((step, silent.into()));
    };
    // A connection that failed within a transaction is closed, too.
    if outcome.is_ok() || (matches!(step, CallStep::Before) && !matches!(outcome, Err(Fault::Lost(_)))) {
        session.release();
    }
    outcome.map_err(|fault| (step, fault))
}
