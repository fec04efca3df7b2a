//! Commands that copy, move and migrate stores.

pub(super) mod backup;
pub(super) mod export;
pub(super) mod export_line;
pub(super) mod import;
pub(super) mod migrate;
