//! How much memory Redis uses, its limit, and what happens there.
//!
//! It is queried once a second, not with each call; bytes that this process put since are added. Both limits therefore leave
//! room for what other processes may put within that second, and for settles and extends.

use super::checks;
use super::link::Link;
use duetime_core::Error;
use duetime_core::ports::{Room, Trouble};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// How often Redis is queried.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Measured overhead of a job in Redis, in addition to its packed fields.
pub(super) const JOB_BYTES: u64 = 230;

/// How long it is known that records were dropped early.
const DROPPED_KNOWN: Duration = Duration::from_secs(600);
/// How long no more records are dropped after there was none left to drop.
const DROPS_REST: Duration = Duration::from_secs(1);

/// The memory of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Server {
    /// Includes bytes put since.
    used: u64,
    /// 0 if there is no limit.
    maxmemory: u64,
    of_machine: u64,
    policy: String,
}

/// The last report of Redis; of several servers, the fullest one.
#[derive(Debug, Default)]
pub(super) struct Usage {
    server: Mutex<Server>,
    /// The policy of a server that evicts keys at its maxmemory.
    evicts: Mutex<Option<String>>,
    /// When records were last dropped before their time.
    dropped: Mutex<Option<Instant>>,
    /// Held while they are dropped: when there was none left.
    pub(super) dropping: tokio::sync::Mutex<Option<Instant>>,
}

/// The number of bytes that may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Free {
    /// By due time: now, soon, later.
    pub(super) bytes: [u64; 3],
    /// The number of bytes that all queues together may hold in any case.
    pub(super) least: u64,
}

impl Usage {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("no panic under this lock")
    }

    /// Queries Redis now.
    pub(super) async fn ask(&self, link: &Link) -> Result<(), Error> {
        let said: Vec<Server> = checks::memory(link).await?.iter().map(|text| Server::read(text)).collect();
        let evicts = said.iter().find(|server| server.evicts()).map(|server| server.policy.clone());
        *self.evicts.lock().expect("no panic under this lock") = evicts;
        if let Some(fullest) = said.into_iter().max_by_key(Server::fill) {
            *self.server() = fullest;
        }
        Ok(())
    }

    /// Why a Redis that is its own ledger loses data, or did of late.
    pub(super) fn troubles(&self) -> Vec<(Trouble, String)> {
        let mut troubles = Vec::new();
        let dropped = *self.dropped.lock().expect("no panic under this lock");
        if dropped.is_some_and(|dropped| dropped.elapsed() < DROPPED_KNOWN) {
            let why = "Redis uses nearly all of the memory that it may use; raise its maxmemory, or --memory-max if that is set";
            troubles.push((Trouble::DropsRecords, why.to_owned()));
        }
        if let Some(policy) = &*self.evicts.lock().expect("no panic under this lock") {
            let why = format!("maxmemory-policy of Redis is {policy}; set it to noeviction");
            troubles.push((Trouble::Evicts, why));
        }
        troubles
    }

    /// Records were dropped that took this many bytes.
    pub(super) fn has_dropped(&self, bytes: u64) {
        let mut server = self.server();
        server.used = server.used.saturating_sub(bytes);
        *self.dropped.lock().expect("no panic under this lock") = Some(Instant::now());
    }

    /// Whether records may be dropped, given when there was none left.
    pub(super) fn may_drop(none_left: Option<Instant>) -> bool {
        none_left.is_none_or(|at| at.elapsed() > DROPS_REST)
    }

    /// How many bytes of records must be dropped so that new jobs have some room again; 0 if they have.
    pub(super) fn excess(&self, bytes_max: Option<u64>) -> u64 {
        let server = self.server();
        server.own_max(bytes_max).map_or(0, |max| server.used.saturating_sub(max - max / 20))
    }

    /// Adds bytes that were put.
    pub(super) fn add(&self, bytes: u64) {
        self.server().used += bytes;
    }

    /// The number of bytes that may be put beside a ledger; `None` if there is enough room for anything.
    pub(super) fn free(&self, room: Room) -> Option<Free> {
        let Room::Within(asked) = room else { return None };
        let Server { used, maxmemory, of_machine, .. } = *self.server();
        let own = if maxmemory > 0 { maxmemory / 4 * 3 } else { of_machine / 2 };
        let max = asked.map_or(own, |asked| if maxmemory > 0 { asked.min(own) } else { asked });
        // A queue holds at most the used bytes, so here every queue has room, whenever its jobs are due.
        if max == 0 || used <= Room::share(max, u64::MAX) / 2 {
            return None;
        }
        let free = |due_in_ms| Room::share(max, due_in_ms).saturating_sub(used);
        Some(Free { bytes: [free(0), free(1), free(u64::MAX)], least: Room::least(max, 1) })
    }

    /// Refuses new jobs before a Redis that is its own ledger is full. Records of finished jobs are dropped first.
    pub(super) fn check(&self, bytes_max: Option<u64>) -> Result<(), Error> {
        let server = self.server();
        let used = server.used;
        match server.own_max(bytes_max) {
            Some(max) if used >= max => Err(Error::LimitReached(format!(
                "Redis uses about {used} bytes of memory, and new jobs are refused above {max}; raise its maxmemory, or \
                 let workers catch up"
            ))),
            _ => Ok(()),
        }
    }
}

impl Server {
    fn read(info: &str) -> Self {
        let text = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let number = |name: &str| text(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        Self {
            used: number("used_memory"),
            maxmemory: number("maxmemory"),
            of_machine: number("total_system_memory"),
            policy: text("maxmemory_policy").unwrap_or_default().to_owned(),
        }
    }

    fn evicts(&self) -> bool {
        self.maxmemory > 0 && !matches!(self.policy.as_str(), "" | "noeviction")
    }

    /// The number of bytes that it may use if it is its own ledger.
    fn own_max(&self, asked: Option<u64>) -> Option<u64> {
        let own = (self.maxmemory > 0).then_some(self.maxmemory / 10 * 9);
        asked.into_iter().chain(own).min()
    }

    /// Its fill level in thousandths.
    fn fill(&self) -> u64 {
        let max = if self.maxmemory > 0 { self.maxmemory } else { self.of_machine };
        self.used.saturating_mul(1_000).checked_div(max).unwrap_or(0)
    }
}

/// Queries repeatedly, until the process stops. While Redis does not answer, its last report is used.
pub(super) async fn watch(link: Arc<Link>, usage: Arc<Usage>) {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        if let Err(error) = usage.ask(&link).await {
            tracing::debug!(%error, "the memory use of Redis cannot be read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(used: u64, maxmemory: u64) -> Usage {
        let info = format!(
            "# Memory\r\nused_memory:{used}\r\nused_memory_rss:1\r\nmaxmemory:{maxmemory}\r\n\
             maxmemory_human:0B\r\ntotal_system_memory:{}\r\n",
            1_000 * MIB
        );
        Usage { server: Mutex::new(Server::read(&info)), ..Usage::default() }
    }

    #[test]
    fn a_put_may_fill_three_quarters_of_maxmemory() {
        let within = Room::Within(None);
        assert_eq!(memory(28 * MIB, 100 * MIB).free(within), None, "there is room for all");
        let free = memory(60 * MIB, 100 * MIB).free(within).unwrap();
        let [due, soon, later] = free.bytes;
        assert_eq!(due, 15 * MIB);
        assert!(due > soon && soon > later, "{free:?}");
        assert_eq!(memory(80 * MIB, 100 * MIB).free(within).unwrap().bytes, [0; 3]);
        assert_eq!(memory(80 * MIB, 100 * MIB).free(Room::Any), None);
    }

    #[test]
    fn a_bound_that_is_asked_for_holds_below_maxmemory() {
        let due = |memory: Usage, asked| memory.free(Room::Within(Some(asked))).map(|free| free.bytes[0]);
        assert_eq!(due(memory(50 * MIB, 0), 60 * MIB), Some(10 * MIB));
        assert_eq!(due(memory(50 * MIB, 100 * MIB), 60 * MIB), Some(10 * MIB));
        assert_eq!(due(memory(60 * MIB, 100 * MIB), 1_000 * MIB), Some(15 * MIB));
        assert_eq!(memory(490 * MIB, 0).free(Room::Within(None)).unwrap().bytes[0], 10 * MIB, "half of the machine");
    }

    #[test]
    fn without_a_ledger_new_jobs_are_refused_before_redis_is_full() {
        assert!(memory(u64::MAX, 0).check(None).is_ok());
        assert!(memory(89 * MIB, 100 * MIB).check(None).is_ok());
        assert!(memory(91 * MIB, 100 * MIB).check(None).is_err());
        assert!(memory(51 * MIB, 100 * MIB).check(Some(50 * MIB)).is_err());
        assert!(memory(51 * MIB, 0).check(Some(50 * MIB)).is_err());
    }
}
