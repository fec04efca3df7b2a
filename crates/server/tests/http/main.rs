//! The HTTP API, as raw bytes against the real server process.

mod bodies;
mod bulk;
#[path = "../common/certificate.rs"]
mod certificate;
mod client;
mod codes;
mod conditions;
mod events;
mod find;
mod golden;
mod handout;
mod hostile;
mod jobs;
mod leases;
mod limits;
mod locks;
mod metrics;
mod pages;
mod poison;
mod poll;
mod protocol;
mod push;
mod queues;
#[path = "../common/random.rs"]
mod random;
mod refusals;
mod rights;
mod schedules;
mod server;
mod start;
mod stop;
mod tls;
mod tokens;
mod totals;
