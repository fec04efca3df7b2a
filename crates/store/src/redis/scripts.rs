//! The scripts: one for each transition, each made of what all share and of its own part.

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
    ($prelude:expr => $($constant:ident $file:literal)*) => {
        $(
            pub(super) static $constant: Script = Script {
                name: $file,
                source: LazyLock::new(|| [$prelude, include_str!(concat!("lua/", $file, ".lua"))].concat()),
                hash: LazyLock::new(|| redis::Script::new($constant.source()).get_hash().to_owned()),
            };
        )*
    };
}

scripts! { include_str!("lua/prelude.lua") =>
    BURY "bury"
    CHANGE "change"
    COUNTS "counts"
    EXPIRED "expired"
    EXTEND "extend"
    FORGET "forget"
    GET "get"
    LIST "list"
    OUTCOMES "outcomes"
    PAUSE "pause"
    PRUNE "prune"
    PUT "put"
    QUEUES "queues"
    RESERVE "reserve"
    SETTLE "settle"
}

scripts! { "" =>
    ALLOT "allot"
    STAMP "stamp"
    DOCUMENT "document"
}
