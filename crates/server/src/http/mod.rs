//! The HTTP edge: it parses, calls the engine and renders, and decides nothing about jobs.
//!
//! Every layer answers a refusal with a problem document that has a stable code. Only a request that is not HTTP, or has a
//! head many times beyond its limit, gets the bare status of the HTTP library.

mod app;
mod args;
mod audit_log;
mod batch;
mod body;
mod call;
mod chinese;
mod etag;
mod handlers;
mod json;
mod limits;
mod listen;
mod listener_config;
mod middleware;
mod mount;
mod openapi;
#[cfg(test)]
mod over_time;
mod page;
mod prefix;
mod problem;
mod redaction;
mod remainder;
mod repeat;
mod reply;
mod routes;
mod segment;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod unreadable;

pub(crate) use app::{App, clock_of};
pub(crate) use args::Args;
pub(crate) use audit_log::{Audit, AuditedCommand, Peer};
pub(crate) use body::{FormBody, GuestFormBody};
pub(crate) use limits::{
    ACCEPT_PAUSE, DELIVERIES_MAX, DESCRIPTORS_KEPT, FORM_FIELDS_MAX, STOP_TIME_MAX, UNACKNOWLEDGED_MS_MAX,
};
pub(crate) use listen::serve;
pub(crate) use listener_config::{Error, ListenerConfig};
pub(crate) use middleware::access::pass;
pub(crate) use middleware::hosts::HostName;
pub(crate) use middleware::pace::Pace;
pub(crate) use middleware::peers;
pub(crate) use middleware::request_id::REQUEST_ID;
pub(crate) use mount::Mount;
#[cfg(test)]
pub(crate) use openapi::operations;
pub(crate) use prefix::Prefix;
pub(crate) use problem::Problem;
pub(crate) use tls::encrypt;
