//! The server and command line of Duetime; as a library, the dashboard and the HTTP API as a [`router()`] for your own axum application.
//!
//! A store that an application has open can be used by no other process. With this router people can look at it while the application
//! runs. The guide [Look into an embedded
//! store](https://github.com/duetime/duetime/blob/main/docs/guides/embedded.md) shows how. This crate brings all that the server
//! needs, so an application that pushes and runs jobs needs only the crate `duetime`.

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
mod file_watch;
mod http;
mod job_options;
mod log;
mod queue_settings;
mod rate;
mod retry_rule;
mod router;
mod serve;
mod signals;
mod toml_words;

pub use router::{RouterOptions, router};

/// Runs the command that this process was started with.
#[doc(hidden)]
pub fn main() -> std::process::ExitCode {
    cli::main()
}
