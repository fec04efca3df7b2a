//! A server's log: flat lines that name their instance, without secrets.

use crate::cli::ledger::Sql;
use crate::cli::support::{Place, Ran, finish, pid, wait};
use duetime_store::testing::RedisServer;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Part of every password here.
const HUSH: &str = "hush";

/// Runs a server until a client has had its turn, and returns all that it printed.
fn serve(mut command: Command, client: impl FnOnce(&str)) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        errors.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| format!("{}\n", line.unwrap()));
    let mut out = String::new();
    let url = lines.by_ref().find_map(|line| {
        out.push_str(&line);
        Some(line.split_once("listening on ")?.1.trim().to_owned())
    });
    if let Some(url) = url {
        client(&url);
        kill(pid(&child), Signal::SIGTERM).unwrap();
    }
    out.extend(lines);
    let code = wait(child).code().unwrap_or(-1);
    Ran { code, out, err: errors.join().unwrap() }
}

fn push(place: &Place, url: &str) {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let ran = finish(place.bare(&["push", "--server", url, "--trace", trace, "x"]), b"");
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn log(level: &str, format: &str, instance: &[&str]) -> Ran {
    let place = Place::new();
    let arguments =
        ["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--log-level", level, "--log-format", format];
    serve(place.bare(&[&arguments, instance].concat()), |url| push(&place, url))
}

#[test]
fn a_line_of_json_is_flat_and_names_its_instance() {
    let ran = log("debug,h2=off", "json", &["--instance", "shop-1"]);
    assert!(ran.code == 0 && !ran.err.is_empty(), "{ran:?}");
    let mut requests = 0;
    for line in ran.err.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for name in ["timestamp", "level", "target", "message", "instance"] {
            assert!(line[name].is_string(), "{name}: {line}");
        }
        assert_eq!(line["instance"], "shop-1");
        assert!(line.as_object().unwrap().values().all(|value| !value.is_object()), "{line}");
        if line["message"] == "request" && line["path"] == "/v1/jobs" {
            assert_eq!(
                (&line["method"], &line["status"], &line["level"]),
                (&"POST".into(), &200.into(), &"DEBUG".into())
            );
            requests += 1;
        }
    }
    assert_eq!(requests, 1, "{}", ran.err);
}

#[test]
fn fields_of_the_request_s_span_stand_in_its_lines() {
    let place = Place::new();
    let arguments =
        ["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--log-level", "debug", "--log-format", "json"];
    let ran = serve(place.bare(&arguments), |url| {
        let ran = finish(
            {
                let mut curl = Command::new("curl");
                curl.args(["-fsS", "-H", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]);
                curl.arg(format!("{url}/healthz"));
                curl
            },
            b"",
        );
        assert_eq!(ran.code, 0, "{ran:?}");
    });
    let lines: Vec<Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["path"] == "/healthz").unwrap_or_else(|| panic!("{}", ran.err));
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{line}");
    // By default the machine's name and the process id.
    let instance = line["instance"].as_str().unwrap();
    assert!(instance.contains(':') && lines.iter().all(|line| line["instance"] == instance), "{instance}");
}

#[test]
fn a_line_of_text_names_its_instance() {
    let ran = log("info", "text", &["--instance", "shop-1"]);
    assert!(!ran.err.is_empty() && ran.err.lines().all(|line| line.contains(" shop-1 ")), "{}", ran.err);
    assert!(!ran.err.contains('\x1b'), "{}", ran.err);
}

#[test]
fn what_a_worker_says_forges_no_line_of_text() {
    let place = Place::new();
    let arguments = ["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--instance", "shop-1"];
    let ran = serve(place.bare(&arguments), |url| {
        let run = |arguments: &[&str]| {
            let ran = finish(place.bare(&[arguments, &["--server", url, "--json"]].concat()), b"");
            assert_eq!(ran.code, 0, "{ran:?}");
            serde_json::from_str::<Value>(&ran.out).unwrap()
        };
        run(&["push", "x"]);
        let lease = run(&["reserve", "default"])["leases"][0]["receipt"].as_str().unwrap().to_owned();
        let forged = "no\n2026-11-20T10:00:00Z shop-2 ERROR forged\u{1b}[2J\u{2028}\u{202e}\rx";
        run(&["fail", &lease, "--final", "--message", forged]);
    });
    let line = ran.err.lines().find(|line| line.contains("a job has failed")).unwrap_or_else(|| panic!("{}", ran.err));
    let shown = r"no\n2026-11-20T10:00:00Z shop-2 ERROR forged\u{1b}[2J\u{2028}\u{202e}\rx";
    assert!(line.contains(" shop-1 ") && line.contains(shown), "{line}");
    assert!(ran.err.lines().all(|line| line.contains(" shop-1 ")), "{}", ran.err);
}

/// Wrong addresses and right ones, for any kind of failure.
fn no_secret_is_told(sql: &Sql, make_user: &str) {
    let redis = RedisServer::with(&["--requirepass", "hush-redis"]);
    sql.administer(make_user);
    let broker = format!("redis://:hush-redis@127.0.0.1:{}", redis.port());
    let (scheme, rest) = sql.url().split_once("://").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let host = rest.split_once('@').map_or(&*rest, |(_, host)| host).to_owned();
    let ledger = format!("{scheme}://quiet:hush-sql@{host}");
    let wrong_brokers = [
        "redis://:hush-wrong@127.0.0.1:1".to_owned(),
        format!("redis://:hush-wrong@127.0.0.1:{}", redis.port()),
        format!("redis://me:hush-wrong@127.0.0.1:{}?password=hush-two", redis.port()),
        "redis://:hush@wrong@:x/y".to_owned(),
        "hush-no-address".to_owned(),
        "redis+sentinel://:hush@127.0.0.1:1/master".to_owned(),
    ];
    let wrong_ledgers = [
        // A private PostgreSQL asks nobody for a password, but knows its users.
        format!("{scheme}://nobody_here:hush-wrong@{host}"),
        format!("{scheme}://nobody:hush-wrong@127.0.0.1:1/duetime"),
        format!("{scheme}://quiet:hush-sql@{host}?sslmode=hush"),
        format!("{scheme}://quiet:hush/wrong@127.0.0.1:x/duetime"),
        "mysq://me:hush@h/d".to_owned(),
        "hush-no-address".to_owned(),
    ];
    let place = Place::new();
    for format in ["text", "json"] {
        let run = |broker: &str, ledger: &str| {
            let mut command =
                place.bare(&["serve", "--listen", "127.0.0.1:0", "--log-level", "trace", "--log-format", format]);
            command.env("DUETIME_BROKER", broker).env("DUETIME_LEDGER", ledger);
            command.env("DUETIME_LEDGER_MAY_LOSE", "true");
            let ran = serve(command, |url| push(&place, url));
            let told = format!("{}{}", ran.out, ran.err);
            // Text that is not an address may be a secret, so it is never shown.
            let line = told.lines().find(|line| line.contains(HUSH));
            assert!(line.is_none(), "with the broker {broker} and the ledger {ledger}: {line:?}");
            ran
        };
        let ran = run(&broker, &ledger);
        assert!(ran.code == 0 && ran.err.contains("DEBUG"), "{ran:?}");
        for wrong in &wrong_brokers {
            assert_ne!(run(wrong, &ledger).code, 0, "{wrong}");
        }
        for wrong in &wrong_ledgers {
            assert_ne!(run(&broker, wrong).code, 0, "{wrong}");
        }
    }
}

#[test]
fn no_password_is_logged_beside_postgres() {
    no_secret_is_told(&Sql::postgres(), "CREATE ROLE quiet LOGIN SUPERUSER PASSWORD 'hush-sql';");
}

#[test]
fn no_password_is_logged_beside_maria_db() {
    no_secret_is_told(
        &Sql::maria_db(),
        "CREATE USER 'quiet'@'%' IDENTIFIED BY 'hush-sql'; GRANT ALL ON *.* TO 'quiet'@'%';",
    );
}
