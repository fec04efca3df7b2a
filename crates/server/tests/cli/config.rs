//! The configuration of a server: a file, variables, flags.

use crate::cli::support::{Place, Ran, finish};
use serde_json::Value;

fn run(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = place.bare(arguments);
    command.envs(variables.iter().copied());
    finish(command, b"")
}

/// A folder with this duetime.toml.
fn configured(text: &str) -> Place {
    let place = Place::new();
    std::fs::write(place.path("duetime.toml"), text).unwrap();
    place
}

fn shown(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Value {
    let ran = run(place, &[&["config", "show", "--json"], more].concat(), variables);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

fn setting<'a>(shown: &'a Value, key: &str) -> &'a Value {
    shown["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap()
}

#[test]
fn a_server_takes_its_options_from_the_file_in_its_folder() {
    let place = configured("store = \"configured.db\"\nlisten = \"127.0.0.1:0\"\ninstance = \"shop 1\"\n");
    let ran = run(&place, &["serve"], &[]);
    assert!(
        ran.code == 78 && ran.err.contains("`instance` in duetime.toml, line 3: expected a name of 1 to 64"),
        "{ran:?}"
    );
    // The address in the error proves which setting counts. If the port is taken, the process ends before the store is made.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = configured(&format!("listen = \"{address}\"\n"));
    let ran = run(&place, &["serve"], &[]);
    assert!(ran.code == 1 && ran.err.contains(&format!("cannot listen on {address}")), "{ran:?}");
}

#[test]
fn the_flag_counts_before_the_variable_before_the_file() {
    let place = configured("horizon = \"2h\"\n[webhook]\nallow_private = true\n");
    let variables = [("DUETIME_HORIZON", "3h"), ("DUETIME_SETTLE", "")];
    let document = shown(&place, &[], &[]);
    assert_eq!(document["file"], "duetime.toml");
    let horizon = setting(&document, "horizon");
    assert_eq!(
        (&horizon["value"], &horizon["from"]["kind"], &horizon["from"]["line"]),
        (&"2h".into(), &"file".into(), &1.into())
    );
    assert_eq!(setting(&document, "webhook_allow_private")["value"], true);
    assert_eq!(setting(&document, "store")["from"]["kind"], "default");
    let horizon = setting(&shown(&place, &[], &variables), "horizon").clone();
    assert_eq!((&horizon["value"], &horizon["from"]["name"]), (&"3h".into(), &"DUETIME_HORIZON".into()));
    let horizon = setting(&shown(&place, &["--horizon", "4h"], &variables), "horizon").clone();
    assert_eq!((&horizon["value"], &horizon["from"]["name"]), (&"4h".into(), &"--horizon".into()));
    let ran = run(&place, &["config", "show"], &variables);
    let line = ran.out.lines().find(|line| line.trim_start().starts_with("webhook_allow_private")).unwrap();
    assert!(line.contains("true") && line.ends_with("duetime.toml, line 3"), "{}", ran.out);
}

#[test]
fn a_check_says_all_that_is_wrong() {
    let place =
        configured("liten = \"x\"\nlisten = \"0.0.0.0:7300\"\nlog_level = \"x=y=z\"\nwebhook_keys = \"none\"\n");
    let ran = run(&place, &["config", "check"], &[("DUETIME_PAYLOAD_MAX", "65MiB")]);
    assert_eq!((ran.code, &*ran.out), (78, ""), "{ran:?}");
    for words in [
        "unknown key `liten` in duetime.toml, line 1; did you mean `listen`?",
        "64MiB",
        "--allow-remote",
        "--log-level",
        "none",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert_eq!(ran.err.lines().count(), 5, "{}", ran.err);
    let ran = run(&place, &["config", "check", "--json"], &[]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let mistakes = document["mistakes"].as_array().unwrap();
    assert!(ran.code == 78 && document["ok"] == false && mistakes.len() == 4, "{document}");
    assert_eq!((&mistakes[0]["key"], &mistakes[0]["from"]["line"]), (&"liten".into(), &1.into()));
    // A variable with a mistyped name.
    let ran = run(&Place::new(), &["config", "check"], &[("DUETIME_LISTN", "0.0.0.0:1")]);
    assert!(
        ran.code == 78 && ran.err.contains("DUETIME_LISTN is unknown and ignored; did you mean DUETIME_LISTEN?"),
        "{ran:?}"
    );
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    // The server refuses the same, with the same code if a file is wrong.
    let ran = run(&place, &["serve"], &[]);
    assert!(ran.code == 78 && ran.err.contains("unknown key `liten`"), "{ran:?}");
    let ran = run(&Place::new(), &["serve"], &[("DUETIME_PAYLOAD_MAX", "65MiB")]);
    assert!(
        ran.code == 2 && ran.err.contains("the variable DUETIME_PAYLOAD_MAX") && ran.err.contains("64MiB"),
        "{ran:?}"
    );
}

#[test]
fn a_check_of_what_is_right_is_quiet() {
    let place = configured("[log]\nformat = \"json\"\n");
    let ran = run(&place, &["config", "check"], &[]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "the configuration is valid (duetime.toml)\n", ""));
    let ran = run(&Place::new(), &["config", "check", "--config", "none.toml"], &[]);
    assert!(ran.code == 78 && ran.err.contains("cannot read none.toml"), "{ran:?}");
}

#[test]
fn a_flag_puts_the_store_of_the_file_aside() {
    let place = configured("store = \"a.db\"\n");
    let ran = run(&place, &["config", "show", "--broker", "redis://me:hush@h"], &[]);
    assert!(ran.err.contains("`store` (duetime.toml, line 1) is overridden by the flag --broker"), "{ran:?}");
    assert!(ran.out.contains("redis://***@h") && !format!("{ran:?}").contains("hush"), "{ran:?}");
    let ran = run(&place, &["config", "check"], &[("DUETIME_LEDGER", "mysql://me:hush@h/d")]);
    assert!(ran.code == 78 && ran.err.contains("the variable DUETIME_LEDGER needs `broker`"), "{ran:?}");
    assert!(!format!("{ran:?}").contains("hush"), "{ran:?}");
}

/// To regenerate the file, run `duetime config example > packaging/duetime.toml`.
#[test]
fn the_example_that_is_shipped_is_the_one_that_is_printed() {
    let ran = run(&Place::new(), &["config", "example"], &[]);
    assert_eq!(ran.out, include_str!("../../../../packaging/duetime.toml"));
    let ran = run(&configured(&ran.out), &["config", "check"], &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
