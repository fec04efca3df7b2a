//! The scripts: one for each transition, each consisting of a shared prelude and its own part.

use super::call::CALL_BYTES_MAX;
use super::codec::FRESH_BYTES_MAX;
use duetime_core::Stage;
use duetime_core::limits::{
    LOCK_LOST_KEPT_MS, LOCK_REFRESH_MS, LOCK_TICKET_MS, LOCK_TICKETS_MAX, MINUTE_MS, PRIORITY_DEFAULT, STEP_JOBS_MAX,
};
use duetime_core::model::id::{FIRST_MS, SECOND_BITS, floor};
use duetime_core::model::name::OF_ENGINE;
use duetime_core::ports::{Broker, OLDEST_HEADS, OLDEST_LATE_MS, SOON_MS};
use std::sync::LazyLock;

/// A Lua script.
pub(super) struct Script {
    name: &'static str,
    is_bounded: bool,
    source: LazyLock<String>,
    hash: LazyLock<String>,
}

impl Script {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether its reply has a bound, as for all scripts of jobs.
    pub(super) fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! scripts {
    ($all:ident, $bounded:literal, $prelude:expr => $($constant:ident $file:literal)*) => {
        #[cfg(feature = "testing")]
        const $all: &[&Script] = &[$(&$constant),*];
        $(
            pub(super) static $constant: Script = Script {
                name: $file,
                is_bounded: $bounded,
                source: LazyLock::new(|| [$prelude, include_str!(concat!("lua/", $file, ".lua"))].concat()),
                hash: LazyLock::new(|| redis::Script::new($constant.source()).get_hash().to_owned()),
            };
        )*
    };
}

/// How long the answer to a request is remembered: longer than the request is repeated.
const REQUEST_MS: u64 = MINUTE_MS;

/// Bytes of jobs that a script reads at most, unless one job alone has more: that many take about 20 ms.
const READ_BYTES_MAX: usize = 8 * CALL_BYTES_MAX;

/// The prelude of job scripts, with constants shared with Rust.
fn jobs_prelude() -> String {
    let stages =
        [Stage::Pending, Stage::Succeeded, Stage::Failed, Stage::Cancelled].map(|stage| stage.code().to_string());
    let numbers = [
        ("STEP", STEP_JOBS_MAX as u64),
        ("DEFAULT_PRIORITY", PRIORITY_DEFAULT.into()),
        ("GENERATION_SIZE", floor(1)),
        ("READ_AGE_MS_MAX", <dyn Broker>::READ_AGE_MS_MAX),
        ("TOMBSTONE_MS", <dyn Broker>::TOMBSTONE_MS),
        ("BARRED_MS", <dyn Broker>::BARRED_MS),
        ("SOON_MS", SOON_MS),
        ("REQUEST_MS", REQUEST_MS),
        ("FRESH_BYTES_MAX", FRESH_BYTES_MAX as u64),
        ("READ_BYTES_MAX", READ_BYTES_MAX as u64),
        ("OLDEST_HEADS", OLDEST_HEADS as u64),
        ("OLDEST_LATE_MS", OLDEST_LATE_MS),
    ];
    let numbers = numbers.map(|(name, number)| format!("local {name} = {number}\n")).concat();
    let stages = format!("local PENDING, SUCCEEDED, FAILED, CANCELLED = {}\n", stages.join(", "));
    [&numbers, &stages, include_str!("lua/prelude.lua")].concat()
}

scripts! { OF_JOBS, true, jobs_prelude().as_str() =>
    BEGIN "begin"
    COUNTS "counts"
    DUE "due"
    FORGET "forget"
    GET "get"
    KEEP "keep"
    KNOWN "known"
    LIST "list"
    OUTCOMES "outcomes"
    PRUNE "prune"
    PUT "put"
    QUEUES "queues"
    WATERMARK "watermark"
}

scripts! { OF_A_MEMORY_THAT_HAS_BEGUN, true, (jobs_prelude() + include_str!("lua/require_begun.lua")).as_str() =>
    CHANGE "change"
    EXPIRED "expired"
    EXTEND "extend"
    LIMIT "limit"
    REMOVE_QUEUE "remove_queue"
    RESERVE "reserve"
    SET_BACK "set_back"
    SETTLE "settle"
    TOMBSTONE "tombstone"
}

fn locks_prelude() -> String {
    format!(
        "local REQUEST_MS, TICKET_MS, REFRESH_MS, TICKETS_MAX, LOST_KEPT_MS = {REQUEST_MS}, {LOCK_TICKET_MS}, \
         {LOCK_REFRESH_MS}, {LOCK_TICKETS_MAX}, {LOCK_LOST_KEPT_MS}\nlocal OF_ENGINE = '{OF_ENGINE}'\n{}",
        include_str!("lua/lock.lua")
    )
}

scripts! { OF_LOCKS, false, locks_prelude().as_str() =>
    LOCK_ABANDON "lock_abandon"
    LOCK_ACQUIRE "lock_acquire"
    LOCK_BEGIN "lock_begin"
    LOCK_LIST "lock_list"
    LOCK_RELEASE "lock_release"
    LOCK_RELEASE_ALL "lock_release_all"
    LOCK_RENEW "lock_renew"
    LOCK_SET_BACK "lock_set_back"
    LOCK_SWEEP "lock_sweep"
}

fn ids_prelude() -> String {
    let per_ms = f64::from(1 << SECOND_BITS) / 1_000.0;
    format!("local FIRST_MS, SEQUENCES_PER_MS, AHEAD_MS = {FIRST_MS}, {per_ms}, {MINUTE_MS}\n")
}

scripts! { OF_IDS, false, ids_prelude().as_str() =>
    ALLOT "allot"
}

scripts! { OTHERS, false, "" =>
    DOCUMENT "document"
    INCARNATION "incarnation"
}

/// The names of all scripts, with their hashes.
#[cfg(feature = "testing")]
pub fn all() -> Vec<(&'static str, &'static str)> {
    [OF_JOBS, OF_A_MEMORY_THAT_HAS_BEGUN, OF_LOCKS, OF_IDS, OTHERS]
        .concat()
        .into_iter()
        .map(|script| (script.name, script.hash.as_str()))
        .collect()
}
