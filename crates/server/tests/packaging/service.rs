//! The units of systemd, judged by systemd's own programs.

use super::server::Server;
use super::{path as path_of, read, run, variables};
use crate::certificate::Certificate;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const DOCS: &str = include_str!("../../../../docs/operations/install.md");
/// Tenths of the exposure level; 100 is the worst.
const EXPOSURE_MAX: &str = "20";
const PROGRAM: &str = "/usr/bin/duetime";

const UNITS: [&str; 3] = ["duetime.service", "duetime-backup.service", "duetime-backup.timer"];

/// The units with the program that is here.
fn units(folder: &Path) -> [PathBuf; 3] {
    UNITS.map(|name| {
        let text = read(name);
        assert!(name.ends_with(".timer") || text.contains(&format!("\nExecStart={PROGRAM} ")), "{text}");
        let unit = folder.join(name);
        fs::write(&unit, text.replace(PROGRAM, env!("CARGO_BIN_EXE_duetime"))).unwrap();
        unit
    })
}

#[test]
fn the_units_are_sound_and_confined() {
    let folder = tempfile::tempdir().unwrap();
    let units = units(folder.path());
    let said = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units));
    assert!(said.is_empty(), "{said}");
    for service in &units[..2] {
        let said = run(Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--no-pager", &format!("--threshold={EXPOSURE_MAX}")])
            .arg(service));
        println!("{}", said.lines().last().unwrap_or_default());
    }
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
    for unit in &UNITS[..2] {
        assert!(read(unit).contains("\nUser=duetime\nGroup=duetime\n"), "{unit}");
    }
}

/// The last block of commands under each of these headings of the page: the installation without a package.
fn documented() -> Vec<String> {
    let last = |heading: &str| {
        let section = DOCS.split_once(&format!("\n## {heading}\n")).expect("the heading is there").1;
        let section = section.split("\n## ").next().unwrap();
        section.rsplit_once("```sh\n").unwrap().1.split_once("```").unwrap().0.to_owned()
    };
    ["Any Linux", "The service"].map(last).into()
}

/// The documented commands, run below a folder. This system does not have the user: its number stands for its name.
fn install(root: &Path) {
    for folder in ["etc/systemd/system", "usr/bin", "usr/lib/sysusers.d", "var/backups", "bin"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let shown = root.display();
    let mut script = documented().join("\n");
    for folder in ["/usr/", "/etc/", "/var/"] {
        script = script.replace(&format!(" {folder}"), &format!(" {shown}{folder}"));
    }
    let number = format!("\"$(sed -n 's/^duetime:[^:]*:\\([0-9]*\\):.*/\\1/p' {shown}/etc/group)\"");
    for option in ["-o", "-g"] {
        script = script.replace(&format!("{option} duetime"), &format!("{option} {number}"));
    }
    let script = script.replace("systemd-sysusers", &format!("systemd-sysusers --root={shown}"));
    // The test itself starts the services that the script would start.
    fs::write(root.join("bin/systemctl"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    let certificate = Certificate::new();
    fs::copy(certificate.path("server.pem"), root.join("server.pem")).unwrap();
    fs::copy(certificate.path("server.key"), root.join("server.key")).unwrap();
    let path = format!("{shown}/bin:{shown}/usr/bin:{}", std::env::var("PATH").unwrap());
    // The folder of the tarball; what the page does not bring along is there, too.
    symlink(env!("CARGO_BIN_EXE_duetime"), root.join("duetime")).unwrap();
    for name in ["duetime.sysusers", "duetime.toml"].iter().chain(&UNITS) {
        fs::copy(path_of(name), root.join(name)).unwrap();
    }
    run(Command::new("sh").args(["-eu", "-c", &script]).current_dir(root).env("PATH", path));
}

/// As this user and group, with nothing else.
fn as_user(user: u32) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]);
    command.args(["--inh-caps=-all", "env", "-i"]);
    command
}

#[test]
fn what_the_page_installs_starts_as_its_user() {
    if !nix::unistd::geteuid().is_root() {
        println!("only root can install it and become its user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    install(&root);
    let users = fs::read_to_string(root.join("etc/passwd")).unwrap();
    let user = users.lines().find_map(|line| line.strip_prefix("duetime:")).expect("the user");
    let user: u32 = user.split(':').nth(1).unwrap().parse().unwrap();
    // As systemd creates it.
    let state = root.join("var/lib/duetime");
    fs::create_dir_all(&state).unwrap();
    std::os::unix::fs::chown(&state, Some(user), Some(user)).unwrap();
    let etc = root.join("etc/duetime");
    let at = |name: &str| format!("{}/{name}", etc.display());
    let serve = || {
        let mut command = as_user(user);
        let options = [("TOKENS", "tokens.toml"), ("TLS_CERT", "server.pem"), ("TLS_KEY", "server.key")];
        command.args(options.map(|(name, file)| format!("DUETIME_{name}={}", at(file))));
        command.arg(format!("DUETIME_CONFIG={}", at("duetime.toml"))).arg("DUETIME_LISTEN=127.0.0.1:0");
        command.arg(root.join("usr/bin/duetime")).arg("serve").current_dir(&state).env_clear();
        command
    };
    let server = Server::spawn(&mut serve());
    assert!(server.banner.contains("holders of a token") && server.banner.contains("https://"), "{}", server.banner);
    drop(server);
    // Root changes the tokens, and the server can still read them.
    let mut command = Command::new(root.join("usr/bin/duetime"));
    run(command.args(["token", "create", "shop", "--allow", "push", "--tokens", &at("tokens.toml")]));
    drop(Server::spawn(&mut serve()));
    let mode = |name: &str| fs::metadata(etc.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(["", "tokens.toml", "server.key", "environment"].map(mode), [0o750, 0o640, 0o640, 0o600]);
    // Others cannot read any of it.
    let mut command = as_user(user + 1);
    assert!(!command.arg("cat").arg(at("tokens.toml")).env_clear().status().unwrap().success());
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
