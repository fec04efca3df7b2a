//! The caller of a request or connection.
//!
//! Nothing that a caller may do is kept: each question is answered by the file of tokens as it is now. So a caller can be
//! held for as long as a client waits. Ask again after each wait, before something is done or given.

use super::grant::{Grant, Scope};
use super::names::Names;
use super::tokens::{Clock, TokenEntry, Tokens};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How often it is checked whether a token has expired while its holder waits: the clock may be set.
const LOOK: Duration = Duration::from_secs(1);

static EVERYTHING: LazyLock<[Grant; 1]> = LazyLock::new(|| ["admin".parse().expect("it is a right")]);

/// The caller of a request or connection.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Anyone who can reach the server, because it requires no tokens.
    Anyone,
    /// The holder of a token.
    Token(Holder),
    /// A caller who needed no token, and who may do nothing that requires one.
    Nobody,
}

/// The holder of a token, which may be revoked, expire or be given other rights at any time.
#[derive(Clone)]
pub(crate) struct Holder {
    tokens: Arc<Tokens>,
    clock: Clock,
    /// The token as it was when it was shown.
    shown: Arc<TokenEntry>,
}

/// Why a caller may ask for nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no token, or it was revoked, or it has expired.
    Unknown,
    /// The limit of its rate is reached for so many milliseconds.
    TooMany(u64),
}

impl Holder {
    /// The token as it is now; `None` if it was revoked or has expired.
    fn today(&self) -> Option<Arc<TokenEntry>> {
        self.tokens.today(&self.shown.token.sha256, (self.clock)())
    }

    /// Room for one more stream of events; `None` if the token has reached its limit.
    pub(crate) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        self.shown.stream()
    }

    /// Waits for room for one more call that continues without its caller.
    pub(crate) async fn call(&self) -> OwnedSemaphorePermit {
        self.shown.call().await
    }
}

impl Caller {
    /// The holder of the token that is shown; `None` if it is not in the file, or has expired.
    pub(crate) fn of_token(tokens: &Arc<Tokens>, shown: &str, clock: &Clock) -> Option<Self> {
        let shown = tokens.find(shown, clock())?;
        Some(Self::Token(Holder { tokens: tokens.clone(), clock: clock.clone(), shown }))
    }

    /// The name of the token.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Anyone => "anyone",
            Self::Nobody => "nobody",
            Self::Token(holder) => &holder.shown.token.name,
        }
    }

    /// The name of the token, if the caller has shown one.
    pub(crate) fn token_name(&self) -> Option<Arc<str>> {
        matches!(self, Self::Token(_)).then(|| Arc::from(self.name()))
    }

    /// Identifies this caller on all servers: the hash of its token. Not a secret, but never shown.
    pub(crate) fn identity(&self) -> &[u8] {
        match self {
            Self::Anyone => b"anyone",
            Self::Nobody => b"nobody",
            Self::Token(holder) => &holder.shown.token.sha256,
        }
    }

    /// Whether a token that was shown is still valid: neither revoked nor expired.
    pub(crate) fn counts(&self) -> bool {
        match self {
            Self::Anyone | Self::Nobody => true,
            Self::Token(holder) => holder.today().is_some(),
        }
    }

    /// Lets one request pass.
    ///
    /// # Errors
    /// If the caller may make none now.
    pub(crate) fn pass(&self) -> Result<(), Refused> {
        match self {
            Self::Anyone => Ok(()),
            Self::Nobody => Err(Refused::Unknown),
            Self::Token(holder) => {
                let passed = holder.today().ok_or(Refused::Unknown)?.pass(&holder.clock);
                passed.map_err(Refused::TooMany)
            }
        }
    }

    /// Their rights, as they are written.
    pub(crate) fn rights(&self) -> String {
        let rights = self.ask(|grants| grants.iter().map(Grant::to_string).collect::<Vec<_>>());
        if rights.is_empty() { "none".to_owned() } else { rights.join(", ") }
    }

    /// Whether they may do this with some name.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.ask(|grants| grants.iter().any(|grant| grant.is_for(scope)))
    }

    /// Whether they may do this with this name.
    pub(crate) fn may(&self, scope: Scope, name: &str) -> bool {
        self.ask(|grants| grants.iter().any(|grant| grant.allows(scope, name)))
    }

    /// Whether they may do this with every name.
    pub(crate) fn may_all(&self, scope: Scope) -> bool {
        self.ask(|grants| grants.iter().any(|grant| grant.allows_all(scope)))
    }

    /// The names with which they may do this; `None`: with every name.
    pub(crate) fn names(&self, scope: Scope) -> Option<Vec<Names>> {
        self.ask(|grants| {
            let is_all = grants.iter().any(|grant| grant.allows_all(scope));
            (!is_all).then(|| grants.iter().filter_map(|grant| grant.names_for(scope)).cloned().collect())
        })
    }

    /// The least name or prefix from this one on for which they have the right; `None` if there is none.
    pub(crate) fn first_from(&self, scope: Scope, from: &str) -> Option<Box<str>> {
        self.ask(|grants| grants.iter().filter_map(|grant| grant.first_from(scope, from)).min().map(Box::from))
    }

    /// Waits until this check of the caller's rights fails, perhaps at once, and returns why.
    pub(crate) async fn until_lost<E>(&self, check: impl Fn() -> Result<(), E>) -> E {
        let Self::Token(holder) = self else { return std::future::pending().await };
        let mut changes = holder.tokens.changes();
        loop {
            if let Err(why) = check() {
                return why;
            }
            let expires = holder.today().is_some_and(|known| known.token.expires.is_some());
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(LOOK), if expires => {}
            }
        }
    }

    /// Answers a question about their rights now. They cannot be kept.
    fn ask<T>(&self, question: impl FnOnce(&[Grant]) -> T) -> T {
        match self {
            Self::Anyone => question(&*EVERYTHING),
            Self::Nobody => question(&[]),
            Self::Token(holder) => match holder.today() {
                Some(known) => question(&known.token.allow),
                None => question(&[]),
            },
        }
    }
}
