//! Who makes a request, and what they may do.

use super::grant::{Grant, Scope};
use super::names::Names;
use super::tokens::Known;
use std::sync::Arc;

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Whoever reaches the server: no tokens are asked for.
    Anyone,
    /// The holder of this token.
    Token(Arc<Known>),
    /// Somebody of whom no token was asked, and who may do nothing that one is asked for.
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

    /// What tells this caller from all others, also on another server: a token's hash. It is no secret, but not shown.
    pub(crate) fn identity(&self) -> &[u8] {
        match self {
            Self::Anyone => b"anyone",
            Self::Nobody => b"nobody",
            Self::Token(known) => &known.token.sha256,
        }
    }

    /// Its rights, as they are written.
    pub(crate) fn rights(&self) -> String {
        match self {
            Self::Anyone => Scope::Admin.word().to_owned(),
            Self::Nobody => "none".to_owned(),
            Self::Token(known) => known.token.allow.iter().map(Grant::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    /// Whether they may do this with some name.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.any(|grant| grant.is_for(scope))
    }

    /// Whether they may do this with this name.
    pub(crate) fn may(&self, scope: Scope, name: &str) -> bool {
        self.any(|grant| grant.allows(scope, name))
    }

    /// Whether they may do this with every name.
    pub(crate) fn may_all(&self, scope: Scope) -> bool {
        self.any(|grant| grant.allows_all(scope))
    }

    /// The names with which they may do this; `None`: with every name.
    pub(crate) fn names(&self, scope: Scope) -> Option<Vec<&Names>> {
        match self {
            _ if self.may_all(scope) => None,
            Self::Token(known) => Some(known.token.allow.iter().filter_map(|grant| grant.names_for(scope)).collect()),
            Self::Anyone | Self::Nobody => Some(Vec::new()),
        }
    }

    /// The least name from this one on with which they may do this, or a beginning of it; `None` where there is none.
    pub(crate) fn first_from<'a>(&'a self, scope: Scope, from: &'a str) -> Option<&'a str> {
        match self {
            Self::Anyone => Some(from),
            Self::Nobody => None,
            Self::Token(known) => known.token.allow.iter().filter_map(|grant| grant.first_from(scope, from)).min(),
        }
    }

    fn any(&self, is_right: impl Fn(&Grant) -> bool) -> bool {
        match self {
            Self::Anyone => true,
            Self::Nobody => false,
            Self::Token(known) => known.token.allow.iter().any(is_right),
        }
    }
}
