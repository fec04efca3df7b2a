//! Errors of SQLite, converted to the project's errors with advice.

use duetime_core::Error;
use rusqlite::ErrorCode;

/// An error within a transaction.
#[derive(Debug)]
pub(super) enum Fault {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// An error of this store, ready to be returned.
    Known(Error),
    /// A statement for many rows failed because of one of them: write each row separately.
    Careful,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl Fault {
    /// A row with a value that was never written there.
    pub(super) fn damaged(what: &str, got: impl std::fmt::Display) -> Self {
        Self::Known(Error::Damaged(format!("{what} is stored as {got}; {}", advice("the file"))))
    }

    /// The error to return. `store` is the name of the file.
    pub(super) fn into_error(self, store: &str) -> Error {
        match self {
            Self::Known(error) => error,
            Self::Careful => Error::Unavailable(format!("{store}: a row was rejected without a reason")),
            Self::Sql(error) => explain(&error, store),
        }
    }
}

/// Converts an error of SQLite.
pub(super) fn explain(error: &rusqlite::Error, store: &str) -> Error {
    use rusqlite::Error as Sql;
    match error {
        Sql::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => Error::Full(format!("the disk of {store} is full")),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                Error::Damaged(format!("{error}; {}", advice(store)))
            }
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => Error::Unavailable(format!(
                "{store} cannot be opened for writing ({error}); give this user write access to it and its folder"
            )),
            ErrorCode::SystemIoFailure => {
                Error::Unavailable(format!("reading or writing {store} failed ({error}); check the disk"))
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Unavailable(format!(
                "another program has locked {store} ({error}); end programs that access the file directly"
            )),
            ErrorCode::TooBig => Error::invalid("payload", "at most 1 GB with its row", "more"),
            _ => Error::Unavailable(format!("{store}: {error}")),
        },
        Sql::ToSqlConversionFailure(_) => Error::invalid("number", "below 2^63", "a larger one"),
        Sql::FromSqlConversionFailure(..)
        | Sql::InvalidColumnType(..)
        | Sql::IntegralValueOutOfRange(..)
        | Sql::Utf8Error(..) => Error::Damaged(format!("{error}; {}", advice(store))),
        _ => Error::Unavailable(format!("{store}: {error}")),
    }
}

/// Advice for a damaged file.
pub(super) fn advice(store: &str) -> String {
    format!(
        "stop this process, keep a copy of {store} and of the files beside it, then restore a backup, or salvage with \
         `sqlite3 FILE .recover`"
    )
}
