//! Checks whether a server could use a Redis, without changing it.

use super::link::Link;
use super::reply::Reply;
use super::{checks, url};
use duetime_core::{Error, Millis};

/// The result of a probe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProbeReport {
    /// The address, without user and password.
    pub place: String,
    /// Its version.
    pub version: String,
    /// Settings that should be changed.
    pub warnings: Vec<String>,
    /// The data that it can lose, and when.
    pub loss: String,
    /// Its clock.
    pub clock: Millis,
    /// Why scripts cannot run there, if so.
    pub no_scripts: Option<String>,
}

/// Connects and probes.
///
/// # Errors
/// Same as [`Redis::connect`](super::Redis::connect).
pub async fn probe(address: &str) -> Result<ProbeReport, Error> {
    // If another provider was installed before, that one is fine, too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let link = Link::new(&url::Address::parse(address)?)?;
    let fitness = checks::check(&link).await?;
    let mut reply = Reply::new(link.query(&redis::cmd("TIME")).await?)?;
    let (seconds, micros) = (reply.number()?, reply.number()?);
    let clock = u64::try_from(seconds * 1_000 + micros / 1_000).unwrap_or(0);
    let mut script = redis::cmd("EVAL");
    script.arg("return 1").arg(0);
    let no_scripts = link.query(&script).await.err().map(|error| error.to_string());
    let checks::Fitness { warnings, loss, version } = fitness;
    Ok(ProbeReport { place: link.place.clone(), version, warnings, loss, clock, no_scripts })
}
