//! `duetime adopt beanstalkd`.
//!
//! A claim is a job in beanstalkd itself, in the tube [`CLAIMS`]: a list of the jobs that are being taken. It is put before
//! these are **buried**, and they are buried before they are pushed. So no worker gets a job that may have been pushed,
//! whatever dies, and beanstalkd's own log keeps both.

mod claims;
mod look;
mod ready;
mod scan;
mod stats;
mod wire;

use super::source::{Claim, Done, Look, Source, Step, Trouble};
use crate::cli::adopt::options::Options;
use crate::cli::exit::{Failure, Result};
use crate::cli::output::note;
use async_trait::async_trait;
use claims::ClaimedJob;
use duetime_core::model::name;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::{Body, Commands, Reply, Wire};

/// The layout's name.
const LAYOUT: &str = "beanstalkd";
/// The tube of claims.
const CLAIMS: &str = "duetime-adopt";
/// The default port of beanstalkd.
const PORT_DEFAULT: u16 = 11_300;
/// Jobs claimed at a time, and bytes of their bodies.
const BATCH_JOBS: usize = 500;
const BATCH_BYTES: usize = 128 << 20;
/// How often new tubes are looked for.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// Take over jobs from a running beanstalkd, 1.12 or later.
///
/// Keeps priorities, delays and times to run. By default it only looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt beanstalkd --from 127.0.0.1:11300
  duetime adopt beanstalkd --from 127.0.0.1:11300 --follow --yes beanstalkd
  duetime adopt beanstalkd --from old-host --tube mail --to mail --drain --yes beanstalkd --json")]
pub(super) struct Args {
    /// Address of beanstalkd; the default port is 11300
    #[arg(long, value_name = "HOST[:PORT]")]
    from: String,
    /// Take only this tube; repeatable
    #[arg(long, value_name = "TUBE")]
    tube: Vec<String>,
    /// Queue for the jobs; by default the name of the tube
    #[arg(long, value_name = "QUEUE")]
    to: Option<Arc<str>>,
    #[command(flatten)]
    pub(super) options: Options,
}

/// A beanstalkd.
#[derive(Default)]
pub(super) struct Beanstalkd {
    address: String,
    /// Those that were given; empty: all.
    tubes: BTreeSet<String>,
    to: Option<Arc<str>>,
    wire: Option<Wire>,
    connected: Option<Instant>,
    /// Jobs claimed at a time.
    batch_jobs: usize,
    /// Jobs that one claim has room for.
    claim_jobs: usize,
    /// Tubes that are taken now.
    wanted: BTreeSet<String>,
    /// Tubes that this connection watches.
    watched: BTreeSet<String>,
    /// Tubes whose queue may not be pushed to.
    skipped: BTreeSet<String>,
    listed: Option<Instant>,
    /// A job that came while it waited.
    first: Option<(u64, Body)>,
    /// Jobs that cannot be taken.
    stuck: HashSet<u64>,
    /// Jobs that are buried for a claim, by the claim's id.
    held: HashMap<Arc<str>, ClaimedJob>,
    /// How many of these belong to a claim, by the id of its job.
    open: HashMap<u64, usize>,
}

impl Beanstalkd {
    pub(super) fn new(args: &Args) -> Result<Self> {
        let names = args.tube.iter().map(String::as_str).chain(args.to.as_deref());
        names.into_iter().try_for_each(name::check_queue)?;
        if args.tube.iter().any(|tube| tube == CLAIMS) {
            return Err(Failure::usage(format!("the tube {CLAIMS} is reserved for claims: name another one")));
        }
        if args.from.contains("://") {
            return Err(Failure::usage(format!("expected --from HOST or HOST:PORT, got {:?}", args.from)));
        }
        let has_port = args.from.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { args.from.clone() } else { format!("{}:{PORT_DEFAULT}", args.from) };
        Ok(Self { address, tubes: args.tube.iter().cloned().collect(), to: args.to.clone(), ..Self::default() })
    }

    async fn ask(&mut self, commands: &Commands) -> Done<Vec<Reply>> {
        let wire = self.wire.as_mut().ok_or_else(|| Trouble::Away("not connected".to_owned()))?;
        let answered = wire.ask(commands).await;
        if answered.is_err() {
            // A late reply would be taken for the answer to another command. Closing the connection releases its reserved
            // jobs.
            self.wire = None;
        }
        Ok(answered?)
    }

    async fn ask_one(&mut self, command: String) -> Done<Reply> {
        Ok(self.ask(&Commands::from_iter([command])).await?.remove(0))
    }

    /// The tubes there that are to be taken.
    async fn list(&mut self) -> Done<BTreeSet<String>> {
        let reply = self.ask_one("list-tubes".to_owned()).await?;
        let text = reply.text().ok_or_else(|| unexpected(&reply))?;
        let is_wanted = |tube: &&str| {
            *tube != CLAIMS && !self.skipped.contains(*tube) && (self.tubes.is_empty() || self.tubes.contains(*tube))
        };
        Ok(stats::entries(text).filter(is_wanted).map(str::to_owned).collect())
    }

    /// Watches the tubes that are to be taken, and no other.
    async fn watch(&mut self) -> Done {
        if self.listed.is_some_and(|at| at.elapsed() < LIST_EVERY) {
            return Ok(());
        }
        self.wanted = self.list().await?;
        let watch = self.wanted.difference(&self.watched).map(|tube| format!("watch {tube}"));
        let mut commands: Commands = watch.collect();
        if !self.wanted.is_empty() {
            // The last one cannot be ignored.
            self.watched.difference(&self.wanted).for_each(|tube| commands.add(format_args!("ignore {tube}")));
            self.watched.clone_from(&self.wanted);
        }
        self.ask(&commands).await?;
        self.listed = Some(Instant::now());
        Ok(())
    }
}

/// The error for a reply that is not valid for its command.
fn unexpected(reply: &Reply) -> Trouble {
    let Reply { line, .. } = reply;
    Trouble::Failed(match line.as_str() {
        "DRAINING" => {
            Failure::error("beanstalkd is draining (it got SIGUSR1) and accepts no claims; nothing was taken")
                .hint("restart it with its log, `-b DIR`; without a log, let its workers finish")
        }
        "OUT_OF_MEMORY" => Failure::error("beanstalkd is out of memory and accepts no claims; nothing was taken"),
        "UNKNOWN_COMMAND" => Failure::error("beanstalkd 1.12 or later is needed, for `reserve-job`; this one is older")
            .hint("start a newer version on the same log, `-b DIR`"),
        line => Failure::error(format!("unexpected answer from beanstalkd: {line:?}")),
    })
}

#[async_trait]
impl Source for Beanstalkd {
    async fn connect(&mut self) -> Done {
        self.wire = None;
        self.wire = Some(Wire::open(&self.address).await?);
        self.connected = Some(Instant::now());
        self.watched = BTreeSet::from(["default".to_owned()]);
        (self.listed, self.first) = (None, None);
        self.stuck.clear();
        self.held.clear();
        self.open.clear();
        // beanstalkd has no such command, and Duetime misses a token.
        let reply = self.ask_one("auth".to_owned()).await?;
        if reply.is("BAD_FORMAT") {
            let got = format!("the server at {} is Duetime, not beanstalkd", self.address);
            return Err(Failure::usage(got)
                .hint("`duetime export` and `duetime import` move jobs between stores")
                .into());
        }
        if !reply.is("UNKNOWN_COMMAND") {
            let Reply { line, .. } = reply;
            return Err(Failure::error(format!(
                "the server at {} is not beanstalkd: it answered {line:?}",
                self.address
            ))
            .hint("check host and port of --from")
            .into());
        }
        let reply = self.ask_one("reserve-job 0".to_owned()).await?;
        if !reply.is("NOT_FOUND") {
            return Err(unexpected(&reply));
        }
        let reply = self.ask_one("stats".to_owned()).await?;
        let text = reply.text().ok_or_else(|| unexpected(&reply))?;
        let job_bytes: usize = stats::value(text, "max-job-size").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        self.batch_jobs = (BATCH_BYTES / job_bytes.max(1)).clamp(1, BATCH_JOBS);
        self.claim_jobs = claims::room(job_bytes)?;
        Ok(())
    }

    async fn look(&mut self) -> Done<Look> {
        self.survey().await
    }

    async fn replay(&mut self) -> Done<Vec<Claim>> {
        self.replay_next().await
    }

    async fn claim(&mut self, step: Step) -> Done<Vec<Claim>> {
        self.watch().await?;
        let ready = self.reserve_ready().await?;
        if !ready.is_empty() || step == Step::Follow {
            return self.bury(ready).await;
        }
        loop {
            let found = self.scan().await?;
            let is_empty = found.is_empty();
            let claims = self.bury(found).await?;
            if is_empty || !claims.is_empty() {
                return Ok(claims);
            }
        }
    }

    async fn wait(&mut self) -> Done {
        if self.wanted.is_empty() {
            tokio::time::sleep(LIST_EVERY).await;
            return Ok(());
        }
        let reply = self.ask_one(format!("reserve-with-timeout {}", LIST_EVERY.as_secs())).await?;
        self.first = reply.job();
        Ok(())
    }

    async fn done(&mut self, claims: &[Arc<str>]) -> Done {
        let (mut commands, mut ids) = (Commands::default(), Vec::new());
        for claim in claims {
            let Some(held) = self.held.remove(claim) else { continue };
            commands.add(format_args!("delete {}", held.id));
            ids.push(Some(held.id));
            if self.close(held.claim) {
                commands.add(format_args!("delete {}", held.claim));
                ids.push(None);
            }
        }
        for (id, reply) in ids.into_iter().zip(self.ask(&commands).await?) {
            if let Some(id) = id.filter(|_| !reply.is("DELETED")) {
                note!("the job {id} was kicked while it was taken: it may run twice");
            }
        }
        Ok(())
    }

    async fn put_back(&mut self, claims: &[Arc<str>]) -> Done {
        let mut commands = Commands::default();
        for claim in claims {
            let Some(ClaimedJob { claim, id, priority, due_here }) = self.held.remove(claim) else { continue };
            let left_s = due_here.map_or(0, |at| at.saturating_sub(crate::cli::time::now()).div_ceil(1_000));
            commands.add(format_args!("reserve-job {id}"));
            commands.add(format_args!("release {id} {priority} {left_s}"));
            if self.close(claim) {
                commands.add(format_args!("delete {claim}"));
            }
        }
        self.ask(&commands).await?;
        Ok(())
    }

    fn skip(&mut self, queue: &str) -> bool {
        if self.to.is_some() {
            return false;
        }
        self.skipped.insert(queue.to_owned());
        self.listed = None;
        self.tubes.is_empty() || !self.tubes.is_subset(&self.skipped)
    }
}
