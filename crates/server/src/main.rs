//! The Duetime server and command line.

mod access;
mod cli;
mod config;
mod deliver;
mod http;
mod rate;
mod serve;
mod watched;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
