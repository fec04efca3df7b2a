//! Arguments of handlers.

use super::context::Context;
use super::job_error::JobError;
use duetime_core::Payload;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// An argument of a handler that comes from the [`Context`] of its job, or from the state of the [`Worker`](crate::Worker).
/// Implement it for arguments of your own:
///
/// ```
/// use duetime::{Context, JobError, worker::FromContext};
///
/// struct Tenant(String);
///
/// impl<S> FromContext<S> for Tenant {
///     fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
///         let tenant = context.tags().iter().find_map(|tag| tag.strip_prefix("tenant:"));
///         tenant.map(|tenant| Self(tenant.to_owned())).ok_or_else(|| JobError::fatal("the job has no tenant"))
///     }
/// }
/// ```
pub trait FromContext<S>: Sized {
    /// The argument.
    ///
    /// # Errors
    /// If the attempt is to end with this error, and the handler is not to run.
    fn from_context(context: &Context, state: &S) -> Result<Self, JobError>;
}

/// The state of the worker, or a [part](FromRef) of it.
#[derive(Clone, Copy, Debug)]
pub struct State<T>(pub T);

/// A part of a worker's state that handlers can ask for by its type.
pub trait FromRef<S> {
    /// The part.
    fn from_ref(state: &S) -> Self;
}

impl<S: Clone> FromRef<S> for S {
    fn from_ref(state: &S) -> Self {
        state.clone()
    }
}

/// The number of this attempt, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(pub u32);

/// Cancelled when the handler should stop: the job was cancelled, its lease is lost, or the worker has waited long enough
/// while stopping.
#[derive(Clone, Debug)]
pub struct Cancelled(pub CancellationToken);

/// The payload's bytes.
#[derive(Clone, Debug)]
pub struct Raw(pub Payload);

/// The result of the job whose end pushed this one ([`Push::then`](crate::Push::then)), as JSON of `T`; `null` if it has none. The
/// attempt fails for good if there is no such job, or its result is no `T`. [`Context::previous`] has more.
#[derive(Clone, Copy, Debug)]
pub struct Previous<T>(pub T);

impl<S, T: DeserializeOwned> FromContext<S> for Previous<T> {
    fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
        let previous =
            context.previous().ok_or_else(|| JobError::fatal("no other job has pushed this one by its end"))?;
        let result = serde_json::from_slice(previous.result_bytes().unwrap_or(b"null"));
        result.map(Self).map_err(|error| JobError::fatal(format!("the result of the job {}: {error}", previous.id)))
    }
}

impl<S> FromContext<S> for Context {
    fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
        Ok(context.clone())
    }
}

impl<S, T: FromRef<S>> FromContext<S> for State<T> {
    fn from_context(_: &Context, state: &S) -> Result<Self, JobError> {
        Ok(Self(T::from_ref(state)))
    }
}

impl<S> FromContext<S> for Attempt {
    fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
        Ok(Self(context.attempt()))
    }
}

impl<S> FromContext<S> for Cancelled {
    fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
        Ok(Self(context.cancellation().clone()))
    }
}

impl<S> FromContext<S> for Raw {
    fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
        Ok(Self(context.payload().clone()))
    }
}
