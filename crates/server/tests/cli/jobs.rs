//! Commands for jobs and queues.

use crate::cli::support::{Place, finish};

#[test]
fn a_job_is_pushed_listed_and_shown() {
    let place = Place::new();
    let arguments =
        ["push", "--queue", "orders", "--delay", "30m", "--tag", "order:7", "--key", "k7", r#"{"order":7}"#];
    let said = place.ok(&arguments);
    assert!(said.contains("pushed: queue orders, due in 30 min"), "{said}");
    assert!(place.ok(&arguments).contains("not pushed: another job has the key"));

    let table = place.ok(&["list", "--tag", "order:7"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].contains("ID") && lines[0].contains("STATE") && lines[0].contains("TAGS"));
    for word in ["orders", "scheduled", "in 30 min", "k7", "order:7", r#"{"order":7}"#] {
        assert!(lines[1].contains(word), "{word}: {table}");
    }
    assert!(!table.contains('\x1b'), "colours only on a terminal");

    let listed = place.json(&["list", "--queue", "orders", "--state", "scheduled"]);
    assert_eq!(listed["jobs"][0]["payload"]["order"], 7);
    let id = listed["jobs"][0]["id"].as_str().unwrap().to_owned();
    let shown = place.ok(&["get", &id]);
    assert!(shown.contains("state:          scheduled") && shown.contains("(in 30 min)"), "{shown}");
    assert_eq!(place.job(&id)["tags"][0], "order:7");
}

#[test]
fn a_job_is_pushed_with_a_trace_and_a_target() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let place = Place::new();
    let id = place.push(&["--trace", TRACE, "x"]);
    assert_eq!(place.job(&id)["trace"], TRACE);
    assert!(place.ok(&["get", &id]).contains(&format!("trace:          {TRACE}")));
    for target in ["https://a.example/x", r#"{"queue": "mail"}"#] {
        let ran = place.run(&["push", "--target", target, "x"]);
        assert!(ran.code == 2 && ran.err.contains("has no target in its settings"), "{ran:?}");
    }
    for (target, why) in [("mail", "begins with https://"), (r#"{"list": 1}"#, "`list` is unknown")] {
        let ran = place.run(&["push", "--target", target, "x"]);
        assert!(ran.code == 2 && ran.err.contains(why), "{ran:?}");
    }
}

#[test]
fn standard_input_is_a_payload() {
    let place = Place::new();
    let ran = finish(place.command(&["push", "-", "--json"]), b"\xff\x00 bytes");
    assert_eq!(ran.code, 0, "{ran:?}");
    let listed = place.json(&["list"]);
    assert_eq!(listed["jobs"][0]["payload_base64"], "/wAgYnl0ZXM=");
}

#[test]
fn a_list_has_pages() {
    let place = Place::new();
    (0..3).for_each(|n| drop(place.push(&["--delay", "1h", &n.to_string()])));
    let first = place.json(&["list", "--limit", "2"]);
    assert_eq!(first["jobs"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = place.json(&["list", "--limit", "2", "--cursor", cursor]);
    assert_eq!(second["jobs"].as_array().unwrap().len(), 1);
    let ran = place.run(&["list", "--limit", "2"]);
    assert!(ran.err.contains(&format!("--cursor '{cursor}'")), "{ran:?}");
}

#[test]
fn jobs_are_cancelled_rescheduled_and_retried() {
    let place = Place::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| place.push(&["--delay", "1h", "--tag", "t", name]));
    assert_eq!(place.ok(&["cancel", &a]), format!("{a} cancelled\n"));
    assert_eq!(place.ok(&["cancel", &a]), format!("{a} already finished\n"));
    assert!(place.ok(&["reschedule", &b, "--delay", "2h"]).contains("is due in 2 h"));
    assert_eq!(place.ok(&["reschedule", "--tag", "t", "--delay", "3h"]), "2 rescheduled\n");
    assert_eq!(place.ok(&["run", "--tag", "t"]), "2 due now\n");
    assert_eq!(place.ok(&["reschedule", "--tag", "t", "--delay", "3h"]), "2 rescheduled\n");
    assert_eq!(place.json(&["run", "--tag", "t"])["rescheduled"], 2);
    let listed = place.ok(&["list"]);
    let due_of =
        |id: &str| listed.lines().find(|line| line.trim_start().starts_with(id)).unwrap().split_whitespace().nth(4);
    assert!(due_of(&a) == Some("-") && due_of(&b) != Some("-"), "{listed}");
    assert_eq!(place.job(&b)["state"], "ready");
    assert_eq!(place.ok(&["reschedule", &b, &c, "--delay", "2h"]).matches("is due in 2 h").count(), 2);
    for wrong in [&["reschedule", "--delay", "2h"][..], &["reschedule", "--tag", "t"], &["run"]] {
        assert_eq!(place.run(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(place.json(&["cancel", "--tag", "t"])["cancelled"], 2);
    assert_eq!(place.ok(&["retry", &c]), format!("{c} retried\n"));
    assert_eq!(place.job(&c)["state"], "ready");

    let ran = place.run(&["cancel", "7", &c]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no job with the id 7") && ran.out.contains(&format!("{c} cancelled")), "{ran:?}");
    let ran = place.run(&["cancel"]);
    assert_eq!(ran.code, 2, "an empty selection cancels nothing: {ran:?}");
}

#[test]
fn jobs_are_looked_at_and_taken() {
    let place = Place::new();
    place.push(&["--queue", "q", "now"]);
    place.push(&["--queue", "q", "--delay", "1h", "later"]);
    assert_eq!(place.json(&["peek", "q"])["jobs"].as_array().unwrap().len(), 2);
    let taken = place.json(&["take", "q"]);
    assert_eq!(taken["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(taken["jobs"][0]["state"], "succeeded");
    assert_eq!(place.json(&["take", "q"])["jobs"].as_array().unwrap().len(), 0);
    place.push(&["--queue", "q", "shown to a person"]);
    let table = place.ok(&["take", "q"]);
    assert!(table.contains("shown to a person"), "{table}");
}

#[test]
fn a_ledger_needs_a_redis_beside_it() {
    let ran = finish(Place::new().bare(&["push", "--ledger", "mysql://nobody@nowhere/x", "y"]), b"");
    assert!(ran.code == 2 && ran.err.contains("--ledger needs the Redis beside it"), "{ran:?}");
}

#[test]
fn queues_are_paused_and_purged() {
    let place = Place::new();
    place.push(&["--queue", "q", "--delay", "1h", "x"]);
    place.ok(&["queues", "pause", "q"]);
    let queues = place.json(&["queues"]);
    assert_eq!((&queues["queues"][0]["scheduled"], &queues["queues"][0]["paused"]), (&1.into(), &true.into()));
    assert!(place.ok(&["queues"]).contains("paused"));
    place.ok(&["queues", "resume", "q"]);
    assert_eq!(place.json(&["queues", "purge", "q"])["purged"], 1);
}

#[test]
fn a_queue_is_set_and_shown() {
    let place = Place::new();
    place.push(&["--queue", "orders", "x"]);
    let set = [
        "queues",
        "set",
        "orders",
        "--retry",
        "steps:15s,15s,30s",
        "--max-attempts",
        "5",
        "--when-exhausted",
        "move:orders-dead",
        "--max-running",
        "20",
        "--rate",
        "100/s,burst=20",
        "--max-age",
        "2d",
        "--lease",
        "5m",
        "--keep-succeeded",
        "1h",
    ];
    assert_eq!(place.ok(&set), "orders is set\n");
    let settings = serde_json::json!({
        "retry": {"steps": ["15s", "15s", "30s"]}, "max_attempts": 5, "when_exhausted": {"move": "orders-dead"},
        "max_running": 20, "rate": {"per_second": 100.0, "burst": 20}, "max_age": "2d", "lease": "5m", "retention": {"succeeded": "1h"},
    });
    assert_eq!(place.json(&["queues", "show", "orders"])["settings"], settings);
    let shown = place.ok(&["queues", "show", "orders"]);
    for line in [
        "queue       orders",
        " ready      1",
        " pushed           1",
        " max-attempts    5",
        " max-age         2d",
        " when-exhausted  move:orders-dead",
        " rate            100/s,burst=20",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in {shown}");
    }
    place.ok(&["queues", "set", "orders", "--rate", "default", "--max-age", "default", "--max-attempts", "default"]);
    let shown = place.json(&["queues", "show", "orders"]);
    assert_eq!((&shown["settings"]["rate"], &shown["settings"]["max_running"]), (&serde_json::Value::Null, &20.into()));
    let nothing = place.run(&["queues", "set", "orders", "--max-running", "20"]);
    assert!(nothing.code == 2 && nothing.err.contains("nothing to change"), "{nothing:?}");
    for wrong in [["--rate", "100"], ["--max-running", "many"], ["--target", "{}"], ["--retry", "often"]] {
        let ran = place.run(&[&["queues", "set", "orders"][..], &wrong].concat());
        assert!(ran.code == 2 && ran.err.contains(wrong[0]), "{ran:?}");
    }
    assert!(place.ok(&["queues", "pause", "orders", "--for", "1h"]).contains("orders is paused until 20"));
    assert!(place.ok(&["queues"]).contains("until 20"));
}

#[test]
fn a_pause_of_a_new_queue_says_that_it_is_new() {
    let place = Place::new();
    let note = "ordres is a new queue without jobs and settings. `duetime queues` lists all queues\n";
    let pause = |queue: &str| {
        let ran = place.run(&["queues", "pause", queue]);
        assert!(ran.code == 0 && ran.out == format!("{queue} is paused\n"), "{ran:?}");
        ran.err
    };
    place.push(&["--queue", "orders", "x"]);
    place.ok(&["queues", "set", "mail", "--max-running", "3"]);
    assert_eq!(pause("ordres"), note);
    assert_eq!(["orders", "mail"].map(pause), ["", ""]);
}

/// It says first what goes with it.
#[test]
fn a_queue_from_a_typing_error_is_deleted() {
    let place = Place::new();
    place.push(&["--queue", "ordres", "x"]);
    place.ok(&["work", "ordres", "--once", "--", "true"]);
    let asked = place.run(&["queues", "delete", "ordres"]);
    let said =
        "duetime: this deletes the queue ordres, its settings, and the records of 1 job: confirm that with --yes\n";
    assert_eq!((asked.code, &*asked.err), (2, said));
    place.push(&["--queue", "ordres", "x"]);
    let refused = place.run(&["queues", "delete", "ordres", "--yes"]);
    assert!(refused.code == 1 && refused.err.contains("1 job waits"), "{refused:?}");
    let forced = place.ok(&["queues", "delete", "ordres", "--force", "--yes"]);
    assert_eq!(forced, "ordres is deleted, with the records of 2 jobs\n");
    assert_eq!(place.ok(&["queues", "delete", "ordres"]), "there is no queue ordres, so there was nothing to delete\n");
    let shown = place.json(&["queues", "delete", "ordres", "--yes"]);
    assert_eq!(shown, serde_json::json!({"existed": false, "cancelled": 0, "deleted": 0}));
}

/// Seen, tried again one by one or together, and removed, each with a count.
#[test]
fn dead_letters_are_looked_after() {
    let place = Place::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| place.push(&["--queue", "q", "--retry", "none", name]));
    place.ok(&["work", "q", "--once", "--", "sh", "-c", "echo out of stock >&2; exit 1"]);
    let dead = place.json(&["list", "--queue", "q", "--state", "failed"]);
    assert_eq!(dead["jobs"].as_array().unwrap().len(), 3);
    assert_eq!(place.job(&a)["errors"][0]["message"], "exit status 1: out of stock");
    assert!(place.ok(&["queues"]).lines().any(|line| line.contains(" q ") && line.contains(" 3 ")));
    assert_eq!(place.ok(&["retry", &a]), format!("{a} retried\n"));
    assert_eq!(place.ok(&["delete", &b]), format!("{b} deleted\n"));
    assert_eq!(place.json(&["retry", "--queue", "q", "--state", "failed"])["retried"], 1);
    assert_eq!(place.job(&c)["state"], "ready");
    place.ok(&["work", "q", "--once", "--", "false"]);
    assert_eq!(place.json(&["delete", "--queue", "q", "--state", "failed"])["deleted"], 2);
    assert_eq!(place.json(&["list", "--queue", "q"])["jobs"].as_array().unwrap().len(), 0);
}

#[test]
fn a_store_is_copied() {
    let place = Place::new();
    place.push(&["--delay", "1h", "x"]);
    let copied = place.run(&["backup", "copy.db"]);
    let left = "no server has test.db open; it was last changed ";
    assert!(copied.code == 0 && copied.err.contains(left) == cfg!(target_os = "linux"), "{copied:?}");
    let ran = finish(place.bare(&["list", "--store", "copy.db"]), b"");
    assert!(ran.code == 0 && ran.out.contains("in 60 min"), "{ran:?}");
    let again = place.run(&["backup", "copy.db"]);
    assert!(again.code == 1 && again.err.contains("is in use as a store"), "{again:?}");
    let none = finish(place.bare(&["backup", "--store", "redis://127.0.0.1", "x.db"]), b"");
    assert!(none.code == 1 && none.err.contains("backed up with their own tools"), "{none:?}");
}

#[test]
fn errors_say_what_to_do() {
    let place = Place::new();
    let missing = place.run(&["list"]);
    assert!(missing.code == 1 && missing.err.contains("there is no store at test.db"), "{missing:?}");
    // Port 1 of this machine serves nothing.
    let ran = finish(place.bare(&["list", "--server", "http://127.0.0.1:1"]), b"");
    assert!(ran.code == 75 && ran.err.contains("duetime serve") && ran.err.contains("--store"), "{ran:?}");
    assert_eq!(ran.out, "");
    for wrong in [&["push"][..], &["push", "--delay", "30", "x"], &["list", "--state", "odd"], &["frobnicate"]] {
        let ran = place.run(wrong);
        assert!(ran.code == 2 && !ran.err.is_empty(), "{wrong:?}: {ran:?}");
    }
    let ran = place.run(&["push", "--queue", "no spaces", "x"]);
    assert!(ran.code == 2 && ran.err.contains("queue"), "{ran:?}");
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    let commands = [
        "push",
        "list",
        "get",
        "cancel",
        "reschedule",
        "retry",
        "delete",
        "queues",
        "peek",
        "take",
        "work",
        "bench",
        "backup",
        "demo",
        "adopt",
    ];
    for command in commands {
        let ran = finish(place.bare(&[command, "--help"]), b"");
        assert!(ran.code == 0 && ran.out.contains("Example"), "{command}: {ran:?}");
    }
}
