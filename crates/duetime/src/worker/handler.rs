//! Handlers by kind, and their results.

use super::context::Context;
use crate::kind::Kind;
use crate::push::millis_up;
use duetime_core::engine::Outcome;
use duetime_core::limits::MESSAGE_BYTES_MAX;
use duetime_core::rules::{Failure, Park};
use duetime_core::{Job, Payload};
use std::collections::HashMap;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The result of a handler.
pub type Handled = Result<(), HandlerError>;

/// An attempt that did not succeed. `?` converts any error that implements `Display` to a failure with the error's text as
/// message. The job's retry rule decides what follows.
#[derive(Debug)]
pub struct HandlerError(Outcome);

impl HandlerError {
    /// A failure; the job's retry rule decides what follows. A message beyond 64 KiB is truncated and marked as such.
    pub fn new(message: impl Display) -> Self {
        let message = Arc::from(shortened(format!("{message:#}")));
        Self(Outcome::Fail(Failure { message, ..Failure::default() }))
    }

    /// A permanent failure: the job is not retried.
    pub fn final_(message: impl Display) -> Self {
        let Self(mut ending) = Self::new(message);
        if let Outcome::Fail(failure) = &mut ending {
            failure.is_final = true;
        }
        Self(ending)
    }

    /// Not a failure: the job is released and due again after this delay. The attempt does not count. With a delay of zero
    /// the job is handed out again at once. A job that has reached its `max_age` ends.
    pub fn release(delay: Duration) -> Self {
        Self(Outcome::release(millis_up(delay)))
    }

    /// The job is parked for this reason: it has failed, and is kept until it is retried or deleted. A reason beyond 64 KiB is
    /// truncated and marked as such.
    pub fn park(reason: impl Display) -> Self {
        let message = Arc::from(shortened(format!("{reason:#}")));
        Self(Outcome::Park(Park { message, priority: None }))
    }

    /// Gives a job that is released or parked this priority; 0 is the most urgent.
    pub fn priority(mut self, priority: u32) -> Self {
        match &mut self.0 {
            Outcome::Release(release) => release.priority = Some(priority),
            Outcome::Park(park) => park.priority = Some(priority),
            Outcome::Complete { .. } | Outcome::Fail(_) => {}
        }
        self
    }

    /// Retries after this delay, whatever the retry rule says.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if let Outcome::Fail(failure) = &mut self.0 {
            failure.retry_after_ms = Some(millis_up(delay));
        }
        self
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.0
    }
}

// `HandlerError` must not implement `Display` itself; otherwise this blanket conversion would conflict.
impl<E: Display> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

fn shortened(mut message: String) -> String {
    const CUT: &str = " … (cut off)";
    if message.len() > MESSAGE_BYTES_MAX {
        let mut end = MESSAGE_BYTES_MAX - CUT.len();
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push_str(CUT);
    }
    message
}

/// The future of a running handler.
pub(super) type Handling = Pin<Box<dyn Future<Output = Handled> + Send>>;
/// A type-erased handler.
pub(super) type Handler = Arc<dyn Fn(Context) -> Handling + Send + Sync>;

/// The rest of the chain that a wrapper runs: the next wrapper, or the handler.
pub struct Next(Handler);

impl Next {
    /// Runs the rest of the chain.
    pub async fn run(self, context: Context) -> Handled {
        (self.0)(context).await
    }
}

/// A function that runs around every handler.
type Wrapper = Arc<dyn Fn(Context, Next) -> Handling + Send + Sync>;

/// Handlers by kind.
#[derive(Default)]
pub(super) struct Handlers {
    by_kind: HashMap<Arc<str>, Handler>,
    fallback: Option<Handler>,
    /// Outermost first.
    wrappers: Vec<Wrapper>,
    /// The queues of typed handlers, in their order.
    queues: Vec<&'static str>,
}

impl Handlers {
    pub(super) fn typed<K, F, R>(&mut self, handler: F)
    where
        K: Kind,
        F: Fn(K, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        if !self.queues.contains(&K::QUEUE) {
            self.queues.push(K::QUEUE);
        }
        let run = move |context: Context| -> Handling {
            match serde_json::from_slice(context.payload()) {
                Ok(payload) => Box::pin(handler(payload, context)),
                Err(error) => {
                    let error = HandlerError::new(format_args!("the payload cannot be read: {error}"));
                    Box::pin(std::future::ready(Err(error)))
                }
            }
        };
        self.by_kind.insert(Arc::from(K::KIND), Arc::new(run));
    }

    pub(super) fn raw<F, R>(&mut self, kind: Arc<str>, handler: F)
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.by_kind.insert(kind, of_bytes(handler));
    }

    pub(super) fn fallback<F, R>(&mut self, handler: F)
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.fallback = Some(of_bytes(handler));
    }

    pub(super) fn queues(&self) -> &[&'static str] {
        &self.queues
    }

    pub(super) fn wrap<F, R>(&mut self, wrapper: F)
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.wrappers.push(Arc::new(move |context, next| Box::pin(wrapper(context, next))));
    }

    /// The job's handler, wrapped.
    pub(super) fn of(&self, job: &Job) -> Option<Handler> {
        let handler = self.by_kind.get(&job.kind).or(self.fallback.as_ref())?.clone();
        let within = |inner: Handler, wrapper: &Wrapper| -> Handler {
            let wrapper = wrapper.clone();
            Arc::new(move |context| wrapper(context, Next(inner.clone())))
        };
        Some(self.wrappers.iter().rev().fold(handler, within))
    }
}

fn of_bytes<F, R>(handler: F) -> Handler
where
    F: Fn(Payload, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Handled> + Send + 'static,
{
    Arc::new(move |context| Box::pin(handler(context.payload().clone(), context)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = shortened("ä".repeat(MESSAGE_BYTES_MAX));
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        assert!(message.ends_with("… (cut off)"));
        assert_eq!(shortened("short".to_owned()), "short");
    }

    #[test]
    fn any_error_becomes_a_failure() {
        let failed = || -> Handled { Err(std::fmt::Error)? };
        let Outcome::Fail(failure) = failed().unwrap_err().retry_after(Duration::from_micros(1)).into_outcome() else {
            panic!("expected a failure");
        };
        assert!(!failure.is_final);
        assert_eq!(failure.retry_after_ms, Some(1));
        assert_eq!(&*failure.message, std::fmt::Error.to_string());
    }
}
