//! The store that is read: opened without an engine, so that nothing in it changes.

use crate::cli::exit::{Failure, Result, TRY_LATER};
use crate::cli::target::{MEMORY, Target};
use duetime_core::engine::Stores;
use duetime_store::open::{self, Spec};
use duetime_store::sql;
use duetime_store::sqlite::Durability;
use std::path::Path;

/// Opens it; it must be there.
pub(super) async fn open(target: &Target) -> Result<Stores> {
    target.check_is_store()?;
    let spec = match &target.store {
        Some(path) if path == Path::new(MEMORY) => {
            Err(Failure::usage("a store in memory cannot be exported: it exists only in its server"))
        }
        Some(path) if !path.exists() => Err(Failure::error(format!("there is no store at {}", path.display()))),
        Some(path) => Ok(Spec::File { path: path.clone(), durability: Durability::Commit, inbox: None }),
        None => Ok(in_redis(target.address(), target.ledger())),
    }?;
    open::open(spec).await.map(|opened| opened.stores).map_err(held)
}

fn in_redis(broker: String, ledger: Option<String>) -> Spec {
    let Some(ledger) = ledger else { return Spec::Redis { url: broker, memory_max: None } };
    // An export only reads, so a server that may lose data is allowed, and tables are not migrated.
    let options = sql::Options { migrates: false, may_lose: true, ..sql::Options::default() };
    Spec::Pair { broker, ledger, options }
}

fn held(error: duetime_core::Error) -> Failure {
    let is_held = error.code() == "store_held";
    let failure = Failure::from(error);
    if !is_held {
        return failure;
    }
    Failure::new(TRY_LATER, failure.to_string())
        .hint("or copy it with `duetime backup`, which is possible at any time, and export the copy")
}
