//! Checks whether a server is suitable, and what this setup can lose.

use super::link::Link;
use super::reply::Reply;
use super::url::Address;
use duetime_core::Error;
use redis::{ToRedisArgs, Value};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The storage format; another one is refused.
pub(super) const FORMAT: u64 = 1;

/// The oldest supported Redis: it has `ZRANGE` and `SET` as used here, and scripts may read the time.
const VERSION_MIN: (u32, u32) = (6, 2);
/// Maximum offset between the clocks of this machine and of Redis before a warning.
const CLOCK_APART_S: u64 = 5;

/// Warnings about a suitable server.
#[derive(Clone, Debug)]
pub(super) struct Fitness {
    pub(super) warnings: Vec<String>,
    pub(super) loss: String,
    pub(super) version: String,
}

/// A server's report about itself.
struct Info(HashMap<String, String>);

impl Info {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Refuses an unsuitable server, and returns warnings.
pub(super) async fn check(link: &Link) -> Result<Fitness, Error> {
    let info = info(link).await?;
    check_version(info.get("redis_version").unwrap_or_default())?;
    let mut warnings = Vec::new();
    let is_kept = info.get("aof_enabled") == Some("1");
    if !is_kept {
        warnings.push("Redis has no AOF, so jobs are lost when it stops; set appendonly yes".to_owned());
    }
    match info.get("maxmemory_policy") {
        Some("noeviction") | None => {}
        Some(policy) => warnings.push(format!(
            "maxmemory-policy is {policy}, so Redis may evict jobs when memory runs short; set it to noeviction"
        )),
    }
    if info.get("cluster_enabled") == Some("1") && !link.is_cluster() {
        // A node of a Cluster would only serve keys in its own slots.
        return Err(Error::Unusable("this Redis is a node of a Cluster: use redis+cluster://".into()));
    }
    if info.get("role") == Some("slave") {
        return Err(Error::Unusable("this Redis is a read-only replica: use its master, or redis+sentinel://".into()));
    }
    if let Some(apart) = clocks_apart(link).await?.filter(|&apart| apart > CLOCK_APART_S) {
        warnings.push(format!(
            "the clocks of Redis and of this machine differ by {apart} s; due times use the clock of Redis; synchronize both \
             with NTP"
        ));
    }
    // `INFO` has this field only if `min-replicas-to-write` is set.
    if link.is_sentinel() && info.get("min_slaves_good_slaves").is_none() {
        warnings.push(
            "min-replicas-to-write is 0: after a failover, the old master can stay active for some seconds, and both hand \
             out jobs and locks; set min-replicas-to-write to 1 on all Redis servers"
                .into(),
        );
    }
    let version = info.get("redis_version").unwrap_or_default().to_owned();
    Ok(Fitness { warnings, loss: what_can_be_lost(link, &info), version })
}

fn what_can_be_lost(link: &Link, info: &Info) -> String {
    let fails_over =
        link.is_cluster() || link.is_sentinel() || info.get("connected_slaves").is_some_and(|count| count != "0");
    let alone = match (info.get("aof_enabled"), info.get("aof_fsync")) {
        (Some("1"), Some("always")) => "nothing when Redis stops (appendfsync always)",
        (Some("1"), Some("no")) => {
            "changes that its system has not written yet, often half a minute, when its machine stops (appendfsync no)"
        }
        (Some("1"), _) => "up to a second of changes when its machine stops (appendfsync everysec)",
        _ => "everything since its last snapshot, when Redis stops",
    };
    let over = if fails_over {
        "; and at a failover, changes that the master had not replicated yet, usually less than a second"
    } else {
        ""
    };
    format!("{alone}{over}")
}

fn check_version(version: &str) -> Result<(), Error> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found >= VERSION_MIN {
        return Ok(());
    }
    let (major, minor) = VERSION_MIN;
    Err(Error::Unusable(format!("Redis {major}.{minor} or later, or Valkey, is needed; this is Redis {version}")))
}

/// Servers' reports about their memory.
pub(super) async fn memory(link: &Link) -> Result<Vec<String>, Error> {
    let mut command = redis::cmd("INFO");
    command.arg("memory");
    Ok(texts(link.query(&command).await?))
}

/// The answer of each node.
fn texts(answer: Value) -> Vec<String> {
    match answer {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => vec![text],
        Value::Map(nodes) => nodes.into_iter().flat_map(|(_, info)| texts(info)).collect(),
        Value::Array(nodes) => nodes.into_iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The output of `INFO`, of any node if there are several.
async fn info(link: &Link) -> Result<Info, Error> {
    let mut said = HashMap::new();
    texts(link.query(&redis::cmd("INFO")).await?).iter().rev().for_each(|text| read(text, &mut said));
    // The sync policy, which `INFO` does not report.
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("appendfsync");
    if let Ok(Value::Map(pairs)) = link.query(&command).await
        && let Some((_, Value::BulkString(policy))) = pairs.into_iter().next()
    {
        said.insert("aof_fsync".into(), String::from_utf8_lossy(&policy).into_owned());
    }
    Ok(Info(said))
}

fn read(text: &str, said: &mut HashMap<String, String>) {
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':') {
            // A replica of a Cluster reports nothing about the masters.
            if name != "role" || value == "master" || !said.contains_key(name) {
                said.insert(name.to_owned(), value.trim().to_owned());
            }
        }
    }
}

async fn clocks_apart(link: &Link) -> Result<Option<u64>, Error> {
    let mut reply = Reply::new(link.query(&redis::cmd("TIME")).await?)?;
    let theirs = u64::try_from(reply.number()?).unwrap_or(0);
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    Ok(ours.map(|ours| ours.abs_diff(theirs)))
}

/// The value of a key, which is set to this if it is missing.
async fn kept(link: &Link, key: &str, wanted: impl ToRedisArgs) -> Result<Value, Error> {
    let get = redis::cmd("GET").arg(key).to_owned();
    let set = redis::cmd("SET").arg(key).arg(wanted).arg("NX").to_owned();
    loop {
        match link.query(&get).await? {
            Value::Nil => drop(link.query(&set).await?),
            found => return Ok(found),
        }
    }
}

/// The number of partitions of the namespace. A new namespace gets the number in the URL, or the default.
pub(super) async fn partitions(link: &Link, address: &Address) -> Result<u16, Error> {
    let key = super::keys::Keys::new(&address.namespace, 0).own("partitions");
    let wanted = address.partitions.unwrap_or_else(|| address.partitions_default());
    let found = kept(link, &key, wanted).await?;
    check_partitions(super::reply::number(&found)?, address)
}

/// Refuses a number of partitions that is not the one in the URL.
pub(super) fn check_partitions(found: i64, address: &Address) -> Result<u16, Error> {
    let found = u16::try_from(found).unwrap_or(0);
    match address.partitions {
        Some(wanted) if wanted != found => Err(Error::Unusable(format!(
            "the namespace {:?} was created with {found} partitions, which cannot be changed; the address asks for {wanted}",
            address.namespace
        ))),
        _ if (1..=1_024).contains(&found) => Ok(found),
        _ => Err(Error::Damaged(format!("the namespace {:?} has {found} partitions", address.namespace))),
    }
}

/// Stores the number of partitions of the namespace again if it is missing.
pub(super) async fn keep_partitions(link: &Link, keys: &super::keys::Keys) -> Result<(), Error> {
    let key = keys.own("partitions");
    kept(link, &key, keys.partitions()).await.map(drop)
}

/// Refuses jobs that do not belong to this ledger. Jobs that the ledger does not know would be lost, and jobs that another
/// ledger knows would run twice.
pub(super) async fn keep_side(link: &Link, keys: &super::keys::Keys, beside: Option<&str>) -> Result<(), Error> {
    let key = keys.own("ledger");
    let wanted = beside.unwrap_or(ALONE);
    let found = match kept(link, &key, wanted).await? {
        Value::BulkString(found) => found,
        found => return Err(Error::Damaged(format!("{key} in Redis holds {found:?}"))),
    };
    check_side(&String::from_utf8_lossy(&found), wanted)
}

/// Refuses jobs in the format of another version, by the beginning of their incarnation.
pub(super) fn check_format(incarnation: &str) -> Result<(), Error> {
    let format = incarnation.split(' ').next().unwrap_or("?");
    if format.parse() == Ok(FORMAT) {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "this namespace has jobs of format {format}, but this version reads {FORMAT}: use the version that wrote them, or \
         another namespace"
    )))
}

/// The side of a namespace without a ledger.
pub(super) const ALONE: &str = "none";

/// Refuses a namespace that is used with this ledger if another one is configured.
pub(super) fn check_side(found: &str, wanted: &str) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::Unusable(match (found, wanted) {
        (ALONE, _) => {
            "this Redis namespace has jobs without a ledger: leave out --ledger, or use another namespace (?namespace=…)"
                .into()
        }
        (_, ALONE) => {
            "this Redis namespace has jobs with a ledger: name that ledger (--ledger), or use another namespace"
                .into()
        }
        _ => "this Redis namespace has jobs of another ledger: name that one, or use another namespace (?namespace=…)"
            .into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_by_its_version() {
        for fit in ["6.2.0", "7.0.15", "8.0.1", "10.1"] {
            check_version(fit).unwrap();
        }
        for old in ["6.0.16", "5.0.7", "", "x"] {
            let error = check_version(old).unwrap_err().to_string();
            assert!(error.contains("6.2") && error.contains(old), "{error}");
        }
    }
}
