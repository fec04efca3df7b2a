//! Why an attempt did not succeed.

use duetime_core::engine::Outcome;
use duetime_core::limits::MESSAGE_BYTES_MAX;
use duetime_core::rules::{Failure, Park};
use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::panic;
use std::sync::{Arc, Once};
use std::time::Duration;

thread_local! {
    /// Where this thread has panicked last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// An attempt that did not succeed. `?` converts any error to a failure: its message is the error's, followed by its causes.
/// The job's retry rule decides what follows.
///
/// ```
/// use duetime::JobError;
///
/// fn parse(text: &str) -> Result<u32, JobError> {
///     if text.is_empty() {
///         return Err(JobError::fatal("there is no number"));
///     }
///     Ok(text.parse::<u32>()?)
/// }
///
/// let error = parse("x").unwrap_err();
/// assert_eq!((error.message(), error.is_final()), ("invalid digit found in string", false));
/// ```
#[derive(Debug)]
pub struct JobError(Outcome);

impl JobError {
    /// A failure; the job's retry rule decides what follows. A message beyond 64 KiB is truncated and marked as such.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let message = Arc::from(shortened(with_causes(&*error.into())));
        Self(Outcome::Fail(Failure::new(message)))
    }

    /// A permanent failure: the job is not retried.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(error).change(|failure| failure.is_final = true)
    }

    /// A failure after which the job is retried after this delay, whatever its retry rule says.
    pub fn retry_after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(error).change(|failure| failure.retry_after = Some(delay.into()))
    }

    /// Not a failure: the job is released and due again after this delay. The attempt does not count. With a delay of zero
    /// the job is handed out again at once. A job that has reached its `max_age` ends.
    pub fn release(delay: Duration) -> Self {
        Self(Outcome::release(delay))
    }

    /// The job is parked for this reason: it has failed, and is kept until it is retried or deleted.
    pub fn park(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let message = Arc::from(shortened(with_causes(&*reason.into())));
        Self(Outcome::Park(Park::new(message)))
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

    fn change(mut self, change: impl FnOnce(&mut Failure)) -> Self {
        if let Outcome::Fail(failure) = &mut self.0 {
            change(failure);
        }
        self
    }

    /// What a handler has panicked with on this thread.
    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let message = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        let place = PLACE.take().map(|place| format!(" at {place}")).unwrap_or_default();
        Self::new(format!("panicked{place}: {}", message.unwrap_or("no message")))
    }

    /// The message; empty if the job was [released](Self::release).
    pub fn message(&self) -> &str {
        match &self.0 {
            Outcome::Fail(failure) => &failure.message,
            Outcome::Park(park) => &park.message,
            Outcome::Complete { .. } | Outcome::Release(_) => "",
        }
    }

    /// Whether the job is not to be retried.
    pub fn is_final(&self) -> bool {
        matches!(&self.0, Outcome::Fail(failure) if failure.is_final)
    }

    /// The delay that was asked for, if one was.
    pub fn delay(&self) -> Option<Duration> {
        match &self.0 {
            Outcome::Fail(failure) => failure.retry_after.map(Duration::from),
            Outcome::Release(release) => Some(release.delay.into()),
            Outcome::Complete { .. } | Outcome::Park(_) => None,
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.0
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Outcome::Release(_) => f.write_str("the job was released"),
            _ => f.write_str(self.message()),
        }
    }
}

// `JobError` must not be an `Error` itself; otherwise this conversion would convert it, too.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// Has panics of this process remember their place, for [`JobError::panicked`]; they are reported as before.
pub(super) fn note_places_of_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(|place| format!("{}:{}", place.file(), place.line())));
            report(info);
        }));
    });
}

/// The error and its causes, without those that the text says already.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the order cannot be read")]
    struct Unread(#[source] std::num::ParseIntError);

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = shortened("ä".repeat(MESSAGE_BYTES_MAX));
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        assert!(message.ends_with("… (cut off)"));
        assert_eq!(shortened("short".to_owned()), "short");
    }

    #[test]
    fn any_error_becomes_a_failure_with_its_causes() {
        let failed = || -> Result<(), JobError> { Err(Unread("x".parse::<u8>().unwrap_err()))? };
        let error = failed().unwrap_err();
        assert_eq!(error.to_string(), "the order cannot be read: invalid digit found in string");
        assert_eq!((error.is_final(), error.delay()), (false, None));
        assert_eq!(JobError::from("words").message(), "words");
    }

    #[test]
    fn an_error_says_what_follows() {
        assert!(JobError::fatal("no").is_final());
        let later = JobError::retry_after(Duration::from_micros(1), "busy");
        assert_eq!((later.message(), later.delay()), ("busy", Some(Duration::from_millis(1))));
        let released = JobError::release(Duration::from_secs(5));
        assert_eq!((released.message(), released.delay()), ("", Some(Duration::from_secs(5))));
    }
}
