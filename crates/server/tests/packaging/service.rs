//! The unit of systemd, judged by systemd's own programs.

use super::{read, run, variables};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tenths of the exposure level, of which 100 is the worst.
const EXPOSURE_MAX: &str = "20";
const PROGRAM: &str = "/usr/bin/duetime";

/// The unit with the program that is here.
fn unit(folder: &Path) -> PathBuf {
    let text = read("duetime.service");
    assert!(text.contains(&format!("ExecStart={PROGRAM} serve\n")), "{text}");
    let unit = folder.join("duetime.service");
    fs::write(&unit, text.replace(PROGRAM, env!("CARGO_BIN_EXE_duetime"))).unwrap();
    unit
}

#[test]
fn the_unit_is_sound_and_confined() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit(folder.path());
    let said = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit));
    assert!(said.is_empty(), "{said}");
    let said = run(Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--no-pager", &format!("--threshold={EXPOSURE_MAX}")])
        .arg(&unit));
    println!("{}", said.lines().last().unwrap_or_default());
}

#[test]
fn its_user_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("usr/lib/sysusers.d");
    fs::create_dir_all(&made).unwrap();
    fs::create_dir_all(folder.path().join("etc")).unwrap();
    fs::write(made.join("duetime.conf"), read("duetime.sysusers")).unwrap();
    run(Command::new("systemd-sysusers").arg(format!("--root={}", folder.path().display())));
    let users = fs::read_to_string(folder.path().join("etc/passwd")).unwrap();
    let user = users.lines().find(|line| line.starts_with("duetime:")).expect("the user");
    assert!(user.ends_with(":/var/lib/duetime:/usr/sbin/nologin"), "{user}");
    let unit = read("duetime.service");
    assert!(unit.contains("\nUser=duetime\nGroup=duetime\n"), "{unit}");
}

#[test]
fn the_variables_that_it_speaks_of_are_there() {
    let known = variables();
    for name in ["duetime.service", "README.md"].iter().flat_map(|file| named(&read(file))) {
        assert!(known.contains(&name), "{name} is none of {known:?}");
    }
}

/// All words `DUETIME_…` of a text.
pub(crate) fn named(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("DUETIME_"));
    words.filter(|word| !word.ends_with("_PASSWORD")).map(str::to_owned).collect()
}
