//! Where PostgreSQL is: what a URL says.

use crate::place;
use duetime_core::Error;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

const EXPECTED: &str = "postgres://[user[:password]@]host[:port]/database[?sslmode=disable|require|verify-full]\
    [&sslrootcert=FILE]";
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long what was sent may stay unacknowledged.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A URL, read.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) is_encrypted: bool,
    root: Option<PathBuf>,
    /// Without user and password.
    pub(super) shown: String,
}

impl Address {
    /// # Errors
    /// [`Error::Invalid`], without the password.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let shown = place::masked(url);
        let wrong = |why: &str| Error::invalid("ledger", EXPECTED, format!("{shown}: {why}"));
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(wrong("an unknown scheme"));
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut is_encrypted, mut root, mut rest) = (false, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => is_encrypted = false,
                // Certificates are always checked: what encrypts for anybody protects from nobody.
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => is_encrypted = true,
                Some(("sslmode", _)) => return Err(wrong("`sslmode` is disable, require or verify-full")),
                Some(("sslrootcert", file)) => root = Some(PathBuf::from(file)),
                _ => rest.push(pair),
            }
        }
        let place = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        let mut config: Config = place.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            wrong(&why)
        })?;
        if config.get_hosts().is_empty() {
            return Err(wrong("no host"));
        }
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        config.connect_timeout(CONNECT_MAX).tcp_user_timeout(SILENCE_MAX).keepalives_idle(SILENCE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("duetime");
        }
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config, is_encrypted, root, shown })
    }

    /// How connections are encrypted.
    ///
    /// # Errors
    /// [`Error::Unusable`] where the root cannot be read.
    pub(super) fn tls(&self) -> Result<ClientConfig, Error> {
        let mut roots = RootCertStore::empty();
        match &self.root {
            Some(file) => {
                let unusable = |error: &dyn std::fmt::Display| {
                    Error::Unusable(format!("`sslrootcert` {} cannot be read as PEM: {error}", file.display()))
                };
                for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
                    let certificate = certificate.map_err(|error| unusable(&error))?;
                    roots.add(certificate).map_err(|error| unusable(&error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| Error::Unusable(format!("TLS cannot be set up: {error}")))?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let plain = Address::parse("postgres://me:secret@db.example:5433/jobs?application_name=shop").unwrap();
        assert!(!plain.is_encrypted);
        assert_eq!(plain.shown, "postgres://…@db.example:5433/jobs");
        assert_eq!(plain.config.get_dbname(), Some("jobs"));
        assert_eq!(plain.config.get_application_name(), Some("shop"));
        let tls = Address::parse("postgresql://me@db/jobs?sslmode=verify-full&sslrootcert=/etc/root.pem").unwrap();
        assert!(tls.is_encrypted && tls.root.is_some());
        assert_eq!(tls.tls().unwrap_err().code(), "store_unusable");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "localhost",
            "mysql://u:secret@a/b",
            "postgres://u:secret@a/b?sslmode=prefer",
            "postgres://u:secret@a/b?nonsense=1",
            "postgres://u:secret@a:port/b",
        ] {
            let Err(error) = Address::parse(url) else { panic!("{url}") };
            let error = error.to_string();
            assert!(!error.contains("secret") && error.contains("sslrootcert"), "{error}");
        }
    }
}
