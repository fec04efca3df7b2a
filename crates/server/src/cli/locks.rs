//! `duetime locks`: locks by hand. `duetime lock` holds one while a command runs.

use super::exit::{Failure, LOCK_HELD, Result};
use super::output::{self, note};
use super::target::Target;
use super::time::{now, relative};
use crate::cli::usage::span;
use duetime::Error;
use duetime_core::api::{LockBody, Span};
use duetime_core::engine::{LockList, LockRequest};
use duetime_core::limits::{LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN, PAGE_LOCKS_DEFAULT, WAIT_MS_MAX};
use duetime_core::ports::{Grant, Holding};
use serde_json::json;
use std::sync::Arc;

/// Show locks; acquire, renew or release one by hand.
///
/// An acquired lock is held until it is released or its time to live is over. `duetime lock` holds one while a command
/// runs.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  duetime locks
  fence=$(duetime locks acquire stock-42 --owner me --ttl 5m --json | jq .fence)
  duetime locks renew stock-42 --owner me --fence \"$fence\"
  duetime locks release --owner me")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the locks that are held
    List(List),
    /// Show who holds a lock
    Show(Show),
    /// Acquire a lock, first come, first served; exit with 69 if it is held
    Acquire(Acquire),
    /// Renew a lock
    Renew(Renew),
    /// Release a lock, or all locks of an owner
    Release(Release),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Maximum number of results, up to 1000
    #[arg(long, short = 'n', value_name = "N", default_value_t = PAGE_LOCKS_DEFAULT)]
    limit: usize,
    /// Continue from this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Lock name
    #[arg(value_name = "NAME")]
    name: Arc<str>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Acquire {
    /// Lock name, 1 to 255 bytes
    #[arg(value_name = "NAME")]
    name: Arc<str>,
    /// Owner: a name that no other holder uses
    #[arg(long, value_name = "OWNER")]
    owner: Arc<str>,
    /// Time to live unless renewed; 100ms to 24h
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = span::<LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX>)]
    ttl: Span,
    /// Wait this long for the lock, up to 60s
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = span::<0, WAIT_MS_MAX>)]
    wait: Span,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Renew {
    /// Lock name
    #[arg(value_name = "NAME")]
    name: Arc<str>,
    /// Owner of the lock
    #[arg(long, value_name = "OWNER")]
    owner: Arc<str>,
    /// Fence, as `acquire` returned it
    #[arg(long, value_name = "FENCE")]
    fence: u64,
    /// Time to live from now; 100ms to 24h
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = span::<LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX>)]
    ttl: Span,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Release {
    /// Lock name; without it, all locks of the owner are released
    #[arg(value_name = "NAME", requires = "fence")]
    name: Option<Arc<str>>,
    /// Owner of the lock
    #[arg(long, value_name = "OWNER")]
    owner: Arc<str>,
    /// Fence, as `acquire` returned it
    #[arg(long, value_name = "FENCE", requires = "name")]
    fence: Option<u64>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    match args.action {
        None => list(&args.list).await,
        Some(Action::List(args)) => list(&args).await,
        Some(Action::Show(args)) => show(&args).await,
        Some(Action::Acquire(args)) => acquire(args).await,
        Some(Action::Renew(args)) => renew(&args).await,
        Some(Action::Release(args)) => release(&args).await,
    }
}

async fn list(args: &List) -> Result {
    let client = args.target.client().await?;
    let locks = client.locks().list(args.cursor.as_deref(), args.limit).await?;
    if args.target.json {
        return output::json(&locks);
    }
    table(&locks)
}

fn table(list: &LockList) -> Result {
    let row = |lock: &Holding| {
        let expires = relative(lock.grant.expires_at.0, now());
        let [fence, waiting] = [lock.grant.fence, lock.waiting.into()].map(|number| number.to_string());
        [lock.name.to_string(), lock.owner.to_string(), fence, expires, waiting]
    };
    output::rows(&["NAME", "OWNER", "FENCE", "EXPIRES", "WAITING"], list.locks.iter().map(row), "no locks are held")?;
    if let Some(cursor) = &list.next_cursor {
        note!("there are more: use --cursor '{cursor}' or a higher --limit");
    }
    Ok(())
}

async fn show(args: &Show) -> Result {
    let client = args.target.client().await?;
    let holding = client.locks().holder(&args.name).await?;
    if args.target.json {
        return output::json(&holding.as_ref().map_or_else(|| LockBody::free(args.name.clone()), LockBody::from));
    }
    match holding {
        Some(holding) => table(&LockList { locks: vec![holding], next_cursor: None }),
        None => output::say(format_args!("{} is free", output::safe(&args.name))),
    }
}

async fn acquire(args: Acquire) -> Result {
    let Acquire { name, owner, ttl, wait, target } = args;
    let request = LockRequest { name, owner, ttl, wait, keep_place: false };
    let client = target.client_of_new().await?;
    let granted = client.locks().acquire(request).await.map_err(refused)?;
    granted_now(granted, target.json)
}

async fn renew(args: &Renew) -> Result {
    let client = args.target.client().await?;
    let granted = client.locks().renew(&args.name, &args.owner, args.fence, args.ttl.into()).await?;
    granted_now(granted, args.target.json)
}

fn granted_now(granted: Grant, json: bool) -> Result {
    if json {
        return output::json(&granted);
    }
    let until = relative(granted.expires_at.0, now());
    output::say(format_args!("acquired with fence {}; expires {until}", granted.fence))
}

fn refused(error: Error) -> Failure {
    if error.code() == "lock_held" { Failure::new(LOCK_HELD, error.to_string()) } else { error.into() }
}

async fn release(args: &Release) -> Result {
    let client = args.target.client().await?;
    if let (Some(name), Some(fence)) = (&args.name, args.fence) {
        client.locks().release(name, &args.owner, fence).await?;
        let document = json!({ "name": &**name, "outcome": "released" });
        return output::tell(args.target.json, &document, format_args!("{name} is released"));
    }
    let released = client.locks().release_all(&args.owner).await?;
    let line = format!("{} released, {} already lost", released.released, released.lost);
    output::tell(args.target.json, &released, line)
}
