//! Live jobs in Redis or Valkey, for any number of processes.
//!
//! Each transition of a batch of jobs is one script, so it is atomic. Each script can be repeated after a lost reply.
//! Decisions are made elsewhere: scripts apply them if the version or epoch is still the one that was read.
//!
//! Without a ledger, Redis is its own ledger: finished jobs are kept within limits of age and number, and jobs can only be
//! found by indexed fields.

mod bound;
mod broker;
mod bus;
mod bytes;
mod call;
mod change;
mod checks;
mod clock;
mod codec;
mod connect;
mod edit;
mod events;
mod fault;
mod find;
mod foreign;
mod handle;
mod jobs;
mod keep;
mod keys;
mod ledger;
mod link;
mod locks;
mod options;
mod outbox;
mod partitions;
mod probe;
mod put;
mod registry;
mod reply;
mod reports;
mod requests;
mod reserve;
mod scripts;
mod settle;
mod url;
mod usage;
mod wake;

pub use connect::check_url;
pub use foreign::Foreign;
pub use handle::Redis;
pub use options::Options;
pub use probe::{Beside, ProbeReport, probe};
#[cfg(feature = "testing")]
pub use scripts::all as all_scripts;
