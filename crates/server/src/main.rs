//! The Duetime server and command line.

#![warn(clippy::print_stderr, clippy::print_stdout, reason = "they panic where nobody reads")]

mod access;
mod account;
mod beanstalk;
mod cli;
mod config;
mod dashboard;
mod deliver;
mod descriptors;
mod engine_options;
mod file_error;
mod http;
mod job_options;
mod log;
mod rate;
mod serve;
mod signals;
mod toml_words;
mod watched;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
