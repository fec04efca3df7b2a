//! The scripts: one for each transition, each made of what all share and of its own part.

use duetime_core::limits::{LOCK_LOST_KEPT_MS, LOCK_REFRESH_MS, LOCK_TICKET_MS, LOCK_TICKETS_MAX};
use duetime_core::name::OF_ENGINE;
use std::sync::LazyLock;

/// A Lua script.
pub(super) struct Script {
    name: &'static str,
    source: LazyLock<String>,
    hash: LazyLock<String>,
}

impl Script {
    pub(super) fn name(&self) -> &'static str {
        self.name
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
    ($all:ident, $prelude:expr => $($constant:ident $file:literal)*) => {
        #[cfg(feature = "testing")]
        const $all: &[&Script] = &[$(&$constant),*];
        $(
            pub(super) static $constant: Script = Script {
                name: $file,
                source: LazyLock::new(|| [$prelude, include_str!(concat!("lua/", $file, ".lua"))].concat()),
                hash: LazyLock::new(|| redis::Script::new($constant.source()).get_hash().to_owned()),
            };
        )*
    };
}

scripts! { OF_JOBS, include_str!("lua/prelude.lua") =>
    BEGIN "begin"
    COUNTS "counts"
    FORGET "forget"
    FRONTIER "frontier"
    GET "get"
    KEEP "keep"
    LIST "list"
    OUTCOMES "outcomes"
    PRUNE "prune"
    PUT "put"
    QUEUES "queues"
}

scripts! { OF_A_MEMORY_THAT_HAS_BEGUN, concat!(include_str!("lua/prelude.lua"), include_str!("lua/begun.lua")) =>
    BURY "bury"
    CHANGE "change"
    EXPIRED "expired"
    EXTEND "extend"
    LIMIT "limit"
    RESERVE "reserve"
    SETTLE "settle"
}

/// How long the answer to a request for a lock is remembered: longer than it is asked again.
const LOCK_REQUEST_MS: u64 = 60_000;

fn locks_prelude() -> String {
    format!(
        "local REQUEST_MS, TICKET_MS, REFRESH_MS, TICKETS_MAX, LOST_KEPT_MS = {LOCK_REQUEST_MS}, {LOCK_TICKET_MS}, \
         {LOCK_REFRESH_MS}, {LOCK_TICKETS_MAX}, {LOCK_LOST_KEPT_MS}\nlocal OF_ENGINE = '{OF_ENGINE}'\n{}",
        include_str!("lua/lock.lua")
    )
}

scripts! { OF_LOCKS, locks_prelude().as_str() =>
    LOCK_ABANDON "lock_abandon"
    LOCK_ACQUIRE "lock_acquire"
    LOCK_BEGIN "lock_begin"
    LOCK_LIST "lock_list"
    LOCK_RELEASE "lock_release"
    LOCK_RELEASE_ALL "lock_release_all"
    LOCK_RENEW "lock_renew"
    LOCK_SWEEP "lock_sweep"
}

scripts! { OTHERS, "" =>
    ALLOT "allot"
    STAMP "stamp"
    DOCUMENT "document"
}

/// The names of all scripts, with their hashes.
#[cfg(feature = "testing")]
pub fn all() -> Vec<(&'static str, &'static str)> {
    [OF_JOBS, OF_A_MEMORY_THAT_HAS_BEGUN, OF_LOCKS, OTHERS]
        .concat()
        .into_iter()
        .map(|script| (script.name, script.hash.as_str()))
        .collect()
}
