//! Rights, by the tokens that the server asks for.

use super::connection::State;
use super::door::Door;
use crate::access::{Caller, Scope};

/// The answer to a client without a valid token.
const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
/// The answer to a client whose token lacks the right.
pub(super) const FORBIDDEN: &str = "FORBIDDEN";

impl Door {
    /// Takes the token that is shown, and answers the word for it.
    pub(super) fn identify(&self, state: &mut State, token: &str) -> &'static str {
        let Some(tokens) = &self.tokens else { return "AUTHENTICATED" };
        match tokens.find(token, self.engine.now()) {
            Some(known) => {
                state.caller = Caller::Token(known);
                "AUTHENTICATED"
            }
            None => UNAUTHENTICATED,
        }
    }

    /// Why a caller may ask for nothing: they have shown no token, it was revoked since or is over, or it is used too often.
    pub(super) fn refusal(&self, caller: &Caller) -> Option<&'static str> {
        let tokens = self.tokens.as_ref()?;
        let now = self.engine.now();
        match caller {
            Caller::Token(known) if !tokens.knows(known, now) => Some(UNAUTHENTICATED),
            Caller::Token(known) => known.pass(now).err().map(|_| "TOO_MANY_REQUESTS"),
            Caller::Anyone | Caller::Nobody => Some(UNAUTHENTICATED),
        }
    }
}

impl State {
    /// True if the token has this right for the tube.
    pub(super) fn may(&self, scope: Scope, tube: &str) -> bool {
        self.caller.may(scope, tube)
    }
}
