//! `duetime schedules`.

use crate::cli::support::Place;
use serde_json::json;

const NIGHTLY: [&str; 11] = [
    "schedules",
    "set",
    "nightly",
    "--cron",
    "30 2 * * *",
    "--time-zone",
    "Europe/Berlin",
    "--start",
    "2030-03-29T12:00:00Z",
    "--queue",
    "reports",
];

/// 2030-03-31 has no 02:30 in Berlin.
#[test]
fn a_schedule_is_rehearsed_set_and_deleted() {
    let place = Place::new();
    let seen = place.ok(&[&NIGHTLY[..], &["--dry-run"]].concat());
    assert!(seen.starts_with("not saved\n"), "{seen}");
    let lines: Vec<&str> = seen.lines().skip_while(|line| !line.starts_with("next")).collect();
    assert_eq!(lines.len(), 10, "{seen}");
    for (line, shown) in lines.iter().zip([
        "Sat 2030-03-30 02:30:00 +01:00",
        "Sun 2030-03-31 03:00:00 +02:00",
        "Mon 2030-04-01 02:30:00 +02:00",
    ]) {
        assert!(line.contains(shown), "{line}");
    }
    assert_eq!(place.json(&["schedules"]), json!({"schedules": [], "next_cursor": null}));

    let said = place.ok(&NIGHTLY);
    assert_eq!(format!("not saved\n{said}"), seen);
    assert_eq!(place.ok(&["schedules", "show", "nightly"]), said);
    let table = place.ok(&["schedules"]);
    for word in ["nightly", "30 2 * * * in Europe/Berlin", "reports", "default"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let shown = place.json(&["schedules", "show", "nightly"]);
    assert_eq!(shown["next"][1], "2030-03-31T01:00:00.000Z");
    assert_eq!(shown["schedule"]["job"]["payload"], json!({}));
    assert_eq!(place.json(&["schedules"])["schedules"][0], shown);

    assert_eq!(place.ok(&["schedules", "delete", "nightly"]), "nightly is deleted\n");
    let ran = place.run(&["schedules", "show", "nightly"]);
    assert_eq!((ran.code, ran.err.contains("there is no schedule named \"nightly\"")), (1, true), "{ran:?}");
}

#[test]
fn a_job_is_said_as_for_push() {
    let place = Place::new();
    let options = [
        "--every",
        "90s",
        "--overlap",
        "skip",
        "--missed",
        "skip",
        "--kind",
        "beat",
        "--tag",
        "t",
        "--key",
        "k",
        "--on-conflict",
        "reject",
        "--lease",
        "2m",
        "--max-attempts",
        "3",
        "--retry",
        "15s,30s",
        "--expires",
        "1h",
    ];
    let set = place.json(&[&["schedules", "set", "beat", "ping"][..], &options].concat());
    let schedule = &set["schedule"];
    assert_eq!(
        (&schedule["every"], &schedule["overlap"], &schedule["missed"]),
        (&json!("1m30s"), &json!("skip"), &json!("skip"))
    );
    let job = json!({"queue": "default", "kind": "beat", "payload_base64": "cGluZw==", "priority": 1024, "key": "k",
        "on_conflict": "reject", "key_until": "finished", "tags": ["t"], "lease": "2m", "retry": {"steps": ["15s", "30s"]},
        "max_attempts": 3, "expires": "1h"});
    assert_eq!(schedule["job"], job);
}

#[test]
fn what_is_no_schedule_is_refused() {
    let place = Place::new();
    for (options, code, why) in [
        (&["--cron", "* * * *"][..], 2, "4 fields"),
        (&["--cron", "* * * * *", "--time-zone", "Mars/Base"], 2, "IANA"),
        (&["--cron", "0 0 31 2 *"], 2, "at least one date"),
        (&["--every", "5"], 2, "without a unit"),
        (&["--every", "5s", "--cron", "* * * * *"], 2, "cannot be used with"),
        (&["--every", "5s", "--time-zone", "UTC"], 2, "cannot be used with"),
        (&[], 2, "--cron"),
    ] {
        let ran = place.run(&[&["schedules", "set", "s"][..], options].concat());
        assert_eq!((ran.code, ran.err.contains(why)), (code, true), "{ran:?}");
    }
}
