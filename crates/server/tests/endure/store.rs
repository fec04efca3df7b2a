//! The stores that servers keep jobs in, and the faults that can be injected into them.

use duetime_store::testing::{
    FakeClock, Fates, MariaDbServer, PostgresServer, Proxy, RedisCluster, RedisSentinel, RedisServer,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use tempfile::TempDir;

/// Kept through any stop: each change is on disk before it is acknowledged.
const KEPT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const DISK_SIZE: &str = "size=48m";

/// The kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) broker: BrokerKind,
    pub(crate) ledger: Option<LedgerKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerKind {
    File,
    Redis,
    Sentinel,
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LedgerKind {
    Postgres,
    MySql,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("expected file, redis, sentinel or cluster, with +postgres or +mysql, got {text}");
        let (broker, ledger) = text.split_once('+').map_or((text, None), |(broker, ledger)| (broker, Some(ledger)));
        let broker = match broker {
            "file" => BrokerKind::File,
            "redis" => BrokerKind::Redis,
            "sentinel" => BrokerKind::Sentinel,
            "cluster" => BrokerKind::Cluster,
            _ => return Err(unknown()),
        };
        let ledger = match ledger {
            None => None,
            Some("postgres") => Some(LedgerKind::Postgres),
            Some("mysql") => Some(LedgerKind::MySql),
            Some(_) => return Err(unknown()),
        };
        if broker == BrokerKind::File && ledger.is_some() { Err(unknown()) } else { Ok(Self { broker, ledger }) }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.broker {
            BrokerKind::File => "file",
            BrokerKind::Redis => "redis",
            BrokerKind::Sentinel => "sentinel",
            BrokerKind::Cluster => "cluster",
        })?;
        f.write_str(match self.ledger {
            None => "",
            Some(LedgerKind::Postgres) => "+postgres",
            Some(LedgerKind::MySql) => "+mysql",
        })
    }
}

/// The store of live jobs.
pub(crate) enum Broker {
    File(Disk, FakeClock),
    Redis(RedisServer),
    Sentinel(RedisSentinel),
    Cluster(RedisCluster),
}

/// The store that keeps all jobs beside Redis.
pub(crate) enum Ledger {
    Postgres(PostgresServer),
    MySql(MariaDbServer),
}

pub(crate) struct Store {
    pub(crate) broker: Broker,
    pub(crate) ledger: Option<Ledger>,
}

impl Store {
    /// Starts the servers; blocks.
    pub(crate) fn start(kind: Kind, folder: &Path) -> Self {
        let broker = match kind.broker {
            BrokerKind::File => Broker::File(Disk::mount(), FakeClock::new(folder)),
            BrokerKind::Redis => {
                Broker::Redis(RedisServer::with_clock(if kind.ledger.is_some() { &[] } else { &KEPT }))
            }
            BrokerKind::Sentinel => Broker::Sentinel(RedisSentinel::start()),
            BrokerKind::Cluster => Broker::Cluster(RedisCluster::start()),
        };
        let ledger = kind.ledger.map(|ledger| match ledger {
            LedgerKind::Postgres => Ledger::Postgres(PostgresServer::with(true, &[])),
            LedgerKind::MySql => Ledger::MySql(MariaDbServer::with(true, &[])),
        });
        Self { broker, ledger }
    }

    /// The arguments of a server. Each server reaches a single Redis through its own proxy, which these fates control.
    pub(crate) fn arguments(&self, fates: &Arc<Fates>, proxies: &mut Vec<Proxy>) -> Vec<String> {
        let mut words = match &self.broker {
            Broker::File(disk, _) => vec!["--store".to_owned(), disk.path().join("jobs.db").display().to_string()],
            Broker::Redis(redis) => {
                let fates = fates.clone();
                let proxy = Proxy::to(redis.port(), move |command| fates.judge(command, 0));
                let url = proxy.url();
                proxies.push(proxy);
                vec!["--broker".to_owned(), url]
            }
            Broker::Sentinel(watched) => vec!["--broker".to_owned(), watched.url()],
            Broker::Cluster(cluster) => vec!["--broker".to_owned(), format!("{}?partitions=4", cluster.url())],
        };
        match &self.ledger {
            None => {}
            Some(Ledger::Postgres(server)) => words.extend(["--ledger".to_owned(), server.url()]),
            Some(Ledger::MySql(server)) => words.extend(["--ledger".to_owned(), server.url()]),
        }
        words
    }

    /// The clock of a server's process, if the process has its own.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match &self.broker {
            Broker::File(_, clock) => clock.environment().to_vec(),
            _ => Vec::new(),
        }
    }

    /// Sets the clock by which jobs are due; returns whether there is one.
    pub(crate) fn set_clock(&self, off_ms: i64) -> bool {
        match &self.broker {
            Broker::File(_, clock) => clock.set(off_ms),
            Broker::Redis(redis) => redis.set_clock(off_ms),
            Broker::Sentinel(_) | Broker::Cluster(_) => return false,
        }
        true
    }

    /// All living servers of Redis.
    pub(crate) fn redis(&self) -> Vec<&RedisServer> {
        match &self.broker {
            Broker::File(..) => Vec::new(),
            Broker::Redis(redis) => vec![redis],
            Broker::Sentinel(watched) => watched.servers().iter().collect(),
            Broker::Cluster(cluster) => cluster.nodes().iter().collect(),
        }
    }

    /// Kills the database, and starts it again.
    pub(crate) fn kill_ledger(&mut self) {
        match self.ledger.as_mut().expect("a ledger") {
            Ledger::Postgres(server) => {
                server.kill();
                server.start_again();
            }
            Ledger::MySql(server) => {
                server.kill();
                server.start_again();
            }
        }
    }

    /// Kills a master, waits until another one has taken over, and starts the dead one again.
    pub(crate) fn fail_over(&mut self, which: usize) {
        let servers = match &mut self.broker {
            Broker::Sentinel(watched) => {
                let old = watched.kill_master();
                watched.wait_for_failover(old);
                watched.servers_mut()
            }
            Broker::Cluster(cluster) => {
                cluster.kill_master(which);
                cluster.wait_for_failover(which);
                cluster.nodes_mut()
            }
            Broker::File(..) | Broker::Redis(_) => unreachable!("nobody takes over"),
        };
        let dead = servers.iter_mut().find(|server| server.try_command(&["PING"]).is_err());
        dead.expect("the one that was killed").start_again();
    }

    /// Whether each master has a replica that follows it, so that one may die.
    pub(crate) fn can_fail_over(&self) -> bool {
        let info = |server: &&RedisServer| server.try_command(&["INFO", "replication"]).unwrap_or_default();
        let infos: Vec<String> = self.redis().iter().map(info).collect();
        let masters = infos.iter().filter(|info| info.contains("role:master")).count();
        let expected = if matches!(self.broker, Broker::Cluster(_)) { 3 } else { 1 };
        masters == expected && infos.iter().all(|info| info.contains("role:master") || info.contains("link_status:up"))
    }
}

/// A small separate disk if it can be mounted; otherwise a folder, which cannot be filled.
pub(crate) struct Disk {
    folder: TempDir,
    is_mounted: bool,
}

impl Disk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK_SIZE, "duetime-endure"]).arg(folder.path());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        Self { folder, is_mounted }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Fills it to the last byte; returns whether it can be.
    pub(crate) fn fill(&self) -> bool {
        if self.is_mounted {
            // It ends with an error: there is no room.
            let _ = std::io::copy(&mut std::io::repeat(0), &mut std::fs::File::create(self.filler()).unwrap());
        }
        self.is_mounted
    }

    pub(crate) fn make_room(&self) {
        let _ = std::fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        }
    }
}
