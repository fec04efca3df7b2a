//! All tests of this crate's public API except interleavings, in one program, because each program links everything again.

mod ledger_suite;
mod locks_suite;
mod mysql_ledger;
mod overflow;
mod postgres_ledger;
mod redis_broker;
mod redis_broker_cluster;
mod redis_broker_sentinel;
mod redis_clock;
mod redis_events;
mod redis_faults;
mod redis_ledger;
mod redis_locks;
mod redis_registry;
mod redis_rights;
mod servers;
mod sql_tls;
mod sqlite_file;
mod wrong_servers;
