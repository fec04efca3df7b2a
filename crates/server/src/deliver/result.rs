//! The result of one delivery: for the job, and for the pace of the next deliveries.

use duetime::JobError;
use duetime::worker::Handled;
use duetime_core::Payload;
use duetime_core::api::Span;
use duetime_core::engine::Outcome;
use duetime_core::rules::Failure;
use serde::Serialize;

/// The result of one delivery.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryResult {
    /// Of the job.
    pub(crate) outcome: Outcome,
    /// Of the target.
    pub(crate) sign: Sign,
}

/// The state of a target, as one delivery shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It took the job, or refused just this one.
    Well,
    /// It answered, which tells nothing about its load.
    Answered,
    /// It asks for less load, or does not keep up. With `hold_ms` it wants a pause.
    Overloaded {
        /// In milliseconds.
        hold_ms: Option<u64>,
    },
    /// It did not answer in time: it does not keep up, or is unavailable.
    Silent,
    /// It could not be reached.
    Away,
    /// It was not asked.
    None,
}

impl DeliveryResult {
    /// It was taken; this is kept as the job's result.
    pub(super) fn taken(result: &impl Serialize) -> Self {
        let result = serde_json::to_vec(result).ok().map(Payload::from);
        Self { outcome: Outcome::complete(result), sign: Sign::Well }
    }

    /// It failed, and is tried again by the job's retry rule.
    pub(super) fn failed(message: String, sign: Sign) -> Self {
        Self::failure(Failure { message: message.into(), ..Failure::default() }, sign)
    }

    /// It failed, and is tried again after this.
    pub(super) fn put_off(message: String, retry_after_ms: Option<u64>) -> Self {
        let failure = Failure { message: message.into(), is_final: false, retry_after: retry_after_ms.map(Span) };
        Self::failure(failure, Sign::Overloaded { hold_ms: retry_after_ms })
    }

    /// It failed for good.
    pub(super) fn refused(message: String, sign: Sign) -> Self {
        Self::failure(Failure { message: message.into(), is_final: true, retry_after: None }, sign)
    }

    fn failure(failure: Failure, sign: Sign) -> Self {
        Self { outcome: Outcome::Fail(failure), sign }
    }

    /// As the handler of a worker answers it.
    pub(crate) fn into_handled(self, context: &duetime::Context) -> Handled {
        match self.outcome {
            Outcome::Complete { result, .. } => result.map_or(Ok(()), |result| Ok(context.set_result(result)?)),
            Outcome::Release(release) => Err(JobError::release(release.delay.into())),
            Outcome::Park(park) => Err(JobError::park(&*park.message)),
            Outcome::Fail(Failure { message, is_final: true, .. }) => Err(JobError::fatal(&*message)),
            Outcome::Fail(Failure { message, retry_after: Some(wait), .. }) => {
                Err(JobError::retry_after(wait.into(), &*message))
            }
            Outcome::Fail(Failure { message, .. }) => Err(JobError::new(&*message)),
        }
    }

    /// The reason for a failure, if it failed.
    pub(crate) fn why(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Fail(failure) => Some(&failure.message),
            _ => None,
        }
    }

    /// One word for it: `taken`, `failed`, `refused` (for good), `given_back` or `parked`.
    pub(crate) fn word(&self) -> &'static str {
        match &self.outcome {
            Outcome::Complete { .. } => "taken",
            Outcome::Fail(failure) if failure.is_final => "refused",
            Outcome::Fail(_) => "failed",
            Outcome::Release(_) => "given_back",
            Outcome::Park(_) => "parked",
        }
    }
}
