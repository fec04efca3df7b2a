//! Deliveries to targets: a real server process, and receivers that fail in every way.

mod changes;
mod elsewhere;
mod examples;
mod failures;
mod frameworks;
mod receiver;
mod refusals;
mod requests;
mod server;
mod tls;
mod work;
