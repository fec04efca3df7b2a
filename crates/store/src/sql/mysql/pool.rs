//! A server: connections are made when needed, up to a limit, and replaced when they break.

use super::connection::Borrowed;
use crate::sql::address::Address;
use crate::sql::connection::{Connection, Database, Dialect};
use crate::sql::fault::Fault;
use async_trait::async_trait;
use duetime_core::Error;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, SslOpts};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The settings of each connection.
const SET: [&str; 4] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 15",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION time_zone = '+00:00'",
];
/// Prepared statements cached for each connection.
const STATEMENTS: usize = 192;
/// How long a caller waits for a free or a new connection.
const WAIT_MAX: Duration = Duration::from_secs(10);

struct Server {
    pool: Pool,
    shown: String,
    has_connected: AtomicBool,
}

/// Opens the server of this URL: `mysql://` or `mariadb://`.
pub(super) fn open(url: &str, connections: usize) -> Result<Arc<dyn Database>, Error> {
    let (options, shown) = options(url, connections)?;
    Ok(Arc::new(Server { pool: Pool::new(options), shown, has_connected: AtomicBool::new(false) }))
}

fn options(url: &str, connections: usize) -> Result<(Opts, String), Error> {
    let address = Address::parse(url)?;
    let url = match address.url.strip_prefix("mariadb://") {
        Some(rest) => &format!("mysql://{rest}"),
        None => &address.url,
    };
    let options =
        Opts::from_url(url).map_err(|_| address.wrong("its user, host, port, database or an option is not valid"))?;
    if options.db_name().is_none_or(str::is_empty) {
        return Err(address.wrong("it has no database"));
    }
    let constraints = PoolConstraints::new(0, connections.max(1)).unwrap_or_default();
    // A connection keeps its prepared statements between callers; a busy one is not returned to the pool.
    let pool = PoolOpts::new().with_constraints(constraints).with_reset_connection(false);
    let roots: Vec<_> = address.root.into_iter().map(Into::into).collect();
    let ssl = SslOpts::default().with_disable_built_in_roots(!roots.is_empty()).with_root_certs(roots);
    let options = OptsBuilder::from_opts(options)
        .pool_opts(pool)
        .init(SET.map(str::to_owned).to_vec())
        .stmt_cache_size(STATEMENTS)
        .prefer_socket(false)
        .tcp_keepalive(Some(Duration::from_secs(20)))
        .ssl_opts(address.is_encrypted.then_some(ssl));
    Ok((options.into(), address.shown))
}

#[async_trait]
impl Database for Server {
    fn dialect(&self) -> &'static Dialect {
        &super::DIALECT
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    async fn connection(&self) -> Result<Box<dyn Connection>, Fault> {
        match tokio::time::timeout(WAIT_MAX, self.pool.get_conn()).await {
            Ok(Ok(connection)) => {
                self.has_connected.store(true, Ordering::Relaxed);
                Ok(Box::new(Borrowed::new(connection)))
            }
            Ok(Err(error)) => Err(Fault::from(error).at(&self.shown)),
            Err(_) if !self.has_connected.load(Ordering::Relaxed) => {
                Err(Fault::silent(&self.shown, WAIT_MAX, "MySQL or MariaDB"))
            }
            Err(_) => Err(Fault::Lost(format!("{}: no free connection within {} s", self.shown, WAIT_MAX.as_secs()))),
        }
    }

    async fn close(&self) {
        if let Ok(Err(error)) = tokio::time::timeout(WAIT_MAX, self.pool.clone().disconnect()).await {
            tracing::debug!(%error, "connections were not closed cleanly");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let (plain, shown) = options("mysql://me:secret@db.example:3307/jobs", 5).unwrap();
        assert_eq!(shown, "mysql://***@db.example:3307/jobs");
        assert_eq!((plain.tcp_port(), plain.db_name()), (3307, Some("jobs")));
        assert!(plain.ssl_opts().is_none());
        let (tls, _) = options("mariadb://me@db/jobs?sslmode=require&sslrootcert=/etc/root.pem", 5).unwrap();
        assert!(tls.ssl_opts().is_some_and(SslOpts::disable_built_in_roots));
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
            let Err(error) = options(url, 1) else { panic!("{url}") };
            let error = error.to_string();
            assert!(!error.contains("secret") && error.contains("sslrootcert"), "{error}");
        }
    }
}
