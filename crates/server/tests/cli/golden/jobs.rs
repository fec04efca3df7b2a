//! Jobs and leases.

use super::{Shell, run_plainly};
use serde_json::Value;

#[test]
fn jobs() {
    Shell::on_both("cli/jobs", |shell| {
        let options = [
            "push",
            "--queue",
            "orders",
            "--kind",
            "ship",
            "--delay",
            "2h",
            "--tag",
            "order:7",
            "--tag",
            "b",
            "--key",
            "k7",
            "--priority",
            "7",
            "--lease",
            "90s",
            "--max-attempts",
            "4",
            "--retry",
            "steps:15s,1m",
            "--when-exhausted",
            "move:dead",
            "--expires",
            "1d",
            "--trace",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "--meta",
            "tenant=7",
            "--meta",
            "user=ada b",
            r#"{"order":7}"#,
        ];
        let id = shell.json(&options)["id"].as_str().unwrap().to_owned();
        shell.run(&options);
        shell.run(&[&options[..], &["--on-conflict", "reject"]].concat());
        shell.run(&[&options[..], &["--on-conflict", "replace", "--json"]].concat());
        shell.run(&["get", &id]);
        shell.json(&["get", &id]);
        shell.run(&["why", &id]);
        shell.json(&["why", &id]);
        shell.run(&["list"]);
        shell.json(&["list", "--tag", "order:7"]);
        shell.run(&["update", &id, "--priority", "9", "--payload", "bytes"]);
        shell.json(&["update", &id, "--delay", "4h", "--payload", r#"{"n":[1]}"#]);
        shell.run(&["reschedule", &id, "--delay", "3h"]);
        shell.json(&["reschedule", &id, "--at", "2031-01-01T00:00:00Z"]);
        shell.run(&["update", &id, "--priority", "8", "--version", "1"]);
        shell.run(&["reschedule", "--queue", "orders", "--delay", "3h"]);
        shell.json(&["run", "--queue", "orders"]);
        shell.run(&["run", &id]);
        shell.run(&["cancel", &id]);
        shell.run(&["cancel", &id]);
        shell.json(&["cancel", &id]);
        shell.run(&["run", &id]);
        shell.run(&["retry", &id]);
        shell.json(&["retry", &id]);
        let other = shell.push(&["--queue", "orders", "--delay", "1h", "x"]);
        shell.json(&["cancel", "--queue", "orders"]);
        shell.run(&["retry", "--queue", "orders", "--state", "cancelled"]);
        shell.run(&["delete", &other]);
        shell.run(&["delete", "7"]);
        shell.json(&["delete", "--queue", "orders"]);
        shell.run(&["list"]);
        for wrong in [
            &["get", "7"][..],
            &["get", "x"],
            &["get"],
            &["cancel", "7", "8"],
            &["cancel"],
            &["retry", "7"],
            &["reschedule", "7", "--delay", "1h"],
            &["reschedule", "--queue", "orders"],
            &["run"],
            &["list", "--state", "done"],
            &["list", "--cursor", "x"],
            &["list", "--key", "k"],
            &["push", "--delay", "soon", "x"],
            &["push", "--retry", "never", "x"],
            &["push", "--tag", "", "x"],
            &["push", "--queue", "-q", "x"],
            &["push", "--colour", "x"],
            &["push", "--delay", "1h", "--at", "2031-01-01T00:00:00Z", "x"],
            &["push", "--priority", "-1", "x"],
            &["push"],
            &["psuh"],
            &["push", "--target", "mail", "x"],
            &["push", "--target", r#"{"list": 1}"#, "x"],
            &["push", "--target", "https://a.example/x", "x"],
        ] {
            shell.run(wrong);
        }
    });
}

#[test]
fn leases() {
    Shell::on_server("cli/leases", |shell| {
        shell.push(&["--queue", "other", "x"]);
        shell.run(&["reserve", "q"]);
        shell.json(&["reserve", "q"]);
        let mut receipts = Vec::new();
        for n in 0..7 {
            shell.push(&["--queue", "q", "--retry", "fixed:2h", &format!(r#"{{"n":{n}}}"#)]);
            let ran = if n == 0 {
                shell.run(&["reserve", "q", "--lease", "2h", "--json"])
            } else {
                shell.quietly(&["reserve", "q", "--lease", "2h", "--json"], "")
            };
            let document: Value = serde_json::from_str(&ran.out).unwrap();
            receipts.push(document["leases"][0]["receipt"].as_str().unwrap().to_owned());
        }
        shell.push(&["--queue", "q", "words"]);
        shell.run(&["reserve", "q", "--lease", "2h"]);
        let id = |receipt: &str| receipt.split('.').next().unwrap().to_owned();
        shell.run(&["extend", &receipts[0], "--lease", "3h"]);
        shell.json(&["extend", &receipts[0], &receipts[1], "7.7"]);
        shell.run(&["progress", &receipts[0], "40", "half way"]);
        shell.run(&["get", &id(&receipts[0])]);
        shell.run(&["complete", &receipts[0], "--result", r#"{"rows":2}"#]);
        shell.run(&["complete", &receipts[0]]);
        shell.run(&["get", &id(&receipts[0])]);
        shell.json(&["fail", &receipts[1], "--message", "no paper", "--retry-after", "4h"]);
        shell.run(&["get", &id(&receipts[1])]);
        shell.run(&["fail", &receipts[2], "--message", "broken", "--final"]);
        shell.json(&["release", &receipts[3], "--delay", "3h", "--priority", "7"]);
        shell.run(&["park", &receipts[6], "--message", "no stamps", "--priority", "3"]);
        shell.run(&["get", &id(&receipts[6])]);
        let lines = format!(
            "{{\"receipt\":\"{}\",\"complete\":{{}}}}\n{{\"receipt\":\"{}\",\"fail\":{{\"message\":\"m\",\"final\":true}}}}\n{{\"receipt\":\"7.7\",\"complete\":{{}}}}\n{{\"receipt\":5}}\n",
            receipts[4], receipts[5]
        );
        shell.feed(&["settle", "-"], &lines);
        shell.feed(&["settle", "-", "--json"], &lines);
        shell.push(&["--queue", "t", "--tag", "x", "taken"]);
        shell.push(&["--queue", "t", "--delay", "2h", "later"]);
        shell.run(&["peek", "t"]);
        shell.json(&["peek", "t"]);
        shell.run(&["take", "t"]);
        shell.json(&["take", "t"]);
        shell.run(&["take", "t", "--due-to", "2031-01-01T00:00:00Z"]);
        shell.run(&["fail", "x"]);
        shell.run(&["reserve"]);
        shell.run(&["reserve", "q", "--lease", "1ms"]);
    });
}

#[test]
fn work_and_transfer() {
    let mut shell = Shell::on_store("cli/work_and_transfer");
    shell.feed(&["push", "--file", "-"], "{\"payload\":1,\"queue\":\"q\",\"delay\":\"2h\",\"tags\":[\"t\"]}\n{\"paylod\":1}\n{\"payload\":{\"a\":\"x\"}}\nx\n");
    shell.feed(&["push", "--file", "-", "--json"], "{\"payload\":1,\"queue\":\"q\",\"key\":\"k\",\"retry\":{\"fixed\":{\"delay\":\"1h\"}}}\n{\"payload\":1,\"queue\":\"q\",\"retry\":{\"steps\":[5]}}\n");
    shell.run(&["work", "default", "--once", "--", "sh", "-c", "cat; echo; echo out; exit 0"]);
    shell.push(&["--queue", "bad", "--max-attempts", "1", "x"]);
    shell.run(&["work", "bad", "--once", "--", "sh", "-c", "echo broken >&2; exit 3"]);
    shell.json(&["list", "--queue", "bad"]);
    shell.quietly(&["queues", "set", "q", "--max-attempts", "3", "--rate", "5/s"], "");
    shell.quietly(&["schedules", "set", "daily", "--every", "1d", "--start", "2031-01-01T00:00:00Z"], "");
    let exported = shell.run(&["export", "--out", "-"]);
    std::fs::write(shell.place().path("export.jsonl"), &exported.out).unwrap();
    for more in [&["--check"][..], &[], &["--json"]] {
        let arguments = [&["import", "--in", "export.jsonl", "--store", "other.db"], more].concat();
        let ran = run_plainly(shell.place().bare(&arguments), "");
        shell.show(&arguments, &ran);
    }
    let mut wrong = exported.out.replacen("\"queue\":\"q\"", "\"queue\":5", 1);
    wrong += "{\"thing\":1}\n";
    std::fs::write(shell.place().path("wrong.jsonl"), wrong).unwrap();
    let arguments = ["import", "--in", "wrong.jsonl", "--store", "wrong.db"];
    let ran = run_plainly(shell.place().bare(&arguments), "");
    shell.show(&arguments, &ran);
    shell.golden.finish();
}
