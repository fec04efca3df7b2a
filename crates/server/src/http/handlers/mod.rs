//! One handler for each operation of the API.

pub(super) mod attention;
pub(super) mod bulk;
pub(super) mod clock;
pub(super) mod events;
pub(super) mod find;
pub(super) mod health;
pub(super) mod jobs;
pub(super) mod leases;
pub(super) mod locks;
pub(super) mod metrics;
pub(super) mod push;
pub(super) mod queues;
pub(super) mod reports;
pub(super) mod reserve;
pub(super) mod schedules;
pub(crate) mod why;
pub(super) mod workers;
