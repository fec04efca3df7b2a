//! `duetime adopt`: takes over jobs that wait in another queue, while its old code still feeds it.
//!
//! No job is lost or duplicated if a process is killed. See `docs/internals/adopt.md`, which also describes how to add a
//! source.

mod adopter;
mod beanstalkd;
mod bullmq;
mod framework;
mod hand_back;
mod layout;
mod look;
mod options;
mod push;
mod redis;
mod report;
mod run;
mod sorted_set;
mod source;

use super::exit::Result;

/// Take over waiting jobs from another queue system.
///
/// Without --follow and --drain it only looks: it prints what it found and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt beanstalkd --from 127.0.0.1:11300
  duetime adopt beanstalkd --from 127.0.0.1:11300 --drain --yes beanstalkd
  duetime adopt zset --from redis://127.0.0.1:6379 --key delayed --to orders")]
pub(crate) struct Args {
    #[command(subcommand)]
    source: SourceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum SourceArgs {
    Beanstalkd(beanstalkd::Args),
    Bullmq(bullmq::Args),
    MessageQueue(framework::message_queue::Args),
    Zset(sorted_set::zset::Args),
    LockedSet(sorted_set::zset::LockedArgs),
    TableSet(sorted_set::table_set::Args),
    Laravel(framework::laravel::Args),
    Sidekiq(framework::sidekiq::Args),
}

pub(crate) async fn run(args: Args) -> Result {
    match args.source {
        SourceArgs::Beanstalkd(args) => run::run(Box::new(beanstalkd::Beanstalkd::new(&args)?), &args.options).await,
        SourceArgs::Bullmq(args) => run::run(Box::new(args.source()?), &args.options).await,
        SourceArgs::MessageQueue(args) => run::run(Box::new(args.source()?), &args.options).await,
        SourceArgs::Zset(args) if args.set.undo => sorted_set::undo::run(&args.set, "zset", None).await,
        SourceArgs::LockedSet(args) if args.set.undo => {
            sorted_set::undo::run(&args.set, "locked-set", Some(args.lock()?)).await
        }
        SourceArgs::TableSet(args) if args.set.undo => sorted_set::undo::run(&args.set, "table-set", None).await,
        SourceArgs::Zset(args) => run::run(Box::new(args.source()?), &args.set.options).await,
        SourceArgs::LockedSet(args) => run::run(Box::new(args.source()?), &args.set.options).await,
        SourceArgs::TableSet(args) => run::run(Box::new(args.source()?), &args.set.options).await,
        SourceArgs::Laravel(args) => run::run(Box::new(args.source()?), &args.options).await,
        SourceArgs::Sidekiq(args) => run::run(Box::new(args.source()?), &args.options).await,
    }
}
