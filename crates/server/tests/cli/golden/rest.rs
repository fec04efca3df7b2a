//! Queues, schedules, locks; the configuration and the help.

use super::{Shell, run_plainly};

#[test]
fn queues() {
    Shell::on_both("cli/queues", |shell| {
        shell.push(&["--queue", "orders", "--delay", "2h", "x"]);
        shell.push(&["--queue", "orders", "x"]);
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
            "--max-crashes",
            "3",
            "--lease",
            "5m",
            "--keep-succeeded",
            "1h",
            "--keep-failed",
            "30d",
        ];
        shell.run(&set);
        shell.run(&[
            "queues",
            "set",
            "hooks",
            "--retry",
            r#"{"exponential":{"first":"1s","factor":2,"max":"1h","jitter":0.1}}"#,
            "--target",
            "https://a.example/x",
            "--json",
        ]);
        shell.run(&["queues", "show", "orders"]);
        shell.json(&["queues", "show", "orders"]);
        shell.json(&["queues", "show", "hooks"]);
        shell.run(&["queues", "set", "hooks", "--target", "default"]);
        shell.run(&["queues", "set", "orders", "--rate", "default", "--retry", "default"]);
        shell.run(&["queues", "pause", "orders"]);
        shell.run(&["queues"]);
        shell.json(&["queues"]);
        shell.run(&["queues", "resume", "orders"]);
        shell.run(&["queues", "pause", "orders", "--for", "2h", "--json"]);
        shell.run(&["queues", "show", "orders"]);
        shell.run(&["queues", "due", "orders"]);
        shell.run(&["queues", "due", "none"]);
        shell.run(&["queues", "failures"]);
        shell.run(&["queues", "history", "none"]);
        shell.run(&["queues", "history", "--span", "week"]);
        shell.run(&["queues", "purge", "orders"]);
        shell.json(&["queues", "purge", "orders"]);
        shell.run(&["queues", "delete", "orders"]);
        shell.json(&["queues", "delete", "none", "--force"]);
        for wrong in [
            &["queues", "show", "-q"][..],
            &["queues", "show", "none"],
            &["queues", "set", "orders"],
            &["queues", "set", "orders", "--rate", "many"],
            &["queues", "set", "orders", "--retry", "linear"],
            &["queues", "set", "orders", "--lease", "1ms"],
            &["queues", "set", "orders", "--target", "mail"],
            &["queues", "pause", "orders", "--for", "1h", "--until", "2031-01-01T00:00:00Z"],
        ] {
            shell.run(wrong);
        }
    });
}

#[test]
fn schedules_and_locks() {
    Shell::on_both("cli/schedules_and_locks", |shell| {
        shell.push(&["x"]);
        shell.run(&["schedules"]);
        let nightly = [
            "schedules",
            "set",
            "nightly",
            "--cron",
            "30 2 * * *",
            "--time-zone",
            "Europe/Berlin",
            "--start",
            "2031-03-29T12:00:00Z",
            "--queue",
            "reports",
            "--kind",
            "nightly",
            "--tag",
            "x",
            r#"{"a":1}"#,
        ];
        shell.run(&[&nightly[..], &["--dry-run"]].concat());
        shell.run(&nightly);
        shell.json(&["schedules", "show", "nightly"]);
        shell.run(&["schedules"]);
        shell.json(&["schedules"]);
        shell.run(&["schedules", "next", "nightly", "--limit", "3"]);
        shell.json(&["schedules", "next", "nightly", "--limit", "1"]);
        shell.run(&["schedules", "pause", "nightly", "--until", "2031-01-01T00:00:00Z"]);
        shell.run(&["schedules", "pause", "nightly"]);
        shell.run(&["schedules", "show", "nightly"]);
        shell.run(&["schedules"]);
        shell.run(&["schedules", "next", "nightly"]);
        shell.run(&["schedules", "run", "nightly", "--origin", "o"]);
        shell.json(&["schedules", "run", "nightly", "--origin", "o"]);
        shell.run(&["schedules", "resume", "nightly"]);
        shell.run(&["schedules", "delete", "nightly"]);
        shell.run(&["schedules", "show", "nightly"]);
        shell.run(&["schedules", "set", "s", "--cron", "* * * *"]);
        shell.run(&["schedules", "set", "s", "--cron", "0 9 * * mno"]);
        shell.run(&["schedules", "set", "s", "--cron", "0 9 * * *", "--time-zone", "GMT+8"]);
        shell.run(&["schedules", "set", "s", "--cron", "0 9 * * *", "--time-zone", "CST"]);
        shell.run(&["schedules", "set", "s", "--every", "10ms"]);
        shell.run(&["schedules", "set", "s"]);
        shell.run(&["locks"]);
        let fence = shell.json(&["locks", "acquire", "stock", "--owner", "a", "--ttl", "2h"])["fence"].to_string();
        shell.run(&["locks", "acquire", "stock", "--owner", "b"]);
        shell.run(&["locks", "show", "stock"]);
        shell.json(&["locks", "show", "stock"]);
        shell.json(&["locks"]);
        shell.run(&["locks", "renew", "stock", "--owner", "a", "--fence", &fence, "--ttl", "2h"]);
        shell.run(&["locks", "renew", "stock", "--owner", "a", "--fence", "1"]);
        shell.run(&["locks", "release", "stock", "--owner", "a", "--fence", &fence]);
        shell.run(&["locks", "release", "stock", "--owner", "a", "--fence", &fence]);
        shell.run(&["locks", "show", "stock"]);
    });
}

#[test]
fn configuration_and_help() {
    let mut shell = Shell::on_store("cli/configuration_and_help");
    std::fs::write(
        shell.place().path("duetime.toml"),
        "store = \"x.db\"\nhorizon = \"2h\"\n[webhook]\nallow_private = true\n",
    )
    .unwrap();
    let mut bare = |arguments: &[&str]| {
        let ran = run_plainly(shell.place().bare(arguments), "");
        shell.show(arguments, &ran);
    };
    bare(&["config", "show"]);
    bare(&["config", "show", "--json", "--listen", "127.0.0.1:0"]);
    bare(&["config", "check"]);
    bare(&["config", "show", "--horizon", "soon"]);
    bare(&["--version"]);
    bare(&["--help"]);
    for command in [
        "serve",
        "push",
        "list",
        "get",
        "why",
        "cancel",
        "reschedule",
        "update",
        "retry",
        "delete",
        "queues",
        "schedules",
        "events",
        "peek",
        "take",
        "work",
        "workers",
        "reserve",
        "complete",
        "fail",
        "release",
        "park",
        "extend",
        "settle",
        "locks",
        "lock",
        "export",
        "import",
        "doctor",
        "token",
        "health",
    ] {
        bare(&[command, "-h"]);
    }
    std::fs::write(shell.place().path("duetime.toml"), "colour = 1\nhorizon = 5\n[webhook]\nallow_private = \"x\"\n")
        .unwrap();
    let mut bare = |arguments: &[&str]| {
        let ran = run_plainly(shell.place().bare(arguments), "");
        shell.show(arguments, &ran);
    };
    bare(&["config", "check"]);
    bare(&["config", "show"]);
    shell.golden.finish();
}

#[test]
fn a_server_is_asked() {
    Shell::on_server("cli/server", |shell| {
        shell.run(&["health"]);
        shell.json(&["health"]);
        shell.run(&["health", "--alive"]);
        shell.run(&["lock", "stock", "--", "sh", "-c", "echo held; exit 3"]);
    });
}
