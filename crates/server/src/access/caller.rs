//! The caller of a request and its rights.

use super::grant::{Grant, Scope};
use super::names::Names;
use super::tokens::Known;
use std::sync::{Arc, LazyLock};

static EVERYTHING: LazyLock<[Grant; 1]> = LazyLock::new(|| ["admin".parse().expect("it is a right")]);

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Anyone who can reach the server, because it requires no tokens.
    Anyone,
    /// The holder of this token.
    Token(Arc<Known>),
    /// A caller who needed no token, and who may do nothing that requires one.
    Nobody,
}

impl Caller {
    /// The name of the token.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Anyone => "anyone",
            Self::Nobody => "nobody",
            Self::Token(known) => &known.token.name,
        }
    }

    /// Identifies this caller on all servers: the hash of its token. Not a secret, but never shown.
    pub(crate) fn identity(&self) -> &[u8] {
        match self {
            Self::Anyone => b"anyone",
            Self::Nobody => b"nobody",
            Self::Token(known) => &known.token.sha256,
        }
    }

    /// Its rights, as they are written.
    pub(crate) fn rights(&self) -> String {
        let rights: Vec<_> = self.grants().iter().map(Grant::to_string).collect();
        if rights.is_empty() { "none".to_owned() } else { rights.join(", ") }
    }

    /// Whether they may do this with some name.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.grants().iter().any(|grant| grant.is_for(scope))
    }

    /// Whether they may do this with this name.
    pub(crate) fn may(&self, scope: Scope, name: &str) -> bool {
        self.grants().iter().any(|grant| grant.allows(scope, name))
    }

    /// Whether they may do this with every name.
    pub(crate) fn may_all(&self, scope: Scope) -> bool {
        self.grants().iter().any(|grant| grant.allows_all(scope))
    }

    /// The names with which they may do this; `None`: with every name.
    pub(crate) fn names(&self, scope: Scope) -> Option<Vec<&Names>> {
        let names = self.grants().iter().filter_map(|grant| grant.names_for(scope));
        (!self.may_all(scope)).then(|| names.collect())
    }

    /// The least name or prefix from this one on for which the caller has the right; `None` if there is none.
    pub(crate) fn first_from<'a>(&'a self, scope: Scope, from: &'a str) -> Option<&'a str> {
        self.grants().iter().filter_map(|grant| grant.first_from(scope, from)).min()
    }

    fn grants(&self) -> &[Grant] {
        match self {
            Self::Anyone => &*EVERYTHING,
            Self::Nobody => &[],
            Self::Token(known) => &known.token.allow,
        }
    }
}
