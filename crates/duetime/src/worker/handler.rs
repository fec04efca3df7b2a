//! Handlers: functions whose arguments come from the job.

use super::context::Context;
use super::extract::FromContext;
use super::job_error::JobError;
use crate::__private::At;
use crate::job_type::JobType;
use duetime_core::api;
use serde::Serialize;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The end of an attempt.
pub type Handled = Result<(), JobError>;
/// The future of a running handler.
pub type Handling = Pin<Box<dyn Future<Output = Handled> + Send>>;
/// A handler of any type.
pub(super) type AnyHandler = Arc<dyn Fn(Context) -> Handling + Send + Sync>;

/// The rest of the chain that a wrapper runs: the next wrapper, or the handler.
pub struct Next(pub(super) AnyHandler);

impl Next {
    /// Runs the rest of the chain.
    pub async fn run(self, context: Context) -> Handled {
        (self.0)(context).await
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// An async function, or a closure that returns a future, with up to five arguments in any order: one [`JobType`], which is
/// the payload, and others that are [`FromContext`]. It returns a `Result`: what serializes is the job's result, unless it is
/// `null` (as of `()`), and any error is a [`JobError`]. `M` is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "this is no handler for a worker with the state `{S}`",
    note = "a handler is an async function that returns a `Result`; one argument implements `JobType` and is the payload, \
            others are `State<T>`, `Context`, `Attempt`, `Cancelled`, or implement `FromContext`",
    note = "the state of the worker is set by `Worker::state`, before handlers that use it"
)]
pub trait Handler<M, S>: Send + Sync + 'static {
    /// The payload.
    type Job: JobType;

    /// Runs the handler for the job of this context.
    fn call(&self, context: Context, state: &S) -> Handling;
}

/// The same that is not async and may block: it runs on one of the worker's own threads, within its runtime. A worker has at most 512.
#[diagnostic::on_unimplemented(
    message = "this is no blocking handler for a worker with the state `{S}`",
    note = "a blocking handler is a function that is not async and returns a `Result`; its arguments are those of `Handler`"
)]
pub trait BlockingHandler<M, S>: Send + Sync + 'static {
    /// The payload.
    type Job: JobType;

    /// Runs the handler for the job of this context.
    ///
    /// # Errors
    /// As the handler returns them.
    fn call_blocking(&self, context: Context, state: &S) -> Handled;
}

/// A [`Handler`] without a typed payload: all its arguments are [`FromContext`], such as [`Raw`](super::Raw).
#[diagnostic::on_unimplemented(
    message = "this is no handler of raw payloads for a worker with the state `{S}`",
    note = "it is an async function that returns a `Result`; its arguments are `Raw`, `State<T>`, `Context`, `Attempt`, \
            `Cancelled`, or implement `FromContext`"
)]
pub trait RawHandler<M, S>: Send + Sync + 'static {
    /// Runs the handler for the job of this context.
    fn call_raw(&self, context: Context, state: &S) -> Handling;
}

/// Handlers with arguments before and after the payload.
macro_rules! handlers {
    ($place:literal: $($before:ident),* ; $($after:ident),*) => {
        impl<F, R, T, E, S, J, $($before,)* $($after,)*> Handler<(At<$place>, $($before,)* J, $($after,)*), S> for F
        where
            F: Fn($($before,)* J, $($after,)*) -> R + Send + Sync + 'static,
            R: Future<Output = Result<T, E>> + Send + 'static,
            T: Serialize,
            E: Into<JobError>,
            J: JobType,
            $($before: FromContext<S>,)* $($after: FromContext<S>,)*
        {
            type Job = J;

            fn call(&self, context: Context, state: &S) -> Handling {
                arguments!(refuse; context, state, $($before)*, J, $($after)*);
                finish(context, self($($before,)* J, $($after,)*))
            }
        }

        impl<F, T, E, S, J, $($before,)* $($after,)*> BlockingHandler<(At<$place>, $($before,)* J, $($after,)*), S> for F
        where
            F: Fn($($before,)* J, $($after,)*) -> Result<T, E> + Send + Sync + 'static,
            T: Serialize,
            E: Into<JobError>,
            J: JobType,
            $($before: FromContext<S>,)* $($after: FromContext<S>,)*
        {
            type Job = J;

            fn call_blocking(&self, context: Context, state: &S) -> Handled {
                arguments!(Err; context, state, $($before)*, J, $($after)*);
                keep(&context, self($($before,)* J, $($after,)*))
            }
        }
    };
}

macro_rules! raw_handlers {
    ($($argument:ident),*) => {
        impl<F, R, T, E, S, $($argument,)*> RawHandler<($($argument,)*), S> for F
        where
            F: Fn($($argument,)*) -> R + Send + Sync + 'static,
            R: Future<Output = Result<T, E>> + Send + 'static,
            T: Serialize,
            E: Into<JobError>,
            $($argument: FromContext<S>,)*
        {
            #[allow(non_snake_case, unused_variables, reason = "one macro for any number of arguments")]
            fn call_raw(&self, context: Context, state: &S) -> Handling {
                $(
                    let $argument = match $argument::from_context(&context, state) {
                        Ok(argument) => argument,
                        Err(error) => return refuse(error),
                    };
                )*
                finish(context, self($($argument,)*))
            }
        }
    };
}

/// Binds each argument to a variable with the name of its type, or ends the attempt.
macro_rules! arguments {
    ($refuse:ident; $context:ident, $state:ident, $($before:ident)*, $payload:ident, $($after:ident)*) => {
        #[allow(unused_variables, reason = "a handler may have no other arguments")]
        let state = $state;
        $(arguments!(@one $refuse, $before = $before::from_context(&$context, state));)*
        arguments!(@one $refuse, $payload = payload(&$context));
        $(arguments!(@one $refuse, $after = $after::from_context(&$context, state));)*
    };
    (@one $refuse:ident, $name:ident = $value:expr) => {
        #[allow(non_snake_case, reason = "named like its type")]
        let $name = match $value {
            Ok(argument) => argument,
            Err(error) => return $refuse(error),
        };
    };
}
handlers!(0: ; );
handlers!(0: ; A);
handlers!(1: A; );
handlers!(0: ; A, B);
handlers!(1: A; B);
handlers!(2: A, B; );
handlers!(0: ; A, B, C);
handlers!(1: A; B, C);
handlers!(2: A, B; C);
handlers!(3: A, B, C; );
handlers!(0: ; A, B, C, D);
handlers!(1: A; B, C, D);
handlers!(2: A, B; C, D);
handlers!(3: A, B, C; D);
handlers!(4: A, B, C, D; );
raw_handlers!();
raw_handlers!(A);
raw_handlers!(A, B);
raw_handlers!(A, B, C);
raw_handlers!(A, B, C, D);

fn payload<J: JobType>(context: &Context) -> Result<J, JobError> {
    api::read_bytes(context.payload())
        .map_err(|unread| JobError::new(format!("the payload cannot be read as {:?}: {unread}", J::KIND)))
}

fn refuse(error: JobError) -> Handling {
    Box::pin(std::future::ready(Err(error)))
}

fn finish<T: Serialize, E: Into<JobError>>(
    context: Context,
    run: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Handling {
    Box::pin(async move {
        let ended = run.await;
        keep(&context, ended)
    })
}

/// Keeps the result of a handler.
fn keep<T: Serialize, E: Into<JobError>>(context: &Context, ended: Result<T, E>) -> Handled {
    let value = ended.map_err(Into::into)?;
    // The work is done, so it is not to be done again.
    let lost = |why: String| JobError::fatal(format!("the handler succeeded, but its result cannot be kept: {why}"));
    let result = serde_json::to_vec(&value).map_err(|error| lost(error.to_string()))?;
    if result == b"null" { Ok(()) } else { context.set_result(result).map_err(|error| lost(error.to_string())) }
}
