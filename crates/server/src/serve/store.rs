//! The store that is served, and the engine on it.

use super::args::{Args, Settle};
use crate::engine_options::engine_options;
use duetime_core::engine::Options;
use duetime_core::{Engine, Error, MovableClock};
use duetime_store::open::{Opened, memory_on, open};
use std::sync::Arc;

/// Opens the store and starts an engine on it. A server for tests has a clock that can be moved.
pub(super) async fn start(args: &Args) -> Result<(Engine, Opened, Option<Arc<MovableClock>>), Error> {
    let options = Options {
        payload_bytes_max: args.payload_max.0,
        horizon: args.horizon,
        memory_max: args.memory_max.map(|size| size.0),
        settles_recorded: args.settle == Settle::Recorded,
        ..engine_options()
    };
    let clock = args.test.then(|| Arc::new(MovableClock::new()));
    let opened = match clock.clone() {
        Some(clock) => memory_on(clock).await?,
        None => open(args.store()).await?,
    };
    Ok((Engine::start(opened.stores.clone(), options).await?, opened, clock))
}
