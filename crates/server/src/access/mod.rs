//! Access control: bearer tokens with rights, stored as hashes in a file.
//!
//! A token is 256 random bits, so a fast hash of it tells nothing, and there is nothing to guess. The file is read again
//! when it changes. [`Caller`] is the one place that says what somebody may do, always by the file as it is now.

mod caller;
mod file;
mod grant;
mod names;
mod secret;
mod stored_token;
mod tokens;

pub(crate) use caller::{Caller, Refused};
pub(crate) use file::TokenFile;
pub(crate) use grant::{Grant, Scope};
pub(crate) use names::Names;
pub(crate) use secret::{Secret, hex};
pub(crate) use stored_token::Token;
pub(crate) use tokens::{Clock, STREAMS_MAX, Tokens};
