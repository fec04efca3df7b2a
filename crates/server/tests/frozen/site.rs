//! Stores on clocks that are set, and servers on them.

use super::Fixture;
use super::fill::{INBOX, OUTBOX};
use crate::cli::ledger::Sql;
use crate::cli::support::finish;
use crate::http::server::Server;
use duetime_core::{Clock as _, SystemClock};
use duetime_store::testing::{FakeClock, RedisServer};
use nix::sys::signal::Signal;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// How much later than it was made a store is opened.
const OPENED_AFTER_MS: u64 = 1_000;
const DUMP: &str = "dump.rdb";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Redis,
    MariaDb,
    Postgres,
}

pub(crate) struct Site {
    clock: FakeClock,
    redis: Option<RedisServer>,
    sql: Option<Sql>,
    folder: TempDir,
}

impl Site {
    /// An empty one, whose clock is right.
    pub(crate) fn new(kind: Kind) -> Self {
        Self::begin(kind, 0, None)
    }

    /// An empty one, whose clock shows when something was made.
    pub(crate) fn at(kind: Kind, made_at: u64) -> Self {
        Self::begin(kind, off(made_at + OPENED_AFTER_MS), None)
    }

    /// Restores the fixture, on clocks that show when it was made.
    pub(crate) fn restored(kind: Kind, fixture: &Fixture, made_at: u64, with_redis: bool) -> Self {
        let dump = (kind != Kind::File && with_redis).then(|| fixture.read("redis.rdb.gz"));
        let site = Self::begin(kind, off(made_at + OPENED_AFTER_MS), dump.as_deref());
        match &site.sql {
            Some(sql) => sql.administer(std::str::from_utf8(&fixture.read("ledger.sql.gz")).unwrap()),
            None if kind == Kind::File => std::fs::write(site.store(), fixture.read("duetime.db.gz")).unwrap(),
            None => {}
        }
        site
    }

    fn begin(kind: Kind, off_ms: i64, dump: Option<&[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = FakeClock::new(folder.path());
        clock.set(off_ms);
        let dump = dump.map(|dump| std::fs::write(folder.path().join(DUMP), dump).unwrap());
        let redis = (kind != Kind::File).then(|| {
            let place = folder.path().to_str().unwrap();
            let arguments = ["--dir", place, "--dbfilename", DUMP];
            RedisServer::with_clock_at(off_ms, &arguments)
        });
        if let (Some(()), Some(redis)) = (dump, &redis) {
            assert_ne!(redis.command(&["DBSIZE"]), "0", "{}", redis.log());
        }
        let sql = match kind {
            Kind::File | Kind::Redis => None,
            Kind::MariaDb => Some(Sql::maria_db()),
            Kind::Postgres => Some(Sql::postgres()),
        };
        Self { clock, redis, sql, folder }
    }

    /// The clocks of the server and of Redis show this instant.
    pub(crate) fn set_clocks(&self, now: u64) {
        let off_ms = off(now);
        self.clock.set(off_ms);
        self.redis.iter().for_each(|redis| redis.set_clock(off_ms));
    }

    /// For programs on the same clock.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        self.clock.environment()
    }

    /// The store's file, if it is one.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("duetime.db")
    }

    pub(crate) fn sql(&self) -> Option<&Sql> {
        self.sql.as_ref()
    }

    /// A server that answers a settle once it is recorded, so that its counts match its lists.
    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        let settle = if self.sql.is_some() { &["--settle", "recorded"][..] } else { &[] };
        self.serve_with(&[settle, more].concat())
    }

    fn serve_with(&self, more: &[&str]) -> Server {
        let (store, redis) = (self.store(), self.redis.as_ref().map(RedisServer::url));
        let sql = self.sql.as_ref().map(Sql::url);
        let mut arguments = match &redis {
            None => vec!["--store", store.to_str().unwrap()],
            Some(redis) => vec!["--broker", redis],
        };
        arguments.extend(sql.iter().flat_map(|sql| ["--ledger", sql]));
        Server::with_clock(&self.clock, &[&arguments, more].concat())
    }

    /// An outcome is in Redis, and the database has not heard of it.
    pub(crate) fn leave_an_outcome_unrecorded(&mut self) {
        if self.sql.is_none() {
            return;
        }
        let mut server = self.serve_with(&[]);
        let job = server.get(&format!("/v1/jobs?queue={OUTBOX}")).ok()["jobs"][0].clone();
        let receipt = format!("{}.{}", job["id"].as_str().unwrap(), job["epoch"]);
        match self.sql.as_mut().unwrap() {
            Sql::MariaDb(sql) => sql.kill(),
            Sql::Postgres(sql) => sql.kill(),
        }
        server.post(&format!("/v1/leases/{receipt}/complete"), &json!({"result": "unrecorded"})).ok();
        server.signal(Signal::SIGKILL);
        server.wait();
        match self.sql.as_mut().unwrap() {
            Sql::MariaDb(sql) => sql.start_again(),
            Sql::Postgres(sql) => sql.start_again(),
        }
    }

    /// Rows that no server has seen: a job, and one that is none.
    pub(crate) fn leave_rows_in_the_inbox(&self) {
        if let Some(sql) = &self.sql {
            sql.administer(&format!(
                "INSERT INTO duetime_inbox (queue, kind, payload, delay_ms, job_key, tags, priority, options)
                 VALUES ('{INBOX}', 'admitted', '{{\"in\": \"SQL\"}}', 3600000, 'key', '[\"a\"]', 7, '{{\"lease\": \"5m\"}}');
                 INSERT INTO duetime_inbox (queue, kind, payload) VALUES ('no queue', 'refused', 'x');"
            ));
        }
    }

    /// Keeps it, now that no server uses it.
    pub(crate) fn save(&self, fixture: &Fixture) {
        if let Some(redis) = &self.redis {
            redis.command(&["SAVE"]);
            fixture.write("redis.rdb.gz", &std::fs::read(self.folder.path().join(DUMP)).unwrap());
        }
        match &self.sql {
            Some(sql) => fixture.write("ledger.sql.gz", dump(sql).as_bytes()),
            None if self.redis.is_none() => {
                let left = self.store().with_extension("db-wal");
                assert!(!left.exists(), "a server that has stopped leaves none");
                fixture.write("duetime.db.gz", &std::fs::read(self.store()).unwrap());
            }
            None => {}
        }
    }
}

/// The offset of a clock that shows this now.
fn off(shown: u64) -> i64 {
    shown.cast_signed() - SystemClock::new().wall().cast_signed()
}

/// With the program that comes with the database.
fn dump(sql: &Sql) -> String {
    let mut command;
    match sql {
        Sql::MariaDb(server) => {
            command = Command::new("mariadb-dump");
            let port = format!("--port={}", server.port());
            command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", &port, "--user=root"]);
            command.args(["--single-transaction", "--hex-blob", "duetime"]);
        }
        Sql::Postgres(server) => {
            command = Command::new("pg_dump");
            command.args(["--no-owner", "--no-privileges", &server.url()]);
        }
    }
    let ran = finish(command, b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    // Other versions of `psql` do not know these two.
    ran.out
        .lines()
        .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
        .fold(String::new(), |text, line| text + line + "\n")
}
