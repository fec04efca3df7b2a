//! Rights, by the tokens that the server asks for. They are asked for again after each wait, as everywhere.

use super::command::Tube;
use super::connection::State;
use super::door::Door;
use crate::access::{Caller, Refused, Scope};

/// The answer to a client without a valid token.
const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
/// The answer to a client whose token lacks the right.
const FORBIDDEN: &str = "FORBIDDEN";

impl Door {
    /// Takes the token that is shown, and answers the word for it.
    pub(super) fn identify(&self, state: &mut State, token: &str) -> &'static str {
        let Some(tokens) = &self.tokens else { return "AUTHENTICATED" };
        match Caller::of_token(tokens, token, &self.clock) {
            Some(caller) => {
                state.caller = caller;
                "AUTHENTICATED"
            }
            None => UNAUTHENTICATED,
        }
    }
}

/// Why a caller may ask for nothing: they have shown no token, it was revoked since or is over, or it is used too often.
pub(super) fn refusal(caller: &Caller) -> Option<&'static str> {
    caller.pass().err().map(|refused| match refused {
        Refused::Unknown => UNAUTHENTICATED,
        Refused::TooMany(_) => "TOO_MANY_REQUESTS",
    })
}

/// The word for a client that lacks a right.
pub(super) fn forbidden(caller: &Caller) -> &'static str {
    if caller.counts() { FORBIDDEN } else { UNAUTHENTICATED }
}

/// Whether a client may reserve from all these tubes; if not, the word for it.
pub(super) fn check_work(caller: &Caller, tubes: &[Tube]) -> Result<(), &'static str> {
    if tubes.iter().all(|tube| caller.may(Scope::Work, tube)) { Ok(()) } else { Err(forbidden(caller)) }
}

impl State {
    /// True if the token has this right for the tube.
    pub(super) fn may(&self, scope: Scope, tube: &str) -> bool {
        self.caller.may(scope, tube)
    }

    /// The word for a client that lacks a right.
    pub(super) fn forbidden(&self) -> &'static str {
        forbidden(&self.caller)
    }
}
