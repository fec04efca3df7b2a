//! Background tasks of the engine: loading, recording, pruning, leading.

pub(super) mod census;
mod documents;
pub(super) mod inbox;
pub(super) mod leader;
pub(super) mod load;
pub(super) mod overflow;
pub(super) mod prune;
pub(super) mod record;
