//! The HTTP edge: it parses, calls the engine and renders, and decides nothing about jobs.
//!
//! Whatever is refused, by whichever layer, is answered with a problem document that has a stable code. Only what is
//! no HTTP at all, or a head many times beyond its limit, gets the bare status of the HTTP library.

mod access;
mod app;
mod args;
mod audit;
mod batch;
mod body;
mod budget;
mod bulk;
mod etag;
mod events;
mod find;
mod guard;
mod gzip;
mod handout;
mod health;
mod hosts;
mod job;
mod leases;
mod limits;
mod listen;
mod listener_config;
mod locks;
mod metrics;
mod openapi;
mod pace;
mod page;
mod peers;
mod problem;
mod push;
mod queues;
mod repeat;
mod reply;
mod request_id;
mod routes;
mod schedules;
mod segment;
mod sending;
mod shown;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod trace;

pub(crate) use app::App;
pub(crate) use args::Args;
pub(crate) use listen::serve;
pub(crate) use listener_config::{Error, ListenerConfig};
#[cfg(test)]
pub(crate) use openapi::operations;
