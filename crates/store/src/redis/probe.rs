//! Checks whether a server could use a Redis, without changing it.

use super::keys::Keys;
use super::link::Link;
use super::reply::{self, Reply};
use super::{checks, url};
use duetime_core::{Error, Millis};
use redis::Value;

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

/// What Redis is used beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beside<'a> {
    /// Nothing: it is its own ledger.
    Nothing,
    /// A ledger that has this name; `None` if it has none yet.
    Ledger(Option<&'a str>),
    /// A ledger that could not be asked for its name.
    Unknown,
}

/// Connects and probes.
///
/// # Errors
/// Same as [`Redis::connect`](super::Redis::connect).
pub async fn probe(address: &str, beside: Beside<'_>) -> Result<ProbeReport, Error> {
    // If another provider was installed before, that one is fine, too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let address = url::Address::parse(address)?;
    let link = Link::new(&address)?;
    let fitness = checks::check(&link).await?;
    check_namespace(&link, &address, beside).await?;
    let mut reply = Reply::new(link.query(&redis::cmd("TIME")).await?)?;
    let (seconds, micros) = (reply.number()?, reply.number()?);
    let clock = u64::try_from(seconds * 1_000 + micros / 1_000).unwrap_or(0);
    let mut script = redis::cmd("EVAL");
    script.arg("return 1").arg(0);
    let no_scripts = link.query(&script).await.err().map(|error| error.to_string());
    let checks::Fitness { warnings, loss, version } = fitness;
    Ok(ProbeReport { place: link.place.clone(), version, warnings, loss, clock, no_scripts })
}

/// Refuses a namespace that a server would refuse. One that does not exist yet is not created.
async fn check_namespace(link: &Link, address: &url::Address, beside: Beside<'_>) -> Result<(), Error> {
    let keys = Keys::new(&address.namespace, 1);
    let get = async |key: &str| link.query(redis::cmd("GET").arg(key)).await;
    match get(&keys.own("partitions")).await? {
        Value::Nil => return Ok(()),
        found => checks::check_partitions(reply::number(&found)?, address).map(drop)?,
    }
    if let Value::BulkString(found) = get(&keys.own("ledger")).await? {
        let found = String::from_utf8_lossy(&found);
        match beside {
            Beside::Nothing => checks::check_side(&found, checks::ALONE)?,
            // A ledger without a name is not the one that this namespace has.
            Beside::Ledger(name) => checks::check_side(&found, name.unwrap_or_default())?,
            Beside::Unknown if found == checks::ALONE => checks::check_side(&found, "")?,
            Beside::Unknown => {}
        }
    }
    match get(&keys.of(0, "incarnation")).await? {
        Value::BulkString(found) => checks::check_format(&String::from_utf8_lossy(&found)),
        _ => Ok(()),
    }
}
