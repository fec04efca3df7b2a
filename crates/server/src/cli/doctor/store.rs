//! The store of the configuration: whether it exists, can be used, and has this version.

use super::finding::Finding;
use crate::cli::time::now;
use crate::serve;
use duetime_core::{Error, Millis};
use duetime_store::open::Spec;
use duetime_store::redis::Beside;
use duetime_store::sqlite::{self, FileState};
use duetime_store::{redis, sql};
use nix::unistd::{AccessFlags, access};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for the answer of a Redis or an SQL server.
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// The largest difference between clocks that is not reported.
const APART_MS_MAX: u64 = 1_000;

/// The results of the probe.
#[derive(Default)]
pub(super) struct StoreProbe {
    pub(super) findings: Vec<Finding>,
    pub(super) clocks: Clocks,
    /// The folder of a store file, and the file's size in bytes.
    pub(super) folder: Option<(PathBuf, u64)>,
}

/// Clocks that decide when jobs are due, each with its lead over this machine's clock when it was read.
#[derive(Default)]
pub(super) struct Clocks(Vec<(&'static str, i64)>);

impl Clocks {
    fn add(&mut self, name: &'static str, at: Millis) {
        let ahead = i128::from(at) - i128::from(now());
        self.0.push((name, i64::try_from(ahead).unwrap_or(i64::MAX)));
    }

    /// The findings about the clocks.
    pub(super) fn findings(&self) -> Vec<Finding> {
        const CHECK: &str = "clock";
        let advice = "set the clocks of all machines by NTP";
        let mut findings = Vec::new();
        for (name, ahead) in &self.0 {
            if ahead.unsigned_abs() > APART_MS_MAX {
                let which = if *ahead > 0 { "ahead of" } else { "behind" };
                let text = format!("the clock of {name} is {} ms {which} this machine's", ahead.unsigned_abs());
                findings.push(Finding::warning(CHECK, text, advice));
            }
        }
        if findings.is_empty() {
            let names: Vec<_> = ["this machine"].into_iter().chain(self.0.iter().map(|(name, _)| *name)).collect();
            findings.push(Finding::ok(CHECK, format!("{}: within {APART_MS_MAX} ms", names.join(", "))));
        }
        findings
    }
}

/// Looks at it; a server that answers may hold the file.
pub(super) async fn probe(args: &serve::Args, server: Option<String>) -> StoreProbe {
    let mut probed = StoreProbe::default();
    match args.store() {
        Spec::Memory => probed.findings.push(Finding::warning(
            "store",
            "jobs are kept only in memory, and are lost when the server stops",
            "use --store FILE if they must survive",
        )),
        Spec::File { path, .. } => file(&path, server.as_deref(), &mut probed),
        Spec::Redis { url, .. } => shared(&url, Beside::Nothing, &mut probed).await,
        Spec::Pair { broker, ledger, options } => {
            let mut of_ledger = StoreProbe::default();
            let seen = recorded(&ledger, options, &mut of_ledger).await;
            let beside = seen.as_ref().map_or(Beside::Unknown, |seen| Beside::Ledger(seen.name.as_deref()));
            shared(&broker, beside, &mut probed).await;
            probed.findings.append(&mut of_ledger.findings);
            probed.clocks.0.append(&mut of_ledger.clocks.0);
        }
    }
    probed
}

fn file(path: &Path, server: Option<&str>, probed: &mut StoreProbe) {
    const CHECK: &str = "store";
    let seen = match sqlite::probe(path) {
        Ok(seen) => seen,
        Err(error) => {
            let advice = "name a Duetime store with --store, or restore a backup";
            return probed.findings.push(Finding::problem(CHECK, error.to_string(), advice));
        }
    };
    let shown = seen.path.display();
    let folder = seen.path.parent().unwrap_or(Path::new("/")).to_owned();
    let mut found = Vec::new();
    match (seen.held_by, server) {
        (Some(pid), Some(url)) => {
            found.push(Finding::ok(CHECK, format!("{shown} is open in process {pid}, the server at {url}")));
        }
        (Some(pid), None) => found.push(Finding::warning(
            CHECK,
            format!("{shown} is open in process {pid}, and no server answers for it"),
            "name the address of that server with --server, or stop the process",
        )),
        (None, _) => {}
    }
    // The server that holds the file knows its log, and has been asked already.
    if seen.held_by.is_none() && seen.log_bytes > 0 {
        found.push(Finding::warning(
            CHECK,
            format!("{shown} was not closed cleanly: its newest changes are in its write-ahead log"),
            "leave the -wal file where it is: `duetime serve` recovers from it",
        ));
    }
    match seen.state {
        FileState::Nothing => {
            found.push(Finding::ok(CHECK, format!("{shown} does not exist yet: `duetime serve` creates it")));
        }
        FileState::InLog => {}
        FileState::Schema(schema) if schema < seen.schema_known => found.push(Finding::warning(
            CHECK,
            format!(
                "{shown} has schema {schema}; this version needs {} and migrates it at the next start",
                seen.schema_known
            ),
            "make a copy first with `duetime backup`: older versions cannot open it afterwards",
        )),
        FileState::Schema(schema) => {
            found.push(Finding::ok(CHECK, format!("{shown} has schema {schema}, which is current")));
            // A server that has it open compares them itself.
            if seen.held_by.is_none() && seen.log_bytes == 0 {
                found.push(match sqlite::verify(&seen.path) {
                    Ok(jobs) => Finding::ok(CHECK, format!("{shown} has every job that it counts: {jobs}")),
                    Err(error) => {
                        Finding::problem(CHECK, error.to_string(), "keep a copy, then restore a backup or salvage it")
                    }
                });
            }
        }
    }
    let may = |path: &Path, rights: AccessFlags| access(path, rights).is_ok();
    let writes = AccessFlags::R_OK | AccessFlags::W_OK;
    if !may(&folder, writes | AccessFlags::X_OK) || (seen.state != FileState::Nothing && !may(&seen.path, writes)) {
        let text = format!("this user may not write {shown} or to its folder {}", folder.display());
        found.push(Finding::problem(
            CHECK,
            text,
            "make the server's user the owner of the file and its folder (chown)",
        ));
    }
    probed.findings.extend(found);
    probed.folder = Some((folder, seen.bytes));
}

async fn shared(url: &str, beside: Beside<'_>, probed: &mut StoreProbe) {
    const CHECK: &str = "redis";
    let seen = match limited(redis::probe(url, beside)).await {
        Ok(seen) => seen,
        Err(error @ Error::Unusable(_)) => {
            let advice = "a server would not start with it: change --broker or --ledger";
            return probed.findings.push(Finding::problem(CHECK, error.to_string(), advice));
        }
        Err(error) => {
            let advice = "check --broker, and that Redis is running and reachable from here";
            return probed.findings.push(Finding::problem(CHECK, error.to_string(), advice));
        }
    };
    probed.clocks.add("Redis", seen.clock);
    let text = format!("{} answers, version {}; could lose {}", seen.place, seen.version, seen.loss);
    probed.findings.push(Finding::ok(CHECK, text));
    let of_clock = |warning: &&String| !warning.contains("the clock");
    probed.findings.extend(seen.warnings.iter().filter(of_clock).map(|text| Finding::of_warning(CHECK, text)));
    if let Some(why) = seen.no_scripts {
        let advice = "allow its user to run scripts: ACL SETUSER … +@all, or +eval +evalsha +script";
        probed.findings.push(Finding::problem(CHECK, format!("scripts cannot be run: {why}"), advice));
    }
}

/// The answer of the database, if its tables could be read.
async fn recorded(url: &str, options: sql::Options, probed: &mut StoreProbe) -> Option<sql::ProbeReport> {
    let sql::Options { migrates, may_lose, .. } = options;
    const CHECK: &str = "ledger";
    let seen = match limited(sql::probe(url, may_lose)).await {
        Ok(seen) => seen,
        Err(error) => {
            let advice =
                "check --ledger, its user and password, and that the database is running and reachable from here";
            probed.findings.push(Finding::problem(CHECK, error.to_string(), advice));
            return None;
        }
    };
    probed.clocks.add("the database", seen.clock);
    let (found, known) = (seen.schema.found, seen.schema.known);
    let text = format!("{} has schema {found}, this version needs {known}", seen.shown);
    probed.findings.push(match (found < known, migrates) {
        (false, _) => Finding::ok(CHECK, format!("{} answers; its schema {found} is current", seen.shown)),
        (true, false) => Finding::problem(CHECK, text, "run `duetime migrate`, since --no-migrate is given"),
        (true, true) if found == 0 => {
            Finding::ok(CHECK, format!("{} has no tables yet: `duetime serve` creates them", seen.shown))
        }
        (true, true) => Finding::warning(
            CHECK,
            format!("{text} and migrates it at the next start"),
            "make a backup of the database first",
        ),
    });
    if !seen.missing_rights.is_empty() {
        let text = format!("its user lacks the rights to {}", seen.missing_rights.join(", "));
        let advice = "grant them: see docs/internals/ledger.md, \"Tables\"";
        probed.findings.push(Finding::problem(CHECK, text, advice));
    }
    let is_readable = found == known && seen.missing_rights.is_empty();
    is_readable.then_some(seen)
}

async fn limited<T>(look: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Error::Unavailable(format!("no answer within {} s", TIME_LIMIT.as_secs()));
    tokio::time::timeout(TIME_LIMIT, look).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn clocks_that_lie_apart_are_told() {
        let clocks = Clocks(vec![("Redis", 900), ("the database", -61_000)]);
        let findings = clocks.findings();
        assert_eq!((findings.len(), findings[0].status), (1, Status::Warning));
        assert!(findings[0].finding.contains("the database is 61000 ms behind"), "{findings:?}");
        assert_eq!(Clocks(vec![("Redis", -900)]).findings()[0].status, Status::Ok);
    }
}
