//! Connections to servers: plain, and with the feature `tls` encrypted.

use crate::client::connect_options::ConnectOptions;
use crate::error::Error;
use hyper_util::client::legacy::connect::HttpConnector;
use std::time::Duration;

/// Time limit for connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

#[cfg(not(feature = "tls"))]
pub(super) type Connector = HttpConnector;
#[cfg(feature = "tls")]
pub(super) type Connector = hyper_rustls::HttpsConnector<HttpConnector>;

/// Supported URL schemes.
#[cfg(not(feature = "tls"))]
pub(super) const SCHEMES: &[&str] = &["http"];
#[cfg(feature = "tls")]
pub(super) const SCHEMES: &[&str] = &["http", "https"];

/// Returns a connector that trusts the certificates named in the options.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid).
#[cfg(not(feature = "tls"))]
pub(super) fn connector(_options: &ConnectOptions) -> Result<Connector, Error> {
    Ok(plain())
}

/// Returns a connector that trusts the certificates named in the options.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid).
#[cfg(feature = "tls")]
pub(super) fn connector(options: &ConnectOptions) -> Result<Connector, Error> {
    let tls = crate::tls::client_config(options.root_certificates.as_deref())?;
    let mut plain = plain();
    plain.enforce_http(false);
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls);
    Ok(builder.https_or_http().enable_http1().wrap_connector(plain))
}

fn plain() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    connector
}
