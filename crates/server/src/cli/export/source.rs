//! The store that is read: opened without an engine, so that nothing in it changes.

use crate::cli::exit::{Failure, Result, TRY_LATER};
use crate::cli::target::{MEMORY, Target};
use crate::serve;
use duetime_core::engine::Stores;
use duetime_store::pair::Pair;
use duetime_store::sql;
use duetime_store::sqlite::Durability;
use std::path::Path;

/// Opens it; it must be there.
pub(super) async fn open(target: &Target) -> Result<Stores> {
    target.check_is_store()?;
    match &target.store {
        Some(path) if path == Path::new(MEMORY) => {
            Err(Failure::usage("a store in memory is gone with its server: there is nothing to export"))
        }
        Some(path) if !path.exists() => Err(Failure::error(format!("there is no store at {}", path.display()))),
        Some(path) => serve::own(Some(path.clone()), Durability::Commit).await.map(|(stores, ..)| stores).map_err(held),
        None => Ok(in_redis(&target.address(), target.ledger()).await?),
    }
}

async fn in_redis(broker: &str, ledger: Option<String>) -> std::result::Result<Stores, duetime_core::Error> {
    let Some(ledger) = ledger else { return Ok(serve::shared(broker, None).await?.0) };
    // What is only read may be on a server that may lose it, and its tables stay as they are.
    let options = sql::Options { migrates: false, may_lose: true, ..sql::Options::default() };
    Ok(Pair::connect(broker, &ledger, options).await?.stores())
}

fn held(error: duetime_core::Error) -> Failure {
    let is_held = error.code() == "store_held";
    let failure = Failure::from(error);
    if !is_held {
        return failure;
    }
    Failure::new(TRY_LATER, failure.to_string())
        .hint("or make a copy with `duetime backup`, which may be done at any time, and export that")
}
