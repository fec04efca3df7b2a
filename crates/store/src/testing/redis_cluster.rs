//! A private Redis cluster.

use super::{AGREED_LIMIT, RedisServer, until};

/// Masters; each holds a third of the slots.
const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

const ARGUMENTS: [&str; 12] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1000",
    // A replica takes over however old its link to the master is, and never moves to another master.
    "--cluster-replica-validity-factor",
    "0",
    "--cluster-allow-replica-migration",
    "no",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "1",
];

/// Three masters, each with or without a replica, that have all met. It starts within three seconds: a master waits for two
/// before it serves.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Three masters with one replica each, fully synchronized.
    pub fn start() -> Self {
        Self::of(2 * MASTERS)
    }

    /// Three masters alone.
    pub fn masters_only() -> Self {
        Self::of(MASTERS)
    }

    /// The first three nodes are masters; node `n + 3` is the replica of node `n`.
    fn of(count: usize) -> Self {
        let begun: Vec<_> = (0..count).map(|_| RedisServer::begin(&ARGUMENTS)).collect();
        let cluster = Self { nodes: begun.into_iter().map(RedisServer::ready).collect() };
        for (index, master) in cluster.nodes[..MASTERS].iter().enumerate() {
            let (first, end) = (index * SLOTS / MASTERS, (index + 1) * SLOTS / MASTERS);
            master.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]);
            master.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        // Every node meets every other directly, because gossip takes longer.
        for (index, node) in cluster.nodes.iter().enumerate() {
            for other in &cluster.nodes[index + 1..] {
                node.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]);
            }
        }
        let known = |node: &RedisServer| {
            let nodes = node.command(&["CLUSTER", "NODES"]);
            nodes.lines().count() == count && !nodes.contains("handshake")
        };
        until("each node to know all", AGREED_LIMIT, || cluster.nodes.iter().all(known).then_some(()));
        for (master, replica) in cluster.nodes.iter().zip(&cluster.nodes[MASTERS..]) {
            replica.command(&["CLUSTER", "REPLICATE", &master.command(&["CLUSTER", "MYID"])]);
        }
        cluster.wait_until_ok();
        let synced =
            |replica: &RedisServer| replica.command(&["INFO", "replication"]).contains("master_link_status:up");
        until("each replica to follow its master", AGREED_LIMIT, || {
            cluster.nodes[MASTERS..].iter().all(synced).then_some(())
        });
        cluster
    }

    /// The URL for clients, `redis+cluster://127.0.0.1:P1,127.0.0.1:P2,…`, with all nodes.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The initial masters, then their replicas in the same order.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Same as [`RedisCluster::nodes`], but they can be killed, frozen and started again.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// Sends SIGKILL to the current master of a node's initial slots, which is that node or its replica.
    pub fn kill_master(&mut self, index: usize) {
        let at = self.master_at(index).expect("a living master of these slots");
        self.nodes[at].kill();
    }

    /// Waits until another node has replaced a killed master, and the cluster is ok again.
    pub fn wait_for_failover(&self, index: usize) {
        until("a replica to take over", AGREED_LIMIT, || self.master_at(index));
        self.wait_until_ok();
    }

    /// The node that serves the initial slots of node `index`.
    fn master_at(&self, index: usize) -> Option<usize> {
        assert!(index < MASTERS, "expected a master below {MASTERS}, got {index}");
        let is_master = |node: &RedisServer| node.try_command(&["ROLE"]).is_ok_and(|role| role.starts_with("master"));
        [index, index + MASTERS].into_iter().find(|&at| self.nodes.get(at).is_some_and(is_master))
    }

    /// Waits until all living nodes report that the cluster is ok. They may not have noticed yet that a master was just
    /// killed.
    pub fn wait_until_ok(&self) {
        let is_ok = |node: &RedisServer| {
            // A node that does not answer is dead.
            node.try_command(&["CLUSTER", "INFO"]).map_or(true, |info| info.contains("cluster_state:ok"))
        };
        until("cluster_state:ok on all nodes", AGREED_LIMIT, || self.nodes.iter().all(is_ok).then_some(()));
    }
}
