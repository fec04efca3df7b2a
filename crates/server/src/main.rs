//! The Duetime server and command line.

mod http;
mod serve;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "duetime", version)]
enum Command {
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let Command::Serve(args) = Command::parse();
    let runtime = tokio::runtime::Runtime::new().expect("threads to run on");
    match runtime.block_on(serve::run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("duetime: {error}");
            ExitCode::FAILURE
        }
    }
}
