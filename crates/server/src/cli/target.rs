//! The store of a command's jobs: a server, Redis, or a store file.

use super::exit::{Failure, Result};
use crate::engine_options::engine_options;
use duetime::{Client, ConnectOptions, OpenOptions, Token};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The default URL of a server.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:7300";
/// Names the server if no option does.
const SERVER_ENV: &str = "DUETIME_SERVER";
/// Names the ledger beside a Redis if no option does.
const LEDGER_ENV: &str = "DUETIME_LEDGER";
/// Holds the token for that server; no option does, since others see the options of a process.
const TOKEN_ENV: &str = "DUETIME_TOKEN";
/// Names the file of the token if no option does.
const TOKEN_FILE_ENV: &str = "DUETIME_TOKEN_FILE";
/// Names the root certificate if no option does.
const CA_ENV: &str = "DUETIME_CA";
/// How often it is checked whether a store is loaded.
const LOOK: Duration = Duration::from_millis(1);
/// The store that is no file.
pub(crate) const MEMORY: &str = "memory";

/// The client of the one command that a process runs.
static CLIENT: OnceLock<Client> = OnceLock::new();

/// The server or Redis.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Server {
    /// Server, or Redis to use directly (redis://…) [env: DUETIME_SERVER] [default: http://127.0.0.1:7300]
    #[arg(long, value_name = "URL", help_heading = "Where the jobs are", display_order = 900)]
    server: Option<String>,
    /// Database beside that Redis (mysql://… or postgres://…) [env: DUETIME_LEDGER]
    #[arg(long, value_name = "URL", help_heading = "Where the jobs are", display_order = 902)]
    ledger: Option<String>,
    /// File with the token for the server [env: DUETIME_TOKEN_FILE, or the token itself in DUETIME_TOKEN]
    #[arg(long, value_name = "FILE", help_heading = "Where the jobs are", display_order = 903)]
    token_file: Option<PathBuf>,
    /// Additional root certificate (PEM) to trust for https:// servers [env: DUETIME_CA]
    #[arg(long, value_name = "FILE", help_heading = "Where the jobs are", display_order = 904)]
    ca: Option<PathBuf>,
}

/// Options that every command has.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Store file to use directly; no server may have it open
    #[arg(long, value_name = "PATH", conflicts_with_all = ["server", "ledger", "token_file", "ca"])]
    #[arg(help_heading = "Where the jobs are", display_order = 901)]
    pub(crate) store: Option<PathBuf>,
    /// Print JSON, as the HTTP API returns it
    #[arg(long, display_order = 905)]
    pub(crate) json: bool,
}

impl Target {
    /// The client of this command, which ends with the process; a store file must be there.
    pub(crate) async fn client(&self) -> Result<&'static Client> {
        if let Some(path) = self.store.as_deref().filter(|path| !path.exists()) {
            return Err(Failure::error(format!("there is no store at {}", path.display()))
                .hint("check the path; `duetime push --store PATH` creates a store"));
        }
        self.client_of_new().await
    }

    /// The same; a missing store file is created.
    pub(crate) async fn client_of_new(&self) -> Result<&'static Client> {
        let client = self.open().await?;
        Ok(CLIENT.get_or_init(|| client))
    }

    /// A client, to be closed.
    pub(crate) async fn open(&self) -> Result<Client> {
        match &self.store {
            Some(path) if path == Path::new(MEMORY) => {
                Err(Failure::usage("--store memory would be lost when this command ends")
                    .hint("start `duetime serve --store memory`, and run this command without --store"))
            }
            Some(path) => {
                let client = Client::open_with(path, OpenOptions::default().engine(engine_options())).await?;
                loaded(&client).await?;
                Ok(client)
            }
            None => self.connect().await,
        }
    }

    async fn connect(&self) -> Result<Client> {
        let address = self.address();
        let mut options = ConnectOptions::default();
        options.engine = engine_options();
        if address.starts_with("redis") {
            options.ledger = self.ledger();
        } else if self.server.ledger.is_some() {
            return Err(Failure::usage(format!("--ledger needs the Redis beside it: --server is {address}"))
                .hint("use --server redis://…, or leave out --ledger: a server knows its own"));
        } else {
            options.token = self.token()?;
            options.root_certificates = self.server.ca.clone().or_else(|| named(CA_ENV).map(PathBuf::from));
        }
        Ok(Client::connect_with(&address, options).await?)
    }

    /// The token for the server, if one is given.
    fn token(&self) -> Result<Option<Token>> {
        let file = self.server.token_file.clone();
        if file.is_none()
            && let Some(token) = named(TOKEN_ENV)
        {
            return Ok(Some(token.parse()?));
        }
        let Some(file) = file.or_else(|| named(TOKEN_FILE_ENV).map(PathBuf::from)) else { return Ok(None) };
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Failure::error(format!("cannot read the token file {}: {error}", file.display())))?;
        Ok(Some(text.parse()?))
    }

    /// The ledger's address, if one is given.
    pub(crate) fn ledger(&self) -> Option<String> {
        self.server.ledger.clone().or_else(|| named(LEDGER_ENV))
    }

    /// Whether the jobs are those of a server, and not of a store.
    pub(crate) fn is_server(&self) -> bool {
        self.store.is_none() && !self.address().starts_with("redis")
    }

    /// Refuses a server, for commands that work only on a store.
    pub(crate) fn check_is_store(&self) -> Result {
        if !self.is_server() {
            return Ok(());
        }
        let address = self.address();
        Err(Failure::usage(format!("this command works on a store, not on the server {address}: use --store FILE or --server \
         redis://…")).hint(
            "name the store of that server; if it is a file that the server has open, copy it with `duetime backup` first",
        ))
    }

    /// The server's address.
    pub(crate) fn address(&self) -> String {
        self.server.server.clone().or_else(|| named(SERVER_ENV)).unwrap_or_else(|| SERVER_DEFAULT.to_owned())
    }
}

/// Closes the client of the command, if it opened one.
pub(crate) async fn close() -> Result {
    match CLIENT.get() {
        Some(client) => Ok(client.close().await?),
        None => Ok(()),
    }
}

/// Rejects variables that are not valid UTF-8. If they were ignored, a command would use the wrong server, or no token.
pub(crate) fn check_variables() -> Result {
    let variables = [SERVER_ENV, LEDGER_ENV, TOKEN_ENV, TOKEN_FILE_ENV, CA_ENV];
    let is_no_text = |name: &&&str| std::env::var_os(name).is_some_and(|value| value.to_str().is_none());
    match variables.iter().find(is_no_text) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!("the variable {name} is not valid UTF-8"))),
    }
}

/// The value of a variable, if it is set and not empty.
fn named(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|url| !url.is_empty())
}

/// Waits until all jobs that are due soon are loaded, so that none is missed. If the loading fails, goes on with those that
/// are loaded.
pub(crate) async fn loaded(client: &Client) -> Result {
    loop {
        let health = client.health().await?;
        if health.is_loaded || !health.degraded.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}
