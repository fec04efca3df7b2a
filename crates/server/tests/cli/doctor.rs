//! `duetime doctor`, on healthy and on broken setups.

use crate::cli::ledger::{Sql, USER};
use crate::cli::server::Server;
use crate::cli::support::{Place, Ran, finish};
use duetime_store::testing::RedisServer;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

fn run(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = place.bare(&[&["doctor", "--json"], more].concat());
    command.envs(variables.iter().copied());
    finish(command, b"")
}

/// The findings, and whether all is well.
fn doctor(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> (Vec<Value>, bool) {
    // With port 0 no server of this machine is asked.
    let ran = run(place, more, &[&[("DUETIME_LISTEN", "127.0.0.1:0")], variables].concat());
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let is_well = document["ok"].as_bool().unwrap();
    assert_eq!(ran.code, i32::from(!is_well), "{ran:?}");
    let findings = document["findings"].as_array().unwrap().clone();
    for finding in &findings {
        assert_eq!(finding["status"] == "ok", finding["advice"].is_null(), "advice for what is not well: {finding}");
    }
    (findings, is_well)
}

#[track_caller]
fn has(findings: &[Value], check: &str, status: &str, words: &str) {
    let is_it = |finding: &&Value| {
        let texts = format!("{} {}", finding["finding"], finding["advice"]);
        finding["check"] == check && finding["status"] == status && texts.contains(words)
    };
    assert!(findings.iter().any(|finding| is_it(&finding)), "no {status} of {check} with {words:?}: {findings:#?}");
}

/// The files of a folder, with their sizes.
fn files(place: &Place) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(place.path("")).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect();
    files.sort();
    files
}

#[test]
fn a_new_set_up_is_well_and_nothing_is_made() {
    let place = Place::new();
    let (findings, is_well) = doctor(&place, &[], &[]);
    assert!(is_well && files(&place).is_empty(), "{findings:?}");
    has(&findings, "configuration", "ok", "no file");
    has(&findings, "store", "ok", "does not exist yet");
    has(&findings, "server", "ok", "--listen has port 0");
    for check in ["clock", "limits", "disk", "time zones"] {
        assert!(findings.iter().any(|finding| finding["check"] == check), "{check}");
    }
    let (findings, _) = doctor(&place, &["--store", "memory"], &[]);
    has(&findings, "store", "warning", "memory");
}

#[test]
fn a_store_is_judged_by_its_head_and_left_alone() {
    let place = Place::new();
    place.push(&["x"]);
    let before = files(&place);
    let (findings, is_well) = doctor(&place, &["--store", "test.db"], &[]);
    assert!(is_well && files(&place) == before, "{findings:?}");
    has(&findings, "store", "ok", "is current");
    std::fs::write(place.path("wrong.db"), "x".repeat(500)).unwrap();
    let (findings, is_well) = doctor(&place, &[], &[("DUETIME_STORE", "wrong.db")]);
    assert!(!is_well);
    has(&findings, "store", "problem", "is not an SQLite file");
    let (findings, _) = doctor(&place, &["--store", "none/here.db"], &[]);
    has(&findings, "store", "problem", "does not exist");
    // Of a newer version. There is no older one yet.
    let version = |number: u32| {
        let mut bytes = std::fs::read(place.path("test.db")).unwrap();
        bytes[60..64].copy_from_slice(&number.to_be_bytes());
        std::fs::write(place.path("other.db"), bytes).unwrap();
        doctor(&place, &["--store", "other.db"], &[]).0
    };
    has(&version(99), "store", "problem", "newer than this program");
}

#[test]
fn a_store_without_rights_is_told() {
    if nix::unistd::geteuid().is_root() {
        // Root may write everywhere.
        return;
    }
    let place = Place::new();
    place.push(&["x"]);
    std::fs::set_permissions(place.path("test.db"), std::fs::Permissions::from_mode(0o400)).unwrap();
    has(&doctor(&place, &["--store", "test.db"], &[]).0, "store", "problem", "may not write");
}

#[test]
fn a_store_that_is_held_is_asked_over_its_server() {
    let server = Server::start();
    let pid = server.child.as_ref().unwrap().id().to_string();
    let (findings, is_well) = doctor(&server.place, &["--store", "test.db"], &[("DUETIME_SERVER", &server.url)]);
    assert!(is_well, "{findings:?}");
    has(&findings, "store", "ok", &format!("is open in process {pid}, the server at"));
    has(&findings, "server", "ok", "the server hands out jobs");
    has(&findings, "server", "ok", env!("CARGO_PKG_VERSION"));
    let (findings, is_well) = doctor(&server.place, &["--store", "test.db"], &[]);
    assert!(is_well);
    has(&findings, "store", "warning", &format!("is open in process {pid}, and no server answers"));
    let (findings, is_well) = doctor(&server.place, &["--server", "http://127.0.0.1:1"], &[]);
    assert!(!is_well);
    has(&findings, "server", "problem", "duetime serve");
    // It has blocked nobody.
    server.push(&["x"]);
}

#[test]
fn a_store_whose_server_was_killed_is_not_taken_for_another_s() {
    let mut server = Server::start();
    server.push(&["x"]);
    let mut child = server.child.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (findings, is_well) = doctor(&server.place, &["--store", "test.db"], &[]);
    assert!(is_well && !format!("{findings:?}").contains("is open in process"), "{findings:?}");
    has(&findings, "store", "warning", "`duetime serve` recovers from it");
}

#[test]
fn a_configuration_that_would_be_refused_is_told_in_full() {
    let place = Place::new();
    std::fs::write(place.path("duetime.toml"), "liten = 1\nhorizon = \"soon\"\nallow_remote = false\n").unwrap();
    let (findings, is_well) = doctor(&place, &["--listen", "0.0.0.0:0"], &[]);
    assert!(!is_well);
    for words in ["did you mean `listen`?", "`horizon` in duetime.toml, line 2", "other machines can reach"] {
        has(&findings, "configuration", "problem", words);
    }
    let ran = finish(place.bare(&["doctor"]), b"");
    assert!(ran.code == 1 && ran.out.contains("problem") && ran.out.contains("-> correct it"), "{ran:?}");
}

#[test]
fn limits_and_time_zones_are_compared() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    let line = format!("ulimit -n 64; exec {} doctor --json --listen 127.0.0.1:0", env!("CARGO_BIN_EXE_duetime"));
    command.args(["-c", &line]).current_dir(place.path("")).env("TZDIR", place.path(""));
    let ran = finish(command, b"");
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(ran.code, 0);
    has(findings, "limits", "warning", "ulimit -n");
    has(findings, "time zones", "warning", "tzdata");
}

#[test]
fn redis_is_judged_by_its_settings_and_rights() {
    let place = Place::new();
    let redis = RedisServer::with(&["--maxmemory-policy", "allkeys-lru"]);
    let (findings, is_well) = doctor(&place, &["--broker", &redis.url()], &[]);
    assert!(is_well, "{findings:?}");
    has(&findings, "redis", "ok", "answers, version");
    has(&findings, "redis", "warning", "set appendonly yes");
    has(&findings, "redis", "warning", "noeviction");
    has(&findings, "clock", "ok", "Redis: within");
    assert_eq!(redis.command(&["DBSIZE"]), "0", "nothing was written");
    redis.command(&["ACL", "SETUSER", "poor", "on", ">hush", "~*", "+@all", "-eval"]);
    let url = format!("redis://poor:hush@127.0.0.1:{}", redis.port());
    let (findings, is_well) = doctor(&place, &["--broker", &url], &[]);
    assert!(!is_well && !format!("{findings:?}").contains("hush"));
    has(&findings, "redis", "problem", "scripts cannot be run");
    let (findings, is_well) = doctor(&place, &["--broker", "redis://:hush@127.0.0.1:1"], &[]);
    assert!(!is_well && !format!("{findings:?}").contains("hush"));
    has(&findings, "redis", "problem", "check --broker");
}

#[test]
fn a_namespace_that_a_server_would_refuse_is_told() {
    let (place, redis) = (Place::new(), RedisServer::start());
    for (key, value, words) in
        [("partitions", "4", "was created with 4 partitions"), ("ledger", "0123456789abcdef", "has jobs with a ledger")]
    {
        redis.command(&["FLUSHALL"]);
        redis.command(&["SET", "{duetime:shop}:partitions", "1"]);
        redis.command(&["SET", &format!("{{duetime:shop}}:{key}"), value]);
        let url = format!("{}?namespace=shop&partitions=1", redis.url());
        let (findings, is_well) = doctor(&place, &["--broker", &url], &[]);
        assert!(!is_well, "{findings:?}");
        has(&findings, "redis", "problem", words);
        let ran = finish(place.bare(&["serve", "--listen", "127.0.0.1:0", "--broker", &url]), b"");
        assert!(ran.code != 0 && ran.err.contains(words), "{ran:?}");
    }
    redis.command(&["FLUSHALL"]);
    redis.command(&["SET", "{duetime:shop}:partitions", "1"]);
    redis.command(&["SET", "{duetime:shop:0}:incarnation", "9 1 none x"]);
    let (findings, is_well) = doctor(&place, &["--broker", &format!("{}?namespace=shop", redis.url())], &[]);
    assert!(!is_well, "{findings:?}");
    has(&findings, "redis", "problem", "jobs of format 9");
}

fn a_ledger_is_judged(sql: &Sql) {
    let (place, redis) = (Place::new(), RedisServer::with(&["--appendonly", "yes"]));
    let url = sql.url_of_user();
    sql.rights().into_iter().filter(|line| line.starts_with("CREATE ")).for_each(|line| sql.administer(line));
    let look = |ledger: &str, more: &[&str]| {
        doctor(&place, &[&["--broker", &redis.url(), "--ledger", ledger], more].concat(), &[])
    };
    let (findings, is_well) = look(&sql.url(), &["--no-migrate"]);
    assert!(!is_well, "{findings:?}");
    has(&findings, "ledger", "problem", "run `duetime migrate`");
    has(&findings, "clock", "ok", "the database: within");
    let (findings, is_well) = look(&sql.url(), &[]);
    assert!(is_well, "{findings:?}");
    has(&findings, "ledger", "ok", "has no tables yet");
    let migrated = finish(place.bare(&["migrate", "--ledger", &sql.url()]), b"");
    assert_eq!(migrated.code, 0, "{migrated:?}");
    let grants: Vec<_> = sql.rights().into_iter().filter(|line| line.starts_with("GRANT ")).collect();
    let (of_jobs, others): (Vec<_>, Vec<_>) = grants.into_iter().partition(|line| line.contains("duetime_jobs"));
    others.iter().for_each(|line| sql.administer(line));
    let (findings, is_well) = look(&url, &[]);
    assert!(!is_well, "{findings:?}");
    has(&findings, "ledger", "problem", "INSERT on duetime_jobs");
    of_jobs.iter().for_each(|line| sql.administer(line));
    let (findings, is_well) = look(&url, &[]);
    assert!(is_well && !format!("{findings:?}").contains("secret"), "{findings:?}");
    has(&findings, "ledger", "ok", "is current");
    redis.command(&["SET", "{duetime:default}:partitions", "1"]);
    redis.command(&["SET", "{duetime:default}:ledger", "another"]);
    let (findings, is_well) = look(&url, &[]);
    assert!(!is_well, "{findings:?}");
    has(&findings, "redis", "problem", "has jobs of another ledger");
    let wrong = url.replace(USER, "nobody_here");
    let (findings, is_well) = doctor(&place, &["--broker", &redis.url(), "--ledger", &wrong], &[]);
    assert!(!is_well, "{findings:?}");
    has(&findings, "ledger", "problem", "check --ledger");
}

#[test]
fn a_postgres_is_judged() {
    a_ledger_is_judged(&Sql::postgres());
}

#[test]
fn a_maria_db_is_judged() {
    a_ledger_is_judged(&Sql::maria_db());
}
