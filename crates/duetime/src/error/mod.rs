//! Errors of a call, each with a kind and a stable code.

mod cause;
mod kind;

#[cfg_attr(not(feature = "unstable-server"), expect(unreachable_pub, reason = "the server matches it"))]
pub use cause::Cause;
pub use kind::ErrorKind;

use duetime_core::{Error as CoreError, JobId};
use std::fmt;
use std::sync::Arc;

/// The answer of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One answer for each item of a request, in order.
pub type Answers<T> = Vec<Result<T, Error>>;

/// An error of a call. Its message says what is wrong and what to do next; its [kind](Self::kind) is for programs.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # mod example {
/// use duetime::{Client, ErrorKind, job::OnConflict};
///
/// # #[tokio::main]
/// # pub async fn run() -> duetime::Result<()> {
/// let client = Client::memory().await?;
/// let first = client.push_raw("remind", *b"1").key("order-7").await?;
/// let second = client.push_raw("remind", *b"2").key("order-7").on_conflict(OnConflict::Reject).await;
/// match second {
///     Ok(pushed) => println!("the job {} is recorded", pushed.id),
///     Err(error) if error.kind() == ErrorKind::Conflict => assert_eq!(error.job(), Some(first.id)),
///     Err(error) if error.is_retryable() => println!("{error}; this is tried again later"),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// # }
/// # #[cfg(feature = "embedded")]
/// # example::run()?;
/// # Ok::<(), duetime::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Box<Cause>);

impl Error {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// The stable code, such as `key_conflict`: the same as in the HTTP API. It is more precise than the [kind](Self::kind).
    pub fn code(&self) -> &str {
        self.0.code()
    }

    /// The job that the error is about: the one that holds the key, has changed, is running or does not exist.
    pub fn job(&self) -> Option<JobId> {
        self.0.job()
    }

    /// Whether the job or the schedule that the call names does not exist, or no longer does.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether the same call may succeed later. After [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) a repeated call may be carried
    /// out twice: repeat a push only if it has a key or an origin.
    pub fn is_retryable(&self) -> bool {
        self.0.is_retryable()
    }

    /// The cause, with its details.
    #[cfg(feature = "unstable-server")]
    #[doc(hidden)]
    pub fn cause(&self) -> &Cause {
        &self.0
    }

    #[cfg(not(feature = "unstable-server"))]
    pub(crate) fn cause(&self) -> &Cause {
        &self.0
    }

    pub(crate) fn payload(error: serde_json::Error) -> Self {
        Cause::Payload(Arc::new(error)).into()
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn sql(message: Option<String>, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = message.unwrap_or_else(|| source.to_string());
        Cause::Sql { message, source: Arc::new(source) }.into()
    }

    pub(crate) fn protocol(said: impl Into<String>) -> Self {
        Cause::Protocol(said.into()).into()
    }

    /// The error of the engine, if it is one.
    pub(crate) fn core(&self) -> Option<&CoreError> {
        match self.cause() {
            Cause::Core(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What `main` prints if it returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}, {})", self.0, self.kind(), self.code())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self(Box::new(cause))
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        Cause::Core(error).into()
    }
}

impl From<duetime_core::Invalid> for Error {
    fn from(invalid: duetime_core::Invalid) -> Self {
        CoreError::from(invalid).into()
    }
}

/// Converts answers of the engine to answers of a client.
#[cfg(feature = "engine")]
pub(crate) fn answers<T>(answers: duetime_core::engine::Answers<T>) -> Answers<T> {
    answers.into_iter().map(|answer| answer.map_err(Error::from)).collect()
}

/// Returns the only answer to a request with one item.
pub(crate) fn only<T>(mut answers: Answers<T>) -> Result<T, Error> {
    match answers.pop() {
        Some(answer) if answers.is_empty() => answer,
        _ => Err(Error::protocol("expected one answer")),
    }
}

/// Returns what all items of a request were answered, or an error if any of them failed.
pub(crate) fn all<T>(answers: Answers<T>) -> Result<Vec<T>, Error> {
    let (count, mut failed, mut first) = (answers.len(), 0, None);
    let mut done = Vec::with_capacity(count);
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(item) => done.push(item),
            Err(error) => {
                failed += 1;
                first.get_or_insert((at + 1, error));
            }
        }
    }
    match first {
        None => Ok(done),
        Some((_, error)) if count == 1 => Err(error),
        Some((number, first)) => Err(Cause::SomeFailed { failed, count, number, first }.into()),
    }
}
