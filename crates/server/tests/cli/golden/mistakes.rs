//! Errors of wrong command lines, variables and configuration files. They name the option and the accepted values, without
//! the words of a library.

use super::{Shell, run_plainly};

/// Words of the libraries that read command lines, TOML, JSON and cron expressions, and of the system's error numbers.
const FOREIGN: [&str; 8] = [
    "invalid digit",
    "is not in ",
    "non-zero type",
    "socket address",
    "os error",
    "omponent error",
    "EOF",
    "literal string",
];

const LINES: [&[&str]; 37] = [
    &["serve", "--listen", ":7313"],
    &["serve", "--listen", "localhost:7313"],
    &["serve", "--connections-max", "0"],
    &["serve", "--ledger", "mysql://app@db/jobs"],
    &["serve", "--listen", "127.0.0.1:0", "--broker", "queue:6379"],
    &["serve", "--tls-cert", "cert.pem", "--tls-key", "key.pem"],
    &["serve", "--listen", "0.0.0.0:7313"],
    &["demo", "--serve", "--listen", ":1"],
    &["work", "orders", "./cancel.sh"],
    &["work", "orders", "./cancel.sh", "--force"],
    &["work", "orders", "sh", "-c", "cat"],
    &["lock", "deploy", "./deploy.sh"],
    &["push", "--priority", "high", "x"],
    &["push", "--priority", "5000000000", "x"],
    &["push", "--delay", "5", "x"],
    &["push", "--delay", "-1s", "x"],
    &["push", "--delay", "20y", "x"],
    &["push", "--delay", "7300d", "x"],
    &["push", "--priority", "-1", "x"],
    &["push", "--lease", "20h", "x"],
    &["reserve", "orders", "--wait", "5m"],
    &["push", "--at", "tomorrow", "x"],
    &["push", "--retry", "5", "x"],
    &["queues", "set", "orders", "--rate", "100"],
    &["queues", "set", "orders", "--max-running", "many"],
    &["queues", "set", "orders", "--target", "redis://app:secret@db/0"],
    &["queues", "set", "orders", "--target", r#"{"url":"redis://app:secret@db/0"}"#],
    &["schedules", "set", "nightly"],
    &["bench", "push", "--tasks", "0"],
    &["list", "--server", "queue:7300"],
    &["list", "--server", "http://127.0.0.1:7300", "--ca", "none.pem"],
    &["list", "--server", "http://127.0.0.1:7300", "--token-file", "none.txt"],
    &["list", "--state", "dead"],
    &["list", "--state", "unheard"],
    &["list", "--due-from", "yesterday"],
    &["reschedule", "7"],
    &["cancel"],
];

const FILES: [&str; 12] = [
    "listen = localhost",
    "listen = 7300",
    "listen = \":7300\"",
    "listn = \"127.0.0.1:7300\"",
    "horizon = \"soon\"",
    "horizon = 5",
    "no_migrate = \"yes\"",
    "horizon = \"1h\"\nhorizon = \"2h\"",
    "ledger = \"postgres://app:secret@db/jobs\"",
    "ledger_connections = 4",
    "settle = \"later\"",
    "tokens = \"none.toml\"",
];

#[test]
fn mistakes() {
    let mut shell = Shell::on_store("cli/mistakes");
    let mut show = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = shell.place().bare(arguments);
        command.envs(variable);
        let ran = run_plainly(command, "");
        assert!(ran.code != 0 || variable.is_some(), "{arguments:?}: {ran:?}");
        assert!(!FOREIGN.iter().any(|word| ran.err.contains(word)), "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains("secret"), "{arguments:?}: {ran:?}");
        shell.show(arguments, &ran);
    };
    LINES.iter().for_each(|line| show(line, None));
    show(&["config", "check"], Some(("DUETIME_LISTN", "127.0.0.1:7313")));
    show(&["config", "check"], Some(("DUETIME_HORIZON", "5")));
    for file in FILES {
        let path = shell.place().path("duetime.toml");
        std::fs::write(path, file).unwrap();
        shell.golden.add(&format!("# {}", file.replace('\n', "; ")));
        let ran = run_plainly(shell.place().bare(&["config", "check"]), "");
        assert!(ran.code == 78 && !FOREIGN.iter().any(|word| ran.err.contains(word)), "{file}: {ran:?}");
        assert!(!ran.err.contains("secret"), "{ran:?}");
        shell.show(&["config", "check"], &ran);
    }
    shell.golden.finish();
}
