//! The public side of [`crate::http`]'s mount: options, and a router for an application.

use crate::http::{HostName, ListenerConfig, Mount};
use duetime::{CancellationToken, Client, Error};
use duetime_core::Error as CoreError;
use std::path::PathBuf;

/// Returns a router with the dashboard and the HTTP API of the store that this client has in this process. Mount it in your axum
/// application at the root, or under a prefix with [`nest_service`](axum::Router::nest_service).
///
/// It requires no tokens: whoever reaches it may do everything, so put your application's authentication before it. See
/// [`RouterOptions`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = duetime::Client::open("jobs.db").await?;
/// let app = axum::Router::<()>::new().nest_service("/duetime", duetime_server::router(&client)?);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app).await?; // the dashboard is at http://127.0.0.1:8080/duetime/
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Invalid`](duetime::ErrorKind::Invalid) for a client of a server: the server has its own dashboard.
pub fn router(client: &Client) -> Result<axum::Router, Error> {
    RouterOptions::default().router(client)
}

/// The access rules of a [`router`], and the names under which it is reached.
///
/// A request whose `origin` is another site is refused, as by the server. So is one for another host name than localhost, an IP address
/// or a name of [`allow_host`](Self::allow_host): otherwise a web page that somebody visits could reach the router through their browser
/// (DNS rebinding). With [`tokens`](Self::tokens) any name is accepted, unless you name some.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they make a router"]
pub struct RouterOptions {
    tokens: Option<PathBuf>,
    hosts: Vec<String>,
    is_https: bool,
    stop: CancellationToken,
}

impl RouterOptions {
    /// Requires a token of this file with every request, as `duetime serve --tokens`; readers of the dashboard sign in with one. The file
    /// is read again when it changes. By default no token is required.
    pub fn tokens(mut self, file: impl Into<PathBuf>) -> Self {
        self.tokens = Some(file.into());
        self
    }

    /// Adds a host name, without a port, by which the application is reached, such as `shop.example`.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// States that the application is reached at `https://` addresses: cookies are then sent over TLS only. By default it is `http://`.
    pub fn https(mut self) -> Self {
        self.is_https = true;
        self
    }

    /// Sets the token that you cancel when the application begins to stop: requests that wait for jobs or events then end. A graceful stop of
    /// axum waits for them otherwise. By default they end with the store.
    pub fn stop(mut self, token: CancellationToken) -> Self {
        self.stop = token;
        self
    }

    /// Makes the router: see [`router`](fn@router). It keeps the store open as long as it lives, like a clone of the client.
    ///
    /// # Errors
    /// [`Invalid`](duetime::ErrorKind::Invalid) for a client of a server, for a malformed host name, and if the file of tokens cannot
    /// be read.
    pub fn router(self, client: &Client) -> Result<axum::Router, Error> {
        let Some((engine, runtime)) = client.engine() else {
            let expected = "a client with a store in this process; a server has its own dashboard, at its address";
            return Err(CoreError::invalid("client", expected, "a client of a server").into());
        };
        let host = |name: String| {
            let expected = "a host name without a port, such as shop.example";
            name.parse().map_err(|_| CoreError::invalid("allow_host", expected, format!("{name:?}")))
        };
        let hosts: Vec<HostName> = self.hosts.into_iter().map(host).collect::<Result<_, _>>()?;
        let config = ListenerConfig::of_mount(self.tokens, &hosts, self.is_https)
            .map_err(|error| CoreError::invalid("tokens", "a file of tokens", error))?;
        let mount = Mount::new((client, engine, runtime), config, self.stop);
        Ok(axum::Router::new().fallback_service(mount))
    }
}
