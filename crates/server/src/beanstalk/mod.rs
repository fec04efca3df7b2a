//! The beanstalkd protocol: a second interface to the engine, for existing clients.
//!
//! Tubes are queues, a reserved job is leased, and a buried job has failed. A connection's reserved jobs are released when
//! it closes. `docs/beanstalk.md` lists the differences from beanstalkd, `docs/internals/beanstalk.md` describes the
//! design.
//!
//! The parser ([`command`], [`input`]) is pure. Each connection has its own task, which carries out one command after the
//! other; pipelined commands of one kind are carried out together.

mod args;
mod command;
mod connection;
mod counters;
mod door;
mod ends;
mod input;
mod kicks;
mod leases;
mod limits;
mod listener;
mod looks;
mod marks;
#[cfg(test)]
mod over_time;
#[cfg(test)]
mod piped;
mod puts;
mod reply;
mod reserves;
mod rights;
mod run;
mod stats;
#[cfg(test)]
mod tests;
mod tubes;

pub(crate) use args::{Address, Args};
pub(crate) use door::Door;
pub(crate) use limits::JOB_BYTES_DEFAULT;
pub(crate) use listener::{Listener, serve};
pub(crate) use puts::new_job;
