//! The HTTP API, as raw bytes against the real server process.

mod bulk;
mod client;
mod events;
mod find;
mod handout;
mod jobs;
mod leases;
mod limits;
mod locks;
mod metrics;
mod poll;
mod protocol;
mod push;
mod queues;
mod refusals;
mod schedules;
mod server;
mod start;
mod stop;
mod totals;
