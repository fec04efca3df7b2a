//! Classifies errors of MySQL and MariaDB.

use crate::sql::fault::Fault;
use duetime_core::Error;
use duetime_core::error::system_words;
use mysql_async::{DriverError, ServerError};

impl From<mysql_async::Error> for Fault {
    fn from(error: mysql_async::Error) -> Self {
        use mysql_async::Error as Sql;
        match error {
            Sql::Server(said) => said_by(&said),
            Sql::Io(error) if error.to_string().contains("ertificate") => Self::Known(Error::Unusable(
                "MySQL: its certificate is not trusted by this machine, or is for another host name; name its root \
                 certificate with `sslrootcert` in the URL"
                    .to_owned(),
            )),
            Sql::Io(error) => {
                let said = system_words(&error.to_string());
                Self::Lost(format!("MySQL: {}", said.trim_start_matches("Input/output error: ")))
            }
            Sql::Driver(DriverError::NoClientSslFlagFromServer) => Self::without_tls("MySQL"),
            Sql::Driver(DriverError::PoolDisconnected) => Self::Known(Error::Stopping),
            Sql::Driver(DriverError::PacketTooLarge) => Self::Known(too_large("a larger one")),
            Sql::Driver(error @ (DriverError::FromRow { .. } | DriverError::FromValue { .. })) => {
                Self::damaged("a column", error)
            }
            Sql::Driver(error) => Self::Lost(format!("MySQL: {error}")),
            error => Self::Known(Error::Unusable(format!("MySQL: {error}"))),
        }
    }
}

fn said_by(said: &ServerError) -> Fault {
    let text = format!("MySQL: {} ({})", said.message, said.code);
    let told = match said.code {
        // Duplicate key, deadlock, lock wait timeout, changed row.
        1062 | 1213 | 1205 | 1020 => return Fault::Race(text),
        // Too many connections, shutting down, killed, read-only after a failover.
        1040 | 1053 | 1077..=1080 | 1158..=1161 | 1203 | 1290 | 1317 | 1792 | 1836 | 1927 | 3024 | 4031 => {
            return Fault::Lost(text);
        }
        1021 | 1114 | 1041 | 1037 | 1038 => Error::Full(text),
        // MariaDB takes the most specific host first, so an anonymous user of this machine stands before `user@%`.
        1045 => Error::Unusable(format!(
            "{text}; check the user and password in its URL. If they are right, an anonymous user may stand before this one: \
             `DROP USER ''@'localhost'`"
        )),
        1130 | 1251 | 1698 => Error::Unusable(format!("{text}; check the user and password in its URL")),
        1049 => Error::Unusable(format!("{text}; create it, or name another one")),
        1044 | 1142 | 1143 | 1227 | 1370 => Error::Unusable(format!("{text}; grant the user this right")),
        1054 | 1146 => Error::Unusable(format!("{text}; its tables are not up to date: run `duetime migrate`")),
        1153 | 1301 => too_large(&text),
        1406 | 1366 => Error::invalid("job", "what MySQL can store", text),
        126 | 127 | 145 | 1034 | 1035 | 1194 | 1195 => {
            Error::Damaged(format!("{text}; restore a backup of the database"))
        }
        _ => Error::Unavailable(text),
    };
    Fault::Known(told)
}

fn too_large(got: &str) -> Error {
    Error::invalid("payload", "smaller than the server's max_allowed_packet, with its row", got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_user_is_told_of_an_anonymous_one() {
        for (code, is_told) in [(1045, true), (1130, false)] {
            let message = "Access denied for user 'duetime'@'localhost'".to_owned();
            let said = ServerError { code, message, state: "28000".to_owned() };
            let Fault::Known(error) = said_by(&said) else { panic!("{said:?}") };
            let text = error.to_string();
            assert!(text.contains("check the user and password in its URL"), "{text}");
            assert_eq!(text.contains("DROP USER ''@'localhost'"), is_told, "{text}");
        }
    }
}
