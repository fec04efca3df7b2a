//! The beanstalkd protocol, as bytes on connections of the real server.

mod account;
mod corners;
mod doors;
mod flags;
mod limits;
mod model;
mod outside;
mod script;
mod server;
mod tls;
