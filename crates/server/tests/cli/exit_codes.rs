//! Every exit code: documented in the help and the book, and reached.

use crate::cli::ledger::Sql;
use crate::cli::server::Server;
use crate::cli::support::{Place, finish};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;

const ALL: [i32; 10] = [0, 1, 2, 65, 69, 70, 75, 78, 126, 127];

/// The lines of the page's table.
fn documented() -> Vec<i32> {
    let page = include_str!("../../../../docs/reference/exit-codes.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(' ').next()?.parse().ok()).collect()
}

#[test]
fn all_are_documented() {
    assert_eq!(documented(), ALL);
    let source = include_str!("../../src/cli/exit.rs");
    let declared = source.lines().filter_map(|line| line.split_once(": u8 = ")?.1.strip_suffix(';')?.parse().ok());
    declared.for_each(|code: i32| assert!(ALL.contains(&code), "{code} is not documented"));
    let help = Place::new().bare(&["--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap().replace('\n', " ");
    let (_, codes) = help.split_once("Exit codes:").unwrap();
    for code in ALL {
        assert!(codes.split([' ', ':', ',', ';']).any(|word| word == code.to_string()), "{code}: {codes}");
    }
}

#[test]
fn all_are_reached() {
    let place = Place::new();
    let code = |arguments: &[&str], input: &[u8]| finish(place.command(arguments), input).code;
    assert_eq!(code(&["push", "x"], b""), 0);
    assert_eq!(code(&["get", "7"], b""), 1);
    assert_eq!(code(&["get"], b""), 2);
    assert_eq!(code(&["push", "--queue", "no queue", "x"], b""), 2);
    assert_eq!(code(&["push", "--dely=5s"], b""), 2, "it is no payload");
    assert_eq!(code(&["push", "-5"], b""), 0, "a number is");
    assert_eq!(code(&["push", "--", "--dely=5s"], b""), 0);
    assert_eq!(code(&["push", "--file", "-"], b"{\"payload\":1}\n{\"nonsense\":1}\n"), 65);
    assert_eq!(code(&["push", "--file", "-"], b"{\"nonsense\":1}\n"), 1);
    assert_eq!(code(&["work", "default", "--once", "--", "no-such-program"], b""), 127);
    std::fs::write(place.path("data"), "").unwrap();
    std::fs::set_permissions(place.path("data"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(code(&["work", "default", "--once", "--", "./data"], b""), 126);
    let bare = |arguments: &[&str]| finish(place.bare(arguments), b"").code;
    assert_eq!(bare(&["serve", "--store", "memory", "--listen", "0.0.0.0:0"]), 2, "no tokens");
    std::fs::write(place.path("duetime.toml"), "nonsense = 1\n").unwrap();
    assert_eq!(bare(&["config", "check"]), 78);
    assert_eq!(bare(&["serve"]), 78);
    assert_eq!(bare(&["list", "--server", "http://127.0.0.1:1"]), 75);
    for wrong in ["foo", "http://", "ftp://x", "http://127.0.0.1:99999"] {
        assert_eq!(bare(&["list", "--server", wrong]), 2, "{wrong}");
    }
    let mut no_text = place.bare(&["list"]);
    no_text.env("DUETIME_SERVER", OsStr::from_bytes(b"http://127.0.0.1:1\xff"));
    assert_eq!(finish(no_text, b"").code, 2);
    let sql = Sql::postgres();
    assert_eq!(bare(&["migrate", "--check", "--ledger", &sql.url()]), 78);
    let server = Server::start();
    let acquire = ["locks", "acquire", "l", "--owner"];
    assert_eq!(server.run(&[&acquire[..], &["a", "--ttl", "1h"]].concat()).code, 0);
    assert_eq!(server.run(&[&acquire[..], &["b"]].concat()).code, 69);
    server.run(&["push", "--queue", "own", "x"]);
    let script = format!("{} complete $DUETIME_RECEIPT; exit 1", env!("CARGO_BIN_EXE_duetime"));
    let own = server.run(&["work", "own", "--once", "--", "sh", "-c", &script]);
    assert!(own.code == 75 && own.err.contains("1 lost their lease or were not recorded"), "{own:?}");
    // 70 is reached in `lock::a_lost_lock_ends_the_command`, which takes a server away.
}
