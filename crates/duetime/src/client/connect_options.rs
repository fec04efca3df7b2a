//! Options for connecting.

#[cfg(feature = "remote")]
use super::remote::token::Token;
use duetime_core::engine::Options;
use std::path::PathBuf;
use std::time::Duration;

/// Default time limit of a call.
const TIME_LIMIT_DEFAULT: Duration = Duration::from_secs(30);

/// Options for connecting to a server or a Redis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Time limit of a call to a server, not counting the wait of a reserve; 30 s by default. A bulk change of all jobs that
    /// match a query may take an hour more. A call that takes longer fails with [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown).
    pub time_limit: Duration,
    /// Options of the engine, if it runs in this process: limits and retention.
    pub engine: Options,
    /// The ledger beside Redis, `mysql://…` or `postgres://…` (features `mysql` and `postgres`). With a ledger, no
    /// acknowledged job is lost if Redis loses data. All processes that share the jobs must name the same one. By default
    /// there is none.
    pub ledger: Option<String>,
    /// The token for the server; none by default.
    #[cfg(feature = "remote")]
    pub token: Option<Token>,
    /// An additional root certificate, as PEM, to trust for `https://` servers.
    pub root_certificates: Option<PathBuf>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            time_limit: TIME_LIMIT_DEFAULT,
            engine: Options::default(),
            ledger: None,
            #[cfg(feature = "remote")]
            token: None,
            root_certificates: None,
        }
    }
}
