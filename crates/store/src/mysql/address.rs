//! Where MySQL or MariaDB is: what a URL says.

use crate::place;
use duetime_core::Error;
use mysql_async::{Opts, OptsBuilder, PoolConstraints, PoolOpts, SslOpts};
use std::path::PathBuf;
use std::time::Duration;

const EXPECTED: &str = "mysql://[user[:password]@]host[:port]/database[?sslmode=disable|require|verify-full]\
    [&sslrootcert=FILE]";
/// What is set on each connection.
const SET: [&str; 4] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 15",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION time_zone = '+00:00'",
];
/// Statements that each connection keeps prepared.
const STATEMENTS: usize = 192;

/// A URL, read.
pub(super) struct Address {
    pub(super) options: Opts,
    /// Without user and password.
    pub(super) shown: String,
}

impl Address {
    /// # Errors
    /// [`Error::Invalid`], without the password.
    pub(super) fn parse(url: &str, connections: usize) -> Result<Self, Error> {
        let shown = place::masked(url);
        let wrong = |why: &str| Error::invalid("ledger", EXPECTED, format!("{shown}: {why}"));
        let place = url.strip_prefix("mariadb://").map_or_else(|| url.to_owned(), |rest| format!("mysql://{rest}"));
        let (place, query) = place.split_once('?').unwrap_or((&place, ""));
        let (mut is_encrypted, mut root, mut rest) = (false, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => is_encrypted = false,
                // Certificates are always checked: what encrypts for anybody protects from nobody.
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => is_encrypted = true,
                Some(("sslmode", _)) => return Err(wrong("`sslmode` is disable, require or verify-full")),
                Some(("sslrootcert", file)) => root = Some(PathBuf::from(file)),
                _ => rest.push(pair),
            }
        }
        let place = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        let options = Opts::from_url(&place).map_err(|error| wrong(&error.to_string()))?;
        if options.db_name().is_none_or(str::is_empty) {
            return Err(wrong("no database"));
        }
        let constraints = PoolConstraints::new(0, connections.max(1)).unwrap_or_default();
        // Between callers a connection keeps what it has prepared; one in the middle of something is not given back.
        let pool = PoolOpts::new().with_constraints(constraints).with_reset_connection(false);
        let roots: Vec<_> = root.into_iter().map(Into::into).collect();
        let ssl = SslOpts::default().with_disable_built_in_roots(!roots.is_empty()).with_root_certs(roots);
        let options = OptsBuilder::from_opts(options)
            .pool_opts(pool)
            .init(SET.map(str::to_owned).to_vec())
            .stmt_cache_size(STATEMENTS)
            .prefer_socket(false)
            .tcp_keepalive(Some(Duration::from_secs(20)))
            .ssl_opts(is_encrypted.then_some(ssl));
        Ok(Self { options: options.into(), shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let plain = Address::parse("mysql://me:secret@db.example:3307/jobs", 5).unwrap();
        assert_eq!(plain.shown, "mysql://…@db.example:3307/jobs");
        assert_eq!((plain.options.tcp_port(), plain.options.db_name()), (3307, Some("jobs")));
        assert!(plain.options.ssl_opts().is_none());
        let tls = Address::parse("mariadb://me@db/jobs?sslmode=require&sslrootcert=/etc/root.pem", 5).unwrap();
        assert!(tls.options.ssl_opts().is_some_and(SslOpts::disable_built_in_roots));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "localhost",
            "postgres://u:secret@a/b",
            "mysql://u:secret@a",
            "mysql://u:secret@a/b?sslmode=preferred",
            "mysql://u:secret@a/b?nonsense=1",
        ] {
            let Err(error) = Address::parse(url, 1) else { panic!("{url}") };
            let error = error.to_string();
            assert!(!error.contains("secret") && error.contains("sslrootcert"), "{error}");
        }
    }
}
