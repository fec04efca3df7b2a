//! The command line, tried on the real binary.

mod api;
mod bench;
mod config;
mod demo;
mod doctor;
mod exit_codes;
mod files;
mod golden;
mod install;
mod jobs;
pub(crate) mod ledger;
mod lock;
mod log;
mod log_lost;
mod migrate;
mod names;
mod push_file;
mod redis;
mod schedules;
pub(crate) mod server;
pub(crate) mod support;
mod terminal;
mod transfer;
mod work;
mod work_ends;
mod work_stops;
