//! Classifies errors of PostgreSQL.

use crate::sql::fault::Fault;
use duetime_core::Error;
use duetime_core::error::system_words;
use tokio_postgres::error::SqlState;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return not_said(&error);
        };
        let text = match said.detail() {
            Some(detail) => format!("PostgreSQL: {} ({detail}; {})", said.message(), said.code().code()),
            None => format!("PostgreSQL: {} ({})", said.message(), said.code().code()),
        };
        let code = said.code();
        let told = match code.code() {
            "23505" | "40001" | "40P01" => return Self::Race(text),
            // Shutting down, starting up, too many connections, a standby that was not promoted yet.
            "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" | "25P03" => return Self::Lost(text),
            other if other.starts_with("08") => return Self::Lost(text),
            "53100" | "53200" => Error::Full(text),
            "57014" | "55P03" => {
                Error::Unavailable(format!("{text}; another transaction holds its rows, or the database is slow"))
            }
            "XX001" | "XX002" => Error::Damaged(format!("{text}; restore a backup of the database")),
            "22021" | "22P05" => Error::invalid("name", "text that PostgreSQL can store", text),
            other if other.starts_with("28") => {
                Error::Unusable(format!("{text}; check the user and password in its URL"))
            }
            "3D000" => Error::Unusable(format!("{text}; create it, or name another one")),
            "42501" => Error::Unusable(format!("{text}; grant the user this right")),
            "42P01" | "42703" | "42883" => {
                Error::Unusable(format!("{text}; its tables are not up to date: run `duetime migrate`"))
            }
            _ if *code == SqlState::FEATURE_NOT_SUPPORTED => Error::Unusable(text),
            _ => Error::Unavailable(text),
        };
        Self::Known(told)
    }
}

/// An error of the connection or of the client library.
fn not_said(error: &tokio_postgres::Error) -> Fault {
    use std::error::Error as _;
    let text = match error.source() {
        Some(source) if error.to_string().starts_with("error connecting") => format!("PostgreSQL: {source}"),
        Some(source) => format!("PostgreSQL: {error}: {source}"),
        None => format!("PostgreSQL: {error}"),
    };
    if text.contains("certificate") {
        return Fault::Known(Error::Unusable(
            "PostgreSQL: its certificate is not trusted by this machine, or is for another host name; name its root \
             certificate with `sslrootcert` in the URL"
                .to_owned(),
        ));
    }
    if text.contains("server does not support TLS") {
        return Fault::without_tls("PostgreSQL");
    }
    if ["unexpected message", "bytes remaining on stream"].iter().any(|words| text.contains(words)) {
        return Fault::Known(Error::Unusable(
            "PostgreSQL: another kind of server answers; check host and port in the URL".to_owned(),
        ));
    }
    let text = system_words(&text);
    if error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()) {
        return Fault::Lost(text);
    }
    let shown = error.to_string();
    if shown.starts_with("error connecting") || shown.starts_with("error communicating") || shown.contains("timeout") {
        return Fault::Lost(text);
    }
    if shown.contains("authentication") || shown.contains("password") || shown.contains("TLS") {
        return Fault::Known(Error::Unusable(text));
    }
    Fault::Known(Error::Damaged(text))
}
