//! Servers on a store that is lost.

use super::commands::Commands;
use super::{LIMIT, blocking};
use duetime::Client;
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A database server of the test's own.
pub(crate) enum Database {
    MariaDb(MariaDbServer),
    Postgres(PostgresServer),
}

/// One server on a file, or two beside a ledger.
pub(crate) struct Site {
    arguments: Vec<String>,
    ledger: Option<(Database, RedisServer)>,
    servers: Vec<Child>,
}

impl Site {
    pub(crate) fn of_a_file(commands: &Commands) -> Self {
        let arguments = vec!["--store".to_owned(), commands.store().display().to_string()];
        Self { arguments, ledger: None, servers: Vec::new() }
    }

    /// On a database `duetime`, which the commands find through the environment.
    pub(crate) async fn of_a_ledger(database: Database, commands: &mut Commands) -> Self {
        let redis = blocking(RedisServer::start).await;
        commands.redis(&redis.url());
        let url = match &database {
            Database::MariaDb(server) => {
                let conf = format!("[client]\nhost=127.0.0.1\nport={}\nuser=root\nprotocol=tcp\n", server.port());
                std::fs::write(commands.folder().join(".my.cnf"), conf).unwrap();
                server.url_of("duetime")
            }
            Database::Postgres(server) => {
                commands.set("PGHOST", "127.0.0.1");
                commands.set("PGPORT", server.port().to_string());
                commands.set("PGUSER", "duetime");
                commands.run("createdb duetime").await;
                server.url_of("duetime")
            }
        };
        // Recorded: otherwise the last completed jobs may run again even without a restore.
        let words = ["--settle", "recorded", "--ledger-may-lose", "--broker", &redis.url(), "--ledger", &url];
        let arguments = words.map(ToOwned::to_owned).to_vec();
        Self { arguments, ledger: Some((database, redis)), servers: Vec::new() }
    }

    /// Whether a restored store knows the leases of the time of its backup.
    pub(crate) fn keeps_leases(&self) -> bool {
        self.ledger.is_none()
    }

    /// Starts the servers; answers a client of the last of them.
    pub(crate) async fn start(&mut self) -> Client {
        let count = if self.ledger.is_some() { 2 } else { 1 };
        let mut address = String::new();
        for _ in 0..count {
            let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
            command.env_clear().args(["serve", "--log-level", "warn", "--listen", "127.0.0.1:0"]).args(&self.arguments);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            address = loop {
                let line = timeout(LIMIT, lines.next_line()).await.expect("it starts").unwrap();
                let line = line.expect("it says where it listens");
                if let Some((_, address)) = line.split_once("listening on ") {
                    break address.trim().to_owned();
                }
            };
            // Its output is drained, so that a full pipe does not stop it.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            self.servers.push(child);
        }
        Client::connect(&address).await.unwrap()
    }

    /// SIGKILL, and then nothing is left of the store.
    pub(crate) async fn destroy(&mut self, commands: &Commands) {
        for mut server in self.servers.drain(..) {
            server.kill().await.unwrap();
        }
        match &self.ledger {
            // Half of it: a restore must not take the rest for its own.
            None => {
                let store = commands.store();
                assert!(store.with_extension("db-wal").exists(), "a killed server leaves one");
                std::fs::write(store, b"gone").unwrap();
            }
            Some((Database::MariaDb(_), _)) => {
                commands.run("mariadb --execute 'DROP DATABASE duetime; CREATE DATABASE duetime'").await;
            }
            Some((Database::Postgres(_), _)) => commands.run("dropdb --force duetime; createdb duetime").await,
        }
    }
}
