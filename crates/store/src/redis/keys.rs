//! Names of keys. All keys of a partition share a hash tag, so that they are in one slot of a Cluster.

use super::call::Text;
use duetime_core::hash::stable;

/// The keys of a partition, in the order that scripts expect.
const OF_PARTITION: [&str; 17] = [
    "incarnation",
    "body",
    "meta",
    "result",
    "keys",
    "tags",
    "running",
    "expiring",
    "ended",
    "dead",
    "outbox",
    "successors",
    "tombstones",
    "tombstone-times",
    "counters",
    "queues",
    "paused",
];
/// The keys of all locks of a namespace, in the order that scripts expect.
const OF_LOCKS: [&str; 9] = ["fence", "holders", "names", "grants", "owned", "ends", "line", "tickets", "lapses"];
/// The keys of a queue, in the order that scripts expect.
const OF_QUEUE: [&str; 4] = ["due", "pdue", "pwait", "pready"];

/// The names in one namespace.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    namespace: String,
    /// For each partition the keys that every script uses, packed.
    partitions: Vec<Text>,
    /// The keys that every lock script uses, packed.
    locks: Text,
}

impl Keys {
    pub(super) fn new(namespace: &str, partitions: u16) -> Self {
        let mut keys = Self { namespace: namespace.to_owned(), partitions: Vec::new(), locks: Text::default() };
        let mut locks = Text::default();
        OF_LOCKS.iter().for_each(|name| locks.push(keys.own(&format!("lock:{name}")).as_bytes()));
        keys.locks = locks;
        for partition in 0..partitions {
            let mut names = Text::default();
            OF_PARTITION.iter().for_each(|name| names.push(keys.of(partition, name).as_bytes()));
            keys.partitions.push(names);
        }
        keys
    }

    pub(super) fn partitions(&self) -> u16 {
        self.partitions.len() as u16
    }

    /// One of a partition's keys.
    pub(super) fn of(&self, partition: u16, name: &str) -> String {
        format!("{{duetime:{}:{partition}}}:{name}", self.namespace)
    }

    /// One of the namespace's own keys.
    pub(super) fn own(&self, name: &str) -> String {
        format!("{{duetime:{}}}:{name}", self.namespace)
    }

    /// The channel that tells all nodes that a job is due sooner.
    pub(super) fn channel(&self) -> String {
        format!("duetime:{}:wake", self.namespace)
    }

    /// The channel that tells waiters for locks to try again.
    pub(super) fn lock_channel(&self) -> String {
        format!("duetime:{}:locks", self.namespace)
    }

    /// The channel on which nodes receive events of others.
    pub(super) fn events_channel(&self) -> String {
        format!("duetime:{}:events", self.namespace)
    }

    /// The keys of a partition, of a request, and of some of its queues.
    pub(super) fn script(&self, partition: u16, request: &str, queues: &[&str]) -> Text {
        let mut keys = self.partitions[usize::from(partition)].clone();
        keys.push(self.of(partition, &format!("request:{request}")).as_bytes());
        for queue in queues {
            OF_QUEUE.iter().for_each(|name| keys.push(self.of(partition, &format!("{name}:{queue}")).as_bytes()));
        }
        keys
    }

    /// The keys of all locks, and of a request.
    pub(super) fn locks(&self, request: &str) -> Text {
        let mut keys = self.locks.clone();
        keys.push(self.own(&format!("lock:request:{request}")).as_bytes());
        keys
    }

    /// The number of the server for keys outside partitions: the only partition's, or one that differs from all.
    pub(super) fn elsewhere(&self) -> u16 {
        if self.partitions() == 1 { 0 } else { self.partitions() }
    }

    /// The partition of a queue. It must never change.
    pub(super) fn partition_of(&self, queue: &str) -> u16 {
        (stable(queue.as_bytes()) % u64::from(self.partitions())) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_keeps_its_partition() {
        let keys = Keys::new("n", 256);
        assert_eq!(["default", "orders", "mail"].map(|queue| keys.partition_of(queue)), [173, 185, 202]);
    }

    #[test]
    fn queues_that_are_numbered_spread_over_the_partitions() {
        let keys = Keys::new("n", 256);
        let used = |count: u32| {
            let partitions = (0..count).map(|n| keys.partition_of(&format!("queue-{n}")));
            partitions.collect::<std::collections::BTreeSet<u16>>().len()
        };
        assert!(used(20) >= 17, "20 queues in {} partitions", used(20));
        assert!(used(2_000) > 250, "2,000 queues in {} partitions", used(2_000));
    }
}
