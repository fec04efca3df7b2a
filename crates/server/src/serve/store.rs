//! The store that is served, and the engine on it.

use super::args::{Args, Settle};
use crate::engine_options::engine_options;
use duetime_core::engine::Options;
use duetime_core::{Engine, Error};
use duetime_store::open::{Opened, open};

/// Opens the store and starts an engine on it.
pub(super) async fn start(args: &Args) -> Result<(Engine, Opened), Error> {
    let options = Options {
        payload_bytes_max: args.payload_max.0,
        horizon_ms: args.horizon.0,
        memory_max: args.memory_max.map(|size| size.0),
        settles_recorded: args.settle == Settle::Recorded,
        ..engine_options()
    };
    let opened = open(args.store()).await?;
    Ok((Engine::start(opened.stores.clone(), options).await?, opened))
}
