//! The commands, and the one that this process runs.

use super::{
    adopt, bench, completions, config, demo, doctor, events, exit, health, help_groups, init, jobs, lease, locks,
    queues, reserve, schedules, settle, status, store, take, target, token, top, usage, variables, with_lock, work,
    workers,
};
use crate::config::{Settings, Surroundings, parse};
use crate::log;
use clap::{CommandFactory, FromArgMatches, Parser};
use duetime_core::Due;
use duetime_core::engine::BulkAction;
use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;

/// A delayed job queue: push a job now, run it when it is due.
#[derive(Debug, Parser)]
#[command(name = "duetime", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[command(after_help = "Examples:
  duetime serve --store /var/lib/duetime/jobs.db
  duetime serve --broker redis://cache:6379 --ledger postgres://duetime@db/duetime
  duetime serve --listen 0.0.0.0:7300 --tokens tokens.toml --tls-cert cert.pem --tls-key key.pem")]
    Serve(Box<crate::serve::Args>),
    Beanstalk(Box<crate::serve::beanstalk::Args>),
    Push(Box<jobs::push::Args>),
    List(jobs::list::Args),
    Get(jobs::get::Args),
    Why(jobs::why::Args),
    /// Cancel jobs.
    ///
    /// Waiting jobs are cancelled at once. For running jobs, the worker is asked to stop.
    #[command(after_help = "Examples:
  duetime cancel 117111681613568
  duetime cancel --tag order:4711")]
    Cancel(jobs::many::Selected),
    Reschedule(jobs::many::Reschedule),
    /// Retry finished jobs, from attempt 0.
    #[command(after_help = "Examples:
  duetime retry 117111681613568
  duetime retry --queue orders --state failed --spread 10m")]
    Retry(jobs::many::Spread),
    /// Delete jobs and their records; running jobs are refused.
    #[command(after_help = "Examples:
  duetime delete 117111681613568
  duetime delete --queue orders-dead --state failed")]
    Delete(jobs::many::Selected),
    Queues(queues::Args),
    Schedules(Box<schedules::Args>),
    Events(events::Args),
    Peek(jobs::peek::Args),
    Take(take::Args),
    Work(work::Args),
    Workers(workers::Args),
    Progress(lease::Progress),
    Lock(with_lock::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Token(token::Args),
    Config(config::Args),
    Doctor(Box<doctor::Args>),
    Update(jobs::update::Args),
    /// Run waiting jobs now.
    #[command(after_help = "Examples:
  duetime run 117111681613568
  duetime run --tag order:4711")]
    Run(jobs::many::Spread),
    Reserve(reserve::Args),
    Complete(lease::Complete),
    Fail(lease::Fail),
    Release(lease::Release),
    Park(lease::Park),
    Extend(lease::Extend),
    Settle(settle::Args),
    Locks(locks::Args),
    Status(status::Args),
    Top(top::Args),
    Health(health::Args),
    Metrics(health::Metrics),
    Completions(completions::Args),
    Man(completions::Man),
    Backup(store::backup::Args),
    Migrate(store::migrate::Args),
    Export(store::export::Args),
    Import(store::import::Args),
    Adopt(adopt::Args),
}

/// All commands with their options.
pub(crate) fn command() -> clap::Command {
    usage::with_negative_values(help_groups::grouped(Cli::command()))
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    let parsed = match parse(&command(), &line, &Surroundings::own()) {
        Ok(parsed) => parsed,
        Err(error) => usage::plain(error, &line).exit(),
    };
    let command = match Cli::from_arg_matches(&parsed.matches) {
        Ok(cli) => cli.command,
        Err(error) => error.format(&mut command()).exit(),
    };
    let settings = parsed.settings.unwrap_or_default();
    if !matches!(command, Command::Serve(_) | Command::Beanstalk(_) | Command::Demo(demo::Args { serve: true, .. })) {
        log::of_command();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return exit::Failure::error(format!("cannot start threads: {error}")).report(),
    };
    if init::is_first() && matches!(command, Command::Work(_) | Command::Lock(_)) {
        return runtime.block_on(init::run()).unwrap_or_else(|error| {
            exit::Failure::error(format!("cannot start this program a second time: {error}")).report()
        });
    }
    // Behind a pointer it is compiled once, not for each kind of runtime.
    let work: Pin<Box<dyn Future<Output = exit::Result>>> = Box::pin(async {
        let result = run(command, settings).await;
        let closed = target::close().await;
        result.and(closed)
    });
    let result = runtime.block_on(work);
    // A thread that waits for the terminal must not hold up the end.
    runtime.shutdown_background();
    log::flush();
    result.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

async fn run(command: Command, settings: Settings) -> exit::Result {
    target::check_variables()?;
    // `config check` lists them with all other mistakes.
    if !matches!(&command, Command::Config(args) if args.is_check()) {
        variables::note_mistyped(&self::command());
    }
    match command {
        Command::Serve(args) => serve(*args, &settings).await,
        Command::Beanstalk(args) => Ok(crate::serve::beanstalk::run(*args).await?),
        Command::Config(args) => config::run(args, &settings, &self::command()),
        Command::Doctor(args) => doctor::run(*args, &settings).await,
        Command::Update(args) => jobs::update::run(args).await,
        Command::Run(args) => jobs::many::due(Due::Now, &args).await,
        Command::Reserve(args) => reserve::run(args).await,
        Command::Complete(args) => lease::complete(args).await,
        Command::Fail(args) => lease::fail(args).await,
        Command::Release(args) => lease::release(args).await,
        Command::Park(args) => lease::park(args).await,
        Command::Extend(args) => lease::extend(args).await,
        Command::Settle(args) => settle::run(args).await,
        Command::Locks(args) => locks::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Top(args) => top::run(args).await,
        Command::Health(args) => health::run(args, &self::command()).await,
        Command::Metrics(args) => health::metrics(args).await,
        Command::Completions(args) => completions::run(&args, &mut self::command()),
        Command::Man(args) => completions::man(&args, self::command()),
        Command::Push(args) => jobs::push::run(*args).await,
        Command::List(args) => jobs::list::run(args).await,
        Command::Get(args) => jobs::get::run(args).await,
        Command::Why(args) => jobs::why::run(args).await,
        Command::Cancel(args) => jobs::many::run(&args, BulkAction::Cancel).await,
        Command::Reschedule(args) => jobs::many::reschedule(&args).await,
        Command::Retry(args) => jobs::many::retry(&args).await,
        Command::Delete(args) => jobs::many::run(&args, BulkAction::Delete).await,
        Command::Queues(args) => queues::run(args).await,
        Command::Schedules(args) => schedules::run(*args).await,
        Command::Events(args) => events::run(args).await,
        Command::Peek(args) => jobs::peek::run(args).await,
        Command::Take(args) => take::run(args).await,
        Command::Work(args) => work::run(args).await,
        Command::Workers(args) => workers::run(args).await,
        Command::Progress(args) => lease::progress(args).await,
        Command::Lock(args) => with_lock::run(args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Token(args) => token::run(args),
        Command::Backup(args) => store::backup::run(args).await,
        Command::Migrate(args) => store::migrate::run(args).await,
        Command::Export(args) => store::export::run(args).await,
        Command::Import(args) => store::import::run(args).await,
        Command::Adopt(args) => adopt::run(args).await,
    }
}

async fn serve(args: crate::serve::Args, settings: &Settings) -> exit::Result {
    if !settings.mistakes.is_empty() {
        let code = if settings.is_file_wrong() { exit::CONFIG } else { exit::USAGE };
        let texts: Vec<_> = settings.mistakes.iter().map(|mistake| mistake.text.as_str()).collect();
        return Err(exit::Failure::new(code, texts.join("\nduetime: ")));
    }
    Ok(crate::serve::run(args, &settings.aside).await?)
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
