//! A private Redis master with replicas, watched by sentinels.

use super::port::Port;
use super::{AGREED_LIMIT, RedisServer, until};

/// The name of the master in the sentinels.
const NAME: &str = "mymaster";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;

/// One master, two replicas, and three sentinels of which two must agree. A dead master is noticed after half a second, and
/// replaced within three, unless they are [patient](Self::patient).
#[derive(Debug)]
pub struct RedisSentinel {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinel {
    /// Starts all servers and waits until the replicas are connected and the sentinels have found them and each other.
    pub fn start() -> Self {
        Self::with_patience(500)
    }

    /// The same for tests that end no master: on a busy machine it may stand still, and is not replaced for that.
    pub fn patient() -> Self {
        Self::with_patience(60_000)
    }

    /// A master that is silent for so many milliseconds is replaced.
    fn with_patience(ms: u32) -> Self {
        // A master that restarts during a failover has no replicas, so it accepts no writes alongside the new one.
        let settings = ["--repl-diskless-sync-delay", "0", "--min-replicas-to-write", "1"];
        let master = RedisServer::begin(&settings);
        let port = master.port().to_string();
        let replica = ["--replicaof", "127.0.0.1", &port];
        let arguments = [settings.as_slice(), &replica].concat();
        let replicas = (0..REPLICAS).map(|_| RedisServer::begin(&arguments));
        let begun: Vec<_> = std::iter::once(master).chain(replicas).collect();
        let servers: Vec<_> = begun.into_iter().map(RedisServer::ready).collect();
        let synced =
            |replica: &RedisServer| replica.command(&["INFO", "replication"]).contains("master_link_status:up");
        until("each replica to follow its master", AGREED_LIMIT, || servers[1..].iter().all(synced).then_some(()));
        let begun = watch(&servers, ms);
        let sentinels: Vec<_> = begun.into_iter().map(RedisServer::ready).collect();
        let watched = Self { servers, sentinels };
        until("the sentinels to see all", AGREED_LIMIT, || watched.sentinels.iter().all(sees_all).then_some(()));
        watched
    }

    /// The URL for clients: `redis+sentinel://127.0.0.1:S1,…/mymaster/0`.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+sentinel://{}/{NAME}/0", addresses.join(","))
    }

    /// The initial master, then the replicas.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Same as [`RedisSentinel::servers`], but they can be killed, frozen and started again.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Same as [`RedisSentinel::sentinels`], but they can be killed, frozen and started again.
    pub fn sentinels_mut(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// The port of the master, according to the first living sentinel.
    pub fn master_port(&self) -> u16 {
        self.sentinels.iter().find_map(master_of).expect("a living sentinel")
    }

    /// Sends SIGKILL to the master; returns its port.
    pub fn kill_master(&mut self) -> u16 {
        let port = self.master_port();
        self.servers.iter_mut().find(|server| server.port() == port).expect("a master of ours").kill();
        port
    }

    /// Waits until most living sentinels name a master other than `old`, and it is one; returns its port. Not all: on a busy
    /// machine one sentinel may have promoted `old` a moment before, in another failover. That one names `old` until `old` is
    /// back.
    pub fn wait_for_failover(&self, old: u16) -> u16 {
        let _explains = Explains(&self.sentinels);
        until("another master", AGREED_LIMIT, || {
            let named: Vec<u16> = self.sentinels.iter().filter_map(master_of).collect();
            let by_most = |port: &&u16| named.iter().filter(|other| other == port).count() * 2 > named.len();
            let new = *named.iter().find(by_most).filter(|&&port| port != old)?;
            let server = self.servers.iter().find(|server| server.port() == new)?;
            server.try_command(&["ROLE"]).is_ok_and(|role| role.starts_with("master")).then_some(new)
        })
    }
}

/// Prints the logs if a wait for them fails.
struct Explains<'a>(&'a [RedisServer]);

impl Drop for Explains<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|sentinel| eprintln!("{}", sentinel.log()));
        }
    }
}

/// Starts sentinels that are configured with each other, which they would otherwise learn by gossip every two seconds.
fn watch(servers: &[RedisServer], patience_ms: u32) -> Vec<RedisServer> {
    let ports: Vec<_> = (0..SENTINELS).map(|_| Port::free()).collect();
    let numbers: Vec<_> = ports.iter().map(Port::number).collect();
    let id = |port: u16| format!("{port:040x}");
    let configure = |own: u16| {
        let mut conf = format!("port {own}\nbind 127.0.0.1\nsentinel myid {}\n", id(own));
        let master = servers[0].port();
        conf += &format!("sentinel monitor {NAME} 127.0.0.1 {master} 2\n");
        conf += &format!("sentinel down-after-milliseconds {NAME} {patience_ms}\n");
        conf += &format!("sentinel failover-timeout {NAME} 2000\n");
        for replica in &servers[1..] {
            conf += &format!("sentinel known-replica {NAME} 127.0.0.1 {}\n", replica.port());
        }
        for other in numbers.iter().filter(|&&port| port != own) {
            conf += &format!("sentinel known-sentinel {NAME} 127.0.0.1 {other} {}\n", id(*other));
        }
        conf
    };
    let launch = |port: Port| {
        let conf = configure(port.number());
        RedisServer::launch("redis-sentinel", port, &conf, &[])
    };
    ports.into_iter().map(launch).collect()
}

/// Whether a sentinel is connected to all servers that it watches, and to the other sentinels.
fn sees_all(sentinel: &RedisServer) -> bool {
    let flags = |what: &str| -> Vec<String> {
        let reply = sentinel.command(&["SENTINEL", what, NAME]);
        let mut lines = reply.lines();
        let mut flags = Vec::new();
        while lines.any(|line| line == "flags") {
            flags.extend(lines.next().map(str::to_owned));
        }
        flags
    };
    let connected = sentinel.command(&["SENTINEL", "REPLICAS", NAME]).matches("master-link-status\nok").count();
    flags("MASTER") == ["master"]
        && flags("REPLICAS") == ["slave"; REPLICAS]
        && connected == REPLICAS
        && flags("SENTINELS") == ["sentinel"; SENTINELS - 1]
}

fn master_of(sentinel: &RedisServer) -> Option<u16> {
    let reply = sentinel.try_command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
    reply.lines().nth(1)?.parse().ok()
}
