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

impl ConnectOptions {
    /// Sets the time limit of a call to a server, not counting the wait of a reserve; by default 30 s.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets options of the engine, if it runs in this process: limits and retention.
    #[must_use]
    pub fn engine(mut self, engine: Options) -> Self {
        self.engine = engine;
        self
    }

    /// Names the ledger beside Redis, `mysql://…` or `postgres://…` (features `mysql` and `postgres`); by default there is none.
    #[must_use]
    pub fn ledger(mut self, url: impl Into<String>) -> Self {
        self.ledger = Some(url.into());
        self
    }

    /// Sets the token for the server; by default none is sent.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Trusts the root certificates in this PEM file, too, for `https://` servers.
    #[must_use]
    pub fn root_certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.root_certificates = Some(file.into());
        self
    }
}
