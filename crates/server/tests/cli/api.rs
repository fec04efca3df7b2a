//! The operations of the HTTP API as commands: jobs, leases, locks, health, as text and as JSON.

use crate::cli::server::Server;
use crate::cli::support::{Place, Ran, finish};
use serde_json::{Value, json};

/// Reserves a job and returns its receipt.
fn reserve(server: &Server, queue: &str) -> String {
    let document = server.json(&["reserve", queue]);
    document["leases"][0]["receipt"].as_str().unwrap_or_else(|| panic!("{document}")).to_owned()
}

fn with_input(server: &Server, arguments: &[&str], input: &str) -> Ran {
    let mut command = server.place.bare(arguments);
    command.env("DUETIME_SERVER", &server.url);
    finish(command, input.as_bytes())
}

#[test]
fn a_waiting_job_is_changed_and_run_now() {
    let server = Server::start();
    let id = server.push(&["--delay", "1h", "old"]);
    let job = server.json(&["update", &id, "--priority", "7", "--payload", "{\"n\":1}"]);
    assert_eq!((&job["priority"], &job["payload"]["n"], &job["state"]), (&7.into(), &1.into(), &"scheduled".into()));
    let version = job["version"].to_string();
    let old = server.run(&["update", &id, "--priority", "8", "--version", "1"]);
    assert!(old.code == 1 && old.err.contains("version"), "{old:?}");
    let old = server.run(&["run", &id, "--version", "1"]);
    assert!(old.code == 1 && old.err.contains("version"), "{old:?}");
    let nothing = server.run(&["update", &id]);
    assert!(nothing.code == 2 && nothing.err.contains("nothing to change"), "{nothing:?}");
    let job = server.json(&["run", &id, "--version", &version]);
    assert_eq!((&job["state"], &job["payload"]["n"]), (&"ready".into(), &1.into()));
    let ran = with_input(&server, &["update", &id, "--payload", "-"], "new");
    assert!(ran.code == 0 && ran.out.contains(" with priority 7"), "{ran:?}");
    assert_eq!(server.json(&["get", &id])["payload_base64"], "bmV3");
}

#[test]
fn a_version_is_asked_for_of_one_job() {
    let server = Server::start();
    let (one, other) = (server.push(&["--delay", "1h", "x"]), server.push(&["--delay", "1h", "x"]));
    let ran = server.run(&["cancel", &one, &other, "--version", "1"]);
    assert!(ran.code == 2 && ran.err.contains("--version needs a single job id"), "{ran:?}");
    assert_eq!(server.run(&["cancel", &one, "--version", "999"]).code, 1);
    assert_eq!(server.json(&["get", &one])["state"], "scheduled");
    let version = server.json(&["get", &one])["version"].to_string();
    assert_eq!(server.json(&["cancel", &one, "--version", &version])["outcome"], "cancelled");
    assert_eq!(server.run(&["delete", &one, "--version", &version]).code, 1);
    assert_eq!(server.run(&["retry", &one, "--version", &version]).code, 1);
    assert_eq!(server.run(&["cancel", "--queue", "default", "--version", "1"]).code, 2);
}

#[test]
fn a_lease_is_settled_by_hand() {
    let server = Server::start();
    let id = server.push(&["--queue", "q", "--max-attempts", "5", "x"]);
    let receipt = reserve(&server, "q");
    let extended = server.json(&["extend", &receipt, "--lease", "10m"]);
    assert!(extended["receipt"] == *receipt && extended["lease_until"].is_string(), "{extended}");
    let released = server.json(&["release", &receipt]);
    assert_eq!((&released["receipt"], &released["state"]), (&receipt.clone().into(), &"ready".into()));
    let lost = server.run(&["complete", &receipt]);
    assert!(lost.code == 1 && lost.err.contains("lease"), "{lost:?}");
    let receipt = reserve(&server, "q");
    let failed = server.json(&["fail", &receipt, "--message", "no bank", "--retry-after", "0s"]);
    assert_eq!(failed["state"], "ready");
    let receipt = reserve(&server, "q");
    let ran = with_input(&server, &["complete", &receipt, "--result", "-"], "{\"sent\":true}");
    assert_eq!((ran.code, &*ran.out), (0, &*format!("{id} is succeeded\n")), "{ran:?}");
    let job = server.json(&["get", &id]);
    assert_eq!(
        (&job["result"]["sent"], &job["attempt"], &job["errors"][0]["message"]),
        (&true.into(), &2.into(), &"no bank".into())
    );
    let dead = server.push(&["--queue", "q", "x"]);
    let receipt = reserve(&server, "q");
    assert_eq!(server.json(&["fail", &receipt, "--final"])["state"], "failed");
    assert_eq!(server.json(&["get", &dead])["state"], "failed");
}

#[test]
fn many_leases_are_settled_and_extended_at_once() {
    let server = Server::start();
    for _ in 0..3 {
        server.push(&["--queue", "b", "x"]);
    }
    let reservation = server.json(&["reserve", "a", "b", "--limit", "10", "--wait", "1s"]);
    let receipts: Vec<_> =
        reservation["leases"].as_array().unwrap().iter().map(|lease| lease["receipt"].as_str().unwrap()).collect();
    assert_eq!(receipts.len(), 3);
    let extended = server.json(&[&["extend"], &receipts[..], &["--lease", "5m"]].concat());
    assert_eq!(extended.as_array().unwrap().len(), 3);
    let line = |receipt: &str, outcome: &str| format!("{{\"receipt\":\"{receipt}\",\"{outcome}\":{{}}}}\n");
    let lines =
        format!("{}\nnonsense\n{}{}", line(receipts[0], "complete"), line(receipts[1], "fail"), line("7.7", "release"));
    let ran = with_input(&server, &["settle", "-", "--json"], &lines);
    let answers: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, answers.len()), (65, 4), "{ran:?}");
    let told: Vec<_> =
        answers.iter().map(|answer| answer["state"].as_str().or(answer["code"].as_str()).unwrap()).collect();
    assert!(told.contains(&"succeeded") && told.contains(&"lease_lost") && told.contains(&"invalid"), "{told:?}");
    let again = with_input(&server, &["settle", "-"], &line(receipts[0], "release"));
    assert!(again.code == 1 && again.out.is_empty(), "{again:?}");
    let ran = with_input(&server, &["settle", "-"], &line(receipts[2], "complete"));
    assert!(ran.code == 0 && ran.out.ends_with("is succeeded\n"), "{ran:?}");
    let ran = server.run(&["extend", receipts[2], "7.7", "--json"]);
    let answers: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.code == 1 && answers.iter().all(|answer| answer["code"] == "lease_lost"), "{ran:?}");
}

#[test]
fn particular_jobs_are_reserved() {
    let server = Server::start();
    let (_, second) = (server.push(&["a"]), server.push(&["b"]));
    let reservation = server.json(&["reserve", "--job", &second]);
    assert_eq!(reservation["leases"][0]["id"], *second);
    let ran = server.run(&["reserve", "empty"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("no job is due"), "{ran:?}");
    assert_eq!(server.run(&["reserve"]).code, 2);
    assert_eq!(server.run(&["reserve", "a", "--job", &second]).code, 2);
}

#[test]
fn locks_are_held_by_hand() {
    let server = Server::start();
    assert_eq!(server.json(&["locks"])["locks"], json!([]));
    let granted = server.json(&["locks", "acquire", "stock", "--owner", "me", "--ttl", "1h"]);
    let fence = granted["fence"].to_string();
    assert!(granted["expires_at"].is_string(), "{granted}");
    let held = server.run(&["locks", "acquire", "stock", "--owner", "you"]);
    assert!(held.code == 69 && held.err.contains("held"), "{held:?}");
    assert_eq!(server.json(&["locks", "show", "stock"])["owner"], "me");
    assert_eq!(server.json(&["locks", "list"])["locks"][0]["name"], "stock");
    assert_eq!(
        server.json(&["locks", "renew", "stock", "--owner", "me", "--fence", &fence])["fence"],
        granted["fence"]
    );
    assert_eq!(server.run(&["locks", "renew", "stock", "--owner", "you", "--fence", &fence]).code, 1);
    assert_eq!(server.run(&["locks", "release", "stock", "--owner", "me"]).code, 2);
    let released = server.json(&["locks", "release", "stock", "--owner", "me", "--fence", &fence]);
    assert_eq!(released["outcome"], "released");
    let shown = server.run(&["locks", "show", "stock"]);
    assert_eq!((shown.code, &*shown.out), (0, "stock is free\n"));
    for name in ["a", "b"] {
        server.json(&["locks", "acquire", name, "--owner", "me"]);
    }
    assert_eq!(server.json(&["locks", "release", "--owner", "me"]), json!({"released": 2, "lost": 0}));
    assert_eq!(server.run(&["locks"]).err, "no locks are held\n");
}

#[test]
fn a_server_is_asked_how_it_is() {
    let server = Server::start();
    server.push(&["--queue", "q", "x"]);
    let health = server.json(&["health"]);
    assert!(health["ready"] == true && health["degraded"] == json!([]), "{health}");
    let alive = server.json(&["health", "--alive"]);
    assert_eq!(alive, json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
    let text = server.run(&["metrics"]).out;
    assert!(text.contains("# TYPE") && text.contains("queue=\"q\""), "{text}");
    let samples = server.json(&["metrics"]);
    let of_queue = |sample: &&Value| sample["labels"]["queue"] == "q" && sample["value"].is_number();
    assert!(samples.as_array().unwrap().iter().any(|sample| of_queue(&sample)), "{samples}");
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples.as_array().unwrap().len(), lines);
    let place = Place::new();
    let nobody = finish(place.bare(&["health", "--server", "http://127.0.0.1:1"]), b"");
    assert!(nobody.code == 75 && nobody.err.contains("duetime serve"), "{nobody:?}");
}

#[test]
fn one_screen_shows_all_queues_together() {
    let server = Server::start();
    for queue in ["one", "two"] {
        server.push(&["--queue", queue, "x"]);
        server.push(&["--queue", queue, "--delay", "1h", "x"]);
    }
    server.run(&["queues", "pause", "two"]);
    let status = server.json(&["status"]);
    assert_eq!(status["jobs"], json!({"scheduled": 2, "ready": 2, "running": 0}));
    assert_eq!(status["totals"], json!({"pushed": 4, "succeeded": 0, "failed": 0, "cancelled": 0}));
    assert_eq!((&status["queues"], &status["workers"]), (&json!({"all": 2, "paused": 1}), &json!(0)));
    assert_eq!(status["health"], server.json(&["health"]));
    let text = server.run(&["status"]).out;
    assert!(text.starts_with("server   ready\njobs     2 scheduled, 0 running, 2 ready, the oldest due "), "{text}");
    assert!(text.contains("queues   2, 1 paused\nworkers  0\nneeds attention: two: paused for "), "{text}");
    assert!(text.ends_with(", without an end; 1 job waits\n"), "{text}");
    assert_eq!(status["attention"]["items"][0]["kind"], "paused");
    let top = server.run(&["top"]).out;
    assert!(top.contains("\n! two: paused for ") && top.contains(" QUEUE ") && top.contains(" paused"), "{top}");
}

#[test]
fn lists_have_names_of_their_own() {
    let server = Server::start();
    server.push(&["--queue", "q", "x"]);
    assert_eq!(server.json(&["queues", "list"]), server.json(&["queues"]));
    server.json(&["schedules", "set", "beat", "--every", "1h", "--queue", "q"]);
    assert_eq!(server.json(&["schedules", "list"])["schedules"][0]["name"], "beat");
    assert_eq!(server.json(&["schedules", "delete", "beat"]), json!({"name": "beat", "outcome": "deleted"}));
}

#[test]
fn a_store_file_is_settled_by_hand_too() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let receipt = place.json(&["reserve", "default"])["leases"][0]["receipt"].as_str().unwrap().to_owned();
    assert_eq!(place.json(&["complete", &receipt])["state"], "succeeded");
    assert_eq!(place.job(&id)["state"], "succeeded");
    let ran = place.run(&["metrics"]);
    assert!(ran.out.contains("duetime_queue_succeeded_total{queue=\"default\"} 1\n"), "{ran:?}");
    assert_eq!(place.json(&["health"])["ready"], true);
}
