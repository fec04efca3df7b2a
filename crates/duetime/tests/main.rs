//! All tests of this crate's public API in one program, because each program links everything again.

#[macro_use]
mod cases;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod examples;
#[cfg(all(feature = "derive", feature = "testing"))]
mod guide;
#[cfg(feature = "redis")]
#[cfg(all(feature = "derive", feature = "embedded"))]
mod handlers;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod inbox;
mod lock_chaos;
mod parsers;
#[cfg(feature = "redis")]
mod redis;
#[cfg(all(feature = "redis", feature = "postgres"))]
mod redis_beside_ledger;
#[cfg(feature = "redis")]
mod redis_cluster;
#[cfg(feature = "redis")]
mod redis_idle;
#[cfg(feature = "redis")]
mod redis_limits;
#[cfg(feature = "redis")]
mod redis_schedules;
mod remote;
#[cfg(feature = "embedded")]
mod spans;
#[cfg(all(feature = "derive", feature = "testing"))]
mod testing;
mod waits;
