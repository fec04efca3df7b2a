//! The end of a command: its exit code, its message on standard error, and a hint.

use crate::file_error::FileError;
use crate::log;
use duetime::Error;
use duetime::server::Cause;
use duetime_core::error::system_words;
use duetime_core::printable::printable_lines as safe;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// It did not work.
pub(crate) const ERROR: u8 = 1;
/// The command line is invalid, or asks for something invalid; clap uses this code, too.
pub(crate) const USAGE: u8 = 2;
/// Some of many were refused, and the others went (`EX_DATAERR` of sysexits.h).
pub(crate) const DATA: u8 = 65;
/// Another owner holds the lock (`EX_UNAVAILABLE` of sysexits.h).
pub(crate) const LOCK_HELD: u8 = 69;
/// A lock was lost while its command ran (`EX_SOFTWARE` of sysexits.h).
pub(crate) const LOCK_LOST: u8 = 70;
/// A background task that a server lives by has ended (the same).
pub(crate) const FAULT: u8 = 70;
/// The tables of a ledger are not those of this version (`EX_CONFIG` of sysexits.h).
pub(crate) const SCHEMA_OLD: u8 = 78;
/// A configuration file is wrong (the same).
pub(crate) const CONFIG: u8 = 78;
/// It may work later without being changed (`EX_TEMPFAIL` of sysexits.h).
pub(crate) const TRY_LATER: u8 = 75;
/// A program exists but cannot be run, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// A program was not found, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// The end of every `--help`.
pub(crate) const HELP: &str = "Exit codes: 0 success, 1 failure, 2 invalid usage, 65 some of many were refused, 69 the \
lock is held, 70 the lock was lost or a background task of the server ended, 75 try again later, 78 the configuration \
file is wrong or a migration is missing, 126 and 127 the command cannot be run or was not found.";

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
    is_held: bool,
}

/// The result of a command.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this exit code.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: system_words(&message.into()), hint: None, is_held: false }
    }

    /// A failure of the requested action.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(ERROR, message)
    }

    /// A usage error.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// All has been said already.
    pub(crate) fn quiet(code: u8) -> Self {
        Self::new(code, String::new())
    }

    /// Adds a hint on what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether another process holds the store.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Tells it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        let mut text = String::new();
        if !self.message.is_empty() {
            text = format!("duetime: {self}\n");
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("  {hint}\n"));
        }
        if !text.is_empty() {
            log::last_words(&safe(&text));
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_held = error.code() == "store_held";
        let code = match error.code() {
            "invalid" => USAGE,
            _ if matches!(error.cause(), Cause::Address(_) | Cause::Token) => USAGE,
            _ if is_held || error.is_retryable() => TRY_LATER,
            _ => ERROR,
        };
        let failure = Self { is_held, ..Self::new(code, error.to_string()) };
        match error.cause() {
            Cause::Unreachable { .. } => failure.hint(
                "start a server with `duetime serve`, name another one with --server URL or DUETIME_SERVER, or use a store \
                 file directly with --store PATH",
            ),
            Cause::Untrusted { .. } => {
                failure.hint("name its certificate or its root certificate with --ca or DUETIME_CA")
            }
            Cause::OutcomeUnknown { .. } => failure.hint("check with `duetime list` before you repeat it; if it never answers, check that this is the address of a Duetime server"),
            Cause::Refused { status: 401, .. } => {
                failure.hint("put a valid token into DUETIME_TOKEN, or name its file with --token-file")
            }
            Cause::Refused { status: 403, .. } => {
                failure.hint("use a token with this right: `duetime token create NAME --allow …`")
            }
            _ => failure,
        }
    }
}

impl From<duetime_core::Error> for Failure {
    fn from(error: duetime_core::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<duetime_core::Invalid> for Failure {
    fn from(invalid: duetime_core::Invalid) -> Self {
        Error::from(invalid).into()
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::error(error.to_string())
    }
}

impl From<crate::serve::Error> for Failure {
    fn from(error: crate::serve::Error) -> Self {
        match error {
            crate::serve::Error::Store(error) => error.into(),
            error @ crate::serve::Error::Fault(_) => Self::new(FAULT, error.to_string()),
            crate::serve::Error::Http(error) if error.is_usage() => Self::usage(error.to_string()),
            error @ crate::serve::Error::LogLevel(_) => Self::usage(error.to_string()),
            error => Self::error(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The reader of our output has seen enough, as in `duetime list | head`.
            io::ErrorKind::BrokenPipe => Self::quiet(0),
            _ => Self::error(error.to_string()),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}
