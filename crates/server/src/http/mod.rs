//! The HTTP edge: it parses, calls the engine and renders, and decides nothing about jobs.
//!
//! Whatever is refused, by whichever layer, is answered with a problem document that has a stable code. Only what is
//! no HTTP at all, or a head many times beyond its limit, gets the bare status of the HTTP library.

mod app;
mod batch;
mod body;
mod bulk;
mod etag;
mod find;
mod guard;
mod handout;
mod health;
mod job;
mod leases;
mod limits;
mod listen;
mod locks;
mod metrics;
mod problem;
mod push;
mod queues;
mod reply;
mod routes;
mod schedules;
mod segment;
mod trace;

pub(crate) use app::App;
pub(crate) use limits::CONNECTIONS_MAX;
pub(crate) use listen::serve;
