//! The command line, tried on the real binary.

mod bench;
mod demo;
mod jobs;
mod ledger;
mod lock;
mod migrate;
mod names;
mod push_file;
mod redis;
mod schedules;
mod server;
mod support;
mod transfer;
mod work;
mod work_ends;
mod work_stops;
