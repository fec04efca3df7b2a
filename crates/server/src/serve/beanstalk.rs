//! The beanstalkd protocol: beside HTTP, or alone (`duetime beanstalk`).

use super::args::Args as ServeArgs;
use super::error::Error;
use super::instance::Instance;
use super::size::RequestsSize;
use super::supervise::{STOP_AFTER_FAULT_MAX, stop_signal, supervised};
use crate::account;
use crate::beanstalk::{Address, Door, Listener, serve};
use crate::descriptors::Descriptors;
use crate::engine_options::engine_options;
use crate::http::{self, ListenerConfig};
use crate::log;
use crate::signals::Signals;
use duetime_core::api::Span;
use duetime_core::engine::{Ending, Options, Query};
use duetime_core::limits::{PAGE_JOBS_MAX, PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX, SECOND_MS};
use duetime_core::ports::Retention;
use duetime_core::{Engine, Error as CoreError, State, States};
use duetime_store::open::{Spec, open};
use duetime_store::sqlite::Durability;
use nix::sys::signal::Signal;
use nix::unistd::{User, initgroups, setgid, setuid};
use std::ffi::CString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// How long deleted jobs are kept: they cannot be seen over HTTP here, and there may be 100,000 a second, with their bodies.
const SUCCEEDED_KEPT_MS: u64 = SECOND_MS;
/// The file in the folder of `-b`.
const FILE: &str = "duetime.db";

/// Run a server for the beanstalkd protocol, with beanstalkd's flags.
///
/// Jobs are kept in a file in the folder of -b; without -b, in memory. For the dashboard and HTTP as well, use `duetime
/// serve --beanstalk ADDRESS`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    args_override_self = true,
    after_help = "Examples:
  duetime beanstalk -b /var/lib/duetime
  duetime beanstalk -l unix:/run/duetime/beanstalk.sock"
)]
pub(crate) struct Args {
    /// Keep jobs in this folder, created if it does not exist
    #[arg(short = 'b', value_name = "DIR")]
    folder: Option<PathBuf>,
    /// 0 to 49: write to disk before each reply; 50 or more: within 50 ms [default: 0]
    #[arg(short = 'f', value_name = "MS", conflicts_with = "never_syncs")]
    sync_every_ms: Option<u64>,
    /// Let the operating system decide when to write to disk
    #[arg(short = 'F')]
    never_syncs: bool,
    /// Listen on this address or host name, or on unix:PATH
    #[arg(short = 'l', value_name = "ADDR", default_value = "127.0.0.1")]
    listen: String,
    /// Listen on this port
    #[arg(short = 'p', value_name = "PORT", default_value_t = 11_300)]
    port: u16,
    /// Switch to this user and its groups
    #[arg(short = 'u', value_name = "USER")]
    user: Option<String>,
    /// Maximum body of a job, in bytes
    #[arg(short = 'z', value_name = "BYTES", default_value_t = crate::beanstalk::JOB_BYTES_DEFAULT)]
    job_bytes_max: u32,
    /// Ignored: there are no files of a fixed size
    #[arg(short = 's', value_name = "BYTES")]
    file_bytes: Option<u64>,
    /// Ignored: there is no log to compact
    #[arg(short = 'c')]
    compacts: bool,
    /// Ignored: there is no log to compact
    #[arg(short = 'n')]
    never_compacts: bool,
    /// Print the version and exit
    #[arg(short = 'v')]
    version: bool,
    /// Log more; repeat for even more
    #[arg(short = 'V', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print help
    #[arg(short = 'h', long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Require a token from this file: each client's first command must be `auth TOKEN`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Certificate chain (PEM) to offer TLS on the same port
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Maximum number of open connections; at most half of them from one address
    #[arg(long, value_name = "NUMBER", default_value = "16384")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    connections_max: u32,
}

impl Args {
    fn address(&self) -> Result<Address, Error> {
        if self.listen.starts_with("unix:") {
            return self.listen.parse().map_err(Error::Options);
        }
        let bare = self.listen.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&self.listen);
        // If a name has both kinds of address, old clients try IPv4.
        let found = (bare, self.port).to_socket_addrs().ok().and_then(|found| found.min_by_key(SocketAddr::is_ipv6));
        found.map(Address::Tcp).ok_or_else(|| {
            let expected = "-l must be an IP address, a host name or unix:PATH; the port is -p";
            Error::Options(format!("{expected}, got {:?}", self.listen))
        })
    }

    fn store(&self) -> Result<Spec, Error> {
        let Some(folder) = &self.folder else { return Ok(Spec::Memory) };
        std::fs::create_dir_all(folder).map_err(|error| {
            Error::Options(format!("the folder {} of -b cannot be created or written: {error}", folder.display()))
        })?;
        let durability = match (self.never_syncs, self.sync_every_ms.unwrap_or(0)) {
            (true, _) => Durability::None,
            (false, 0..50) => Durability::Commit,
            (false, _) => Durability::Interval,
        };
        Ok(Spec::File { path: folder.join(FILE), durability, inbox: None })
    }

    /// The listener's options. As for beanstalkd, the operator alone decides whether others can reach the address.
    fn http(&self) -> http::Args {
        http::Args {
            tokens: self.tokens.clone(),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            audit_log: None,
            connections_max: self.connections_max,
            requests_memory_max: RequestsSize(account::BYTES_DEFAULT),
            allow_remote: true,
            no_dashboard: true,
            allow_host: Vec::new(),
        }
    }
}

/// Serves the protocol alone until the process gets a signal to stop.
pub(crate) async fn run(args: Args) -> Result<(), Error> {
    if args.version {
        let line = format!("duetime {}\n", env!("CARGO_PKG_VERSION"));
        return Ok(std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())?);
    }
    let level = ["warn", "info", "debug", "trace"][usize::from(args.verbose).min(3)];
    let name = Instance::of_process();
    log::of_server(EnvFilter::new(level), log::Format::Text, name.name());
    check_bytes(args.job_bytes_max, PAYLOAD_BYTES_MAX, "-z")?;
    let address = args.address()?;
    let listen = if let Address::Tcp(address) = address { address } else { SocketAddr::from(([127, 0, 0, 1], 0)) };
    let mut config = ListenerConfig::new(&args.http(), listen)?;
    config.connections_max = Descriptors::share_out(1, config.connections_max)?.connections;
    if !listen.ip().is_loopback() && !config.asks_for_tokens() {
        tracing::warn!(%address, "anyone who reaches this address can do anything with your jobs: no tokens are required");
    }
    let listener = bind(&address).await?;
    let address = listener.address()?;
    if let Some(user) = &args.user {
        become_user(user)?;
    }
    let stop = stop_signal()?;
    let opened = open(args.store()?).await?;
    let options = Options {
        payload_bytes_max: PAYLOAD_BYTES_DEFAULT.max(args.job_bytes_max as usize),
        retention: Retention { succeeded: Span(SUCCEEDED_KEPT_MS), ..Retention::default() },
        ..engine_options()
    };
    let engine = Engine::start(opened.stores.clone(), options).await?;
    give_back_all(&engine).await?;
    tracing::info!("listening on {address}; store {}; could lose {}", opened.name, opened.loss);
    let setup = Setup { listener: Some(listener), job_bytes_max: args.job_bytes_max };
    let talking = setup.run(engine.clone(), config.clone(), stop.clone())?;
    let work = async {
        tokio::select! {
            () = talking => {}
            () = config.watch(&engine) => {}
        }
    };
    let served = supervised(work, engine.fault(), &stop).await;
    let stopped = tokio::time::timeout(STOP_AFTER_FAULT_MAX, engine.stop()).await;
    served.map_err(Error::Fault)?;
    stopped.map_or(Ok(()), |stopped| Ok(stopped?))
}

/// The holders of earlier leases are gone with the previous process: no other process serves this store.
async fn give_back_all(engine: &Engine) -> Result<(), CoreError> {
    let query = Query { state: States { states: vec![State::Running], retrying: false }, ..Query::default() };
    let mut cursor: Option<String> = None;
    loop {
        let found = engine.find(&query, cursor.as_deref(), PAGE_JOBS_MAX).await?;
        let back = found.jobs.iter().map(|job| (job.receipt(), Ending::Abandoned)).collect();
        for ended in engine.end_leases(back).await {
            match ended {
                Ok(_) | Err(CoreError::LeaseLost(_)) => {}
                Err(error) => return Err(error),
            }
        }
        cursor = found.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// Switches to another user, who owns the files and all that is created later.
fn become_user(name: &str) -> Result<(), Error> {
    let failed = |error: nix::Error| Error::Options(format!("cannot switch to the user {name:?} of -u: {error}"));
    let user = User::from_name(name).map_err(failed)?;
    let user = user.ok_or_else(|| Error::Options(format!("-u must name a user of this machine, got {name:?}")))?;
    let text = CString::new(name).map_err(|_| failed(nix::Error::EINVAL))?;
    initgroups(&text, user.gid).map_err(failed)?;
    setgid(user.gid).map_err(failed)?;
    setuid(user.uid).map_err(failed)
}

async fn bind(address: &Address) -> Result<Listener, Error> {
    Listener::bind(address).await.map_err(|error| Error::ListenBeanstalk { address: address.clone(), error })
}

fn check_bytes(bytes: u32, bytes_max: usize, option: &str) -> Result<(), Error> {
    if bytes as usize > bytes_max {
        return Err(Error::Options(format!("{option} must be at most {bytes_max} bytes, got {bytes}")));
    }
    Ok(())
}

/// Checks the options of `serve`.
pub(super) fn check(args: &ServeArgs) -> Result<(), Error> {
    let bytes_max = args.payload_max.0;
    if args.beanstalk.beanstalk.is_some() {
        check_bytes(args.beanstalk.beanstalk_job_max, bytes_max, "--beanstalk-job-max, within --payload-max,")?;
    }
    match args.beanstalk.beanstalk {
        Some(Address::Tcp(address))
            if !address.ip().is_loopback() && args.http.tokens.is_none() && !args.http.allow_remote =>
        {
            Err(Error::Http(http::Error::Remote(address)))
        }
        _ => Ok(()),
    }
}

/// The listener of the protocol beside HTTP, if it is enabled.
pub(super) struct Setup {
    listener: Option<Listener>,
    job_bytes_max: u32,
}

impl Setup {
    pub(super) async fn new(args: &ServeArgs) -> Result<Self, Error> {
        check(args)?;
        let listener = match &args.beanstalk.beanstalk {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Self { listener, job_bytes_max: args.beanstalk.beanstalk_job_max })
    }

    /// The address of the listener.
    pub(super) fn address(&self) -> Result<Option<Address>, Error> {
        Ok(self.listener.as_ref().map(Listener::address).transpose()?)
    }

    /// Speaks it until the end. SIGUSR1 has it take no more jobs.
    pub(super) fn run(
        self,
        engine: Engine,
        config: ListenerConfig,
        stop: CancellationToken,
    ) -> Result<impl Future<Output = ()>, Error> {
        let drains = self.listener.is_some().then(|| Signals::listen(&[Signal::SIGUSR1])).transpose()?;
        Ok(async move {
            let (Some(listener), Some(mut drains)) = (self.listener, drains) else { return };
            let door: Arc<Door> = Door::new(engine, &config, self.job_bytes_max, stop);
            let draining = async {
                loop {
                    drains.next().await;
                    tracing::info!("SIGUSR1: draining; no more jobs are accepted over the beanstalkd protocol");
                    door.drain();
                }
            };
            tokio::select! {
                () = serve(listener, door.clone(), config) => {}
                () = draining => {}
            }
        })
    }
}
