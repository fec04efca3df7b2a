//! The command line: it parses, calls and renders, and decides nothing about jobs.

mod adopt;
mod bench;
mod command;
mod completions;
mod config;
mod demo;
mod doctor;
mod events;
mod exit;
mod health;
mod help_groups;
mod init;
mod jobs;
mod lease;
mod line_reader;
mod locks;
mod output;
mod process_group;
mod program;
mod progress;
mod push_batch;
mod queues;
mod reserve;
#[cfg(test)]
mod routes_tests;
mod schedules;
mod settle;
mod status;
mod stdin;
mod store;
mod take;
pub(crate) mod target;
pub(crate) mod terminal;
mod time;
mod token;
mod top;
pub(crate) mod usage;
mod variables;
mod with_lock;
mod work;
mod workers;

#[cfg(test)]
pub(crate) use command::command;
pub(crate) use command::main;
