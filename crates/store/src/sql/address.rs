//! The parts of an SQL server's URL that all servers have in common.

use duetime_core::{Error, Redacted};
use std::path::PathBuf;

const EXPECTED: &str = "a URL: mysql://[user[:password]@]host[:port]/database or postgres://[user[:password]@]host[:port]/database, \
     with [?sslmode=disable|require|verify-full][&sslrootcert=FILE]";

/// A URL, with the parts that all servers have in common parsed.
pub(super) struct Address {
    /// The URL without the parts parsed here.
    pub(super) url: String,
    pub(super) is_encrypted: bool,
    /// The root certificates to check against.
    pub(super) root: Option<PathBuf>,
    /// Without user and password.
    pub(super) shown: String,
}

impl Address {
    /// # Errors
    /// [`Error::Invalid`], without the password.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut address =
            Self { url: String::new(), is_encrypted: false, root: None, shown: Redacted(url).to_string() };
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => address.is_encrypted = false,
                // Certificates are always checked: encryption without authentication protects against nobody.
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => address.is_encrypted = true,
                Some(("sslmode", _)) => return Err(address.wrong("`sslmode` must be disable, require or verify-full")),
                Some(("sslrootcert", file)) => address.root = Some(PathBuf::from(file)),
                _ => rest.push(pair),
            }
        }
        address.url = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        Ok(address)
    }

    /// The error for a malformed URL.
    pub(super) fn wrong(&self, why: &str) -> Error {
        Error::invalid("ledger", EXPECTED, format!("{}: {why}", self.shown))
    }
}

/// The error if no kind of server is named.
pub(super) fn unknown(url: &str) -> Error {
    Error::invalid("ledger", EXPECTED, Redacted(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for url in ["postgres://me:secret@db/jobs?sslmode=require", "mysql://secret@db/jobs?password=secret"] {
            let address = Address::parse(url).unwrap();
            assert!(address.shown.contains("***@db/jobs"), "{}", address.shown);
            assert!(!address.shown.contains("secret") && !address.wrong("why").to_string().contains("secret"));
        }
    }
}
