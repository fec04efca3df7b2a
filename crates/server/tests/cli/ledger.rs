//! SQL servers, and nodes of Duetime beside them.

use crate::cli::support::{Place, Ran, finish};
use duetime::Client;
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The user of the server, with the rights that `packaging/` grants.
pub(crate) const USER: &str = "duetime_server";

/// A private SQL server, which loses nothing.
pub(crate) enum Sql {
    Postgres(PostgresServer),
    MariaDb(MariaDbServer),
}

impl Sql {
    pub(crate) fn postgres() -> Self {
        Self::Postgres(PostgresServer::with(true, &[]))
    }

    pub(crate) fn maria_db() -> Self {
        Self::MariaDb(MariaDbServer::with(true, &[]))
    }

    /// The address of its empty database, as its administrator.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::MariaDb(server) => server.url(),
        }
    }

    /// The same as [`USER`].
    pub(crate) fn url_of_user(&self) -> String {
        let url = self.url();
        let (scheme, rest) = url.split_once("://").unwrap();
        format!("{scheme}://{USER}:secret@{}", rest.split_once('@').unwrap().1)
    }

    /// The shortest prefix of its URL that identifies its kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres://",
            Self::MariaDb(_) => "mysql://",
        }
    }

    /// The statements of `packaging/` for its administrator.
    pub(crate) fn rights(&self) -> Vec<&'static str> {
        let file = match self {
            Self::Postgres(_) => include_str!("../../../../packaging/grants-postgres.sql"),
            Self::MariaDb(_) => include_str!("../../../../packaging/grants-mysql.sql"),
        };
        let lines: Vec<_> = file.lines().filter(|line| !line.starts_with("--")).collect();
        assert!(lines.len() > 2 && lines[0].starts_with("CREATE "), "{lines:?}");
        lines
    }

    /// Runs SQL as its administrator.
    pub(crate) fn administer(&self, sql: &str) {
        self.ask(sql);
    }

    /// Runs SQL as the administrator, with the server's own client program. Returns its output, values only.
    pub(crate) fn ask(&self, sql: &str) -> String {
        let mut command = match self {
            Self::Postgres(server) => {
                let mut command = Command::new("psql");
                command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", &server.url()]);
                command
            }
            Self::MariaDb(server) => {
                let mut command = Command::new("mariadb");
                let port = format!("--port={}", server.port());
                command.args(["--no-defaults", "--skip-column-names"]);
                command.args(["--protocol=tcp", "--host=127.0.0.1", &port, "--user=root", "duetime"]);
                command
            }
        };
        command.env_remove("PGPASSWORD");
        let ran = finish(command, sql.as_bytes());
        assert_eq!(ran.code, 0, "{sql}: {ran:?}");
        ran.out
    }
}

/// A Redis beside an SQL server.
pub(crate) struct Beside {
    pub(crate) redis: RedisServer,
    pub(crate) sql: Sql,
}

impl Beside {
    pub(crate) fn new(sql: Sql) -> Self {
        Self { redis: RedisServer::start(), sql }
    }

    /// Runs a command straight on both.
    pub(crate) fn run(&self, place: &Place, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = place.bare(arguments);
        command.args(["--server", &self.redis.url(), "--ledger", &self.sql.url()]);
        finish(command, input)
    }
}

/// A server process; killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Node {
    /// Starts one on both, and does not wait for it.
    pub(crate) fn begin(place: &Place, redis: &RedisServer, ledger: &str, more: &[&str]) -> Self {
        let serve = ["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--broker", &redis.url(), "--ledger"];
        let mut command = place.bare(&[&serve, &[ledger][..], more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// A client of it, once it serves.
    pub(crate) async fn client(&mut self) -> Client {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some(url) = line.trim().strip_prefix("listening on ") {
                return Client::connect(url).await.unwrap();
            }
            line.clear();
        }
        panic!("the server ended before it served");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
