//! All tests of this crate's public API in one program, because each program links everything again.

#[macro_use]
mod cases;
mod embedded;
mod examples;
mod guide;
mod guide_sql;
mod handlers;
mod inbox;
mod inbox_sqlite;
mod layers;
mod lock_chaos;
mod metrics;
mod otel;
mod parsers;
mod redis;
mod redis_beside_ledger;
mod redis_cluster;
mod redis_idle;
mod redis_limits;
mod redis_schedules;
mod remote;
mod shares;
mod spans;
mod testing;
mod waits;
