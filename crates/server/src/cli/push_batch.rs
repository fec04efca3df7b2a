//! A batch of jobs that are pushed or imported together.

use duetime::server::Cause;
use duetime::{Answers, Client, Error};
use duetime_core::api::Pushed;
use duetime_core::{Error as CoreError, NewJob};

/// Jobs pushed at a time, and bytes of payload.
pub(super) const BATCH_JOBS: usize = 1_000;
pub(super) const BATCH_BYTES: usize = 8 << 20;
/// The code for a body that is too large for the server.
const TOO_LARGE: u16 = 413;

/// Pushes them, and answers for each.
pub(super) async fn push(client: &Client, jobs: Vec<NewJob>) -> Answers<Pushed> {
    send(jobs, |jobs| client.push_many(jobs)).await
}

/// Sends them with this call, and answers for each. One that cannot be taken does not keep out the others.
pub(super) async fn send<J: Clone, A: Clone, F: Future<Output = Result<Answers<A>, Error>>>(
    jobs: Vec<J>,
    call: impl Fn(Vec<J>) -> F,
) -> Answers<A> {
    let count = jobs.len();
    // The payloads are shared.
    match call(jobs.clone()).await {
        Ok(answers) => answers,
        Err(error) if count > 1 && is_of_a_job(&error) => {
            let mut each = Vec::with_capacity(count);
            for job in jobs {
                each.push(call(vec![job]).await.and_then(|mut answers| answers.remove(0)));
            }
            each
        }
        Err(error) => vec![Err(error); count],
    }
}

/// True if the job is at fault, and not the connection to the engine.
pub(super) fn is_of_a_job(error: &Error) -> bool {
    match error.cause() {
        Cause::Core(error) => matches!(
            error,
            CoreError::Invalid { .. }
                | CoreError::KeyConflict { .. }
                | CoreError::OriginReused { .. }
                | CoreError::Running(_)
                | CoreError::Finished { .. }
        ),
        Cause::Refused { status, .. } => *status == TOO_LARGE,
        _ => false,
    }
}
