//! The command line: it parses, calls and renders, and decides nothing about jobs.

mod backup;
mod bench;
mod cancel;
mod delete;
mod demo;
mod due;
mod events;
mod exit;
mod export;
mod filter;
mod get;
mod group;
mod import;
mod job_args;
mod line;
mod lines;
mod list;
mod lock;
mod many;
mod migrate;
mod output;
mod peek;
mod program;
mod progress;
mod push;
mod queues;
mod reschedule;
mod retry;
mod retry_rule;
mod schedules;
mod stdin;
mod take;
mod target;
mod time;
mod token;
mod under_way;
mod work;

use clap::Parser;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// A delayed job queue: say what is to run and when, and it runs then.
#[derive(Debug, Parser)]
#[command(name = "duetime", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(Box<crate::serve::Args>),
    Push(Box<push::Args>),
    List(list::Args),
    Get(get::Args),
    Cancel(cancel::Args),
    Reschedule(reschedule::Args),
    Retry(retry::Args),
    Delete(delete::Args),
    Queues(queues::Args),
    Schedules(Box<schedules::Args>),
    Events(events::Args),
    Peek(peek::Args),
    Take(take::Args),
    Work(work::Args),
    Progress(under_way::Args),
    Lock(lock::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Token(token::Args),
    Backup(backup::Args),
    Migrate(migrate::Args),
    Export(export::Args),
    Import(import::Args),
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let command = Cli::parse().command;
    if !matches!(command, Command::Serve(_)) {
        log_warnings();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return exit::Failure::error(format!("no threads to run on: {error}")).report(),
    };
    let result = runtime.block_on(run(command));
    // A thread that waits for the terminal must not hold up the end.
    runtime.shutdown_background();
    result.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

/// What the library has to say goes to standard error: that a worker waits for its server, say. How a Redis is set up is
/// for servers to say, not for every command of a crontab.
fn log_warnings() {
    let filter = EnvFilter::new("warn,duetime::client::redis=error");
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    log.with_target(false).with_env_filter(filter).init();
}

async fn run(command: Command) -> exit::Result {
    match command {
        Command::Serve(args) => Ok(crate::serve::run(*args).await?),
        Command::Push(args) => push::run(*args).await,
        Command::List(args) => list::run(args).await,
        Command::Get(args) => get::run(args).await,
        Command::Cancel(args) => cancel::run(args).await,
        Command::Reschedule(args) => reschedule::run(args).await,
        Command::Retry(args) => retry::run(args).await,
        Command::Delete(args) => delete::run(args).await,
        Command::Queues(args) => queues::run(args).await,
        Command::Schedules(args) => schedules::run(*args).await,
        Command::Events(args) => events::run(args).await,
        Command::Peek(args) => peek::run(args).await,
        Command::Take(args) => take::run(args).await,
        Command::Work(args) => work::run(args).await,
        Command::Progress(args) => under_way::run(args).await,
        Command::Lock(args) => lock::run(args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Token(args) => token::run(args),
        Command::Backup(args) => backup::run(args).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::Export(args) => export::run(args).await,
        Command::Import(args) => import::run(args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
