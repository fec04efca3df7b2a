//! A look at a Redis that changes nothing: whether a server could use it.

use super::link::Link;
use super::{checks, url};
use duetime_core::{Error, Millis};

/// What was seen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProbeReport {
    /// The address, without user and password.
    pub place: String,
    /// Its version.
    pub version: String,
    /// What should be set otherwise.
    pub warnings: Vec<String>,
    /// What it can lose, and when.
    pub loss: String,
    /// Its clock.
    pub clock: Millis,
    /// Why no script may be run there, where none may.
    pub no_scripts: Option<String>,
}

/// Connects and looks.
///
/// # Errors
/// As [`Redis::connect`](super::Redis::connect).
pub async fn probe(address: &str) -> Result<ProbeReport, Error> {
    // Where another provider was installed before, that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let link = Link::new(&url::Address::parse(address)?)?;
    let fitness = checks::check(&link).await?;
    let mut reply = super::Reply::new(link.query(&redis::cmd("TIME")).await?)?;
    let (seconds, micros) = (reply.number()?, reply.number()?);
    let clock = u64::try_from(seconds * 1_000 + micros / 1_000).unwrap_or(0);
    let mut script = redis::cmd("EVAL");
    script.arg("return 1").arg(0);
    let no_scripts = link.query(&script).await.err().map(|error| error.to_string());
    let checks::Fitness { warnings, loss, version } = fitness;
    Ok(ProbeReport { place: link.place.clone(), version, warnings, loss, clock, no_scripts })
}
