//! The beanstalkd protocol, as bytes on connections of the real server.

mod account;
mod corners;
mod doors;
mod edges;
mod flags;
pub(crate) mod limits;
mod model;
mod outside;
pub(crate) mod script;
pub(crate) mod server;
mod tls;
