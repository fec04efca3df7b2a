//! The middleware of every request: rights, limits, budgets, the audit log.

pub(super) mod access;
pub(super) mod audit;
pub(super) mod guard;
pub(super) mod gzip;
pub(super) mod heads;
pub(super) mod hosts;
pub(super) mod language;
pub(crate) mod pace;
pub(crate) mod peers;
pub(super) mod request_id;
pub(super) mod sending;
pub(super) mod trace;
