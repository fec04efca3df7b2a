//! The command line, tried on the real binary.

mod bench;
mod demo;
mod jobs;
mod lock;
mod redis;
mod server;
mod support;
mod work;
mod work_ends;
mod work_stops;
