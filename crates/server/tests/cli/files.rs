//! Files that the programs leave can be read by their owner only.

use crate::cli::server::Server;
use crate::cli::support::{Place, finish};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// All that is in the folder, with its mode.
fn modes(place: &Place) -> Vec<(String, u32)> {
    let entries = fs::read_dir(place.path("")).unwrap().map(Result::unwrap);
    let mode =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().mode() & 0o7777);
    let mut modes: Vec<_> = entries.map(mode).collect();
    modes.sort();
    modes
}

/// The same command in a shell that gives everybody everything.
fn generous(place: &Place, arguments: &str) -> Command {
    let mut command = Command::new("sh");
    let duetime = env!("CARGO_BIN_EXE_duetime");
    command.args(["-c", &format!("umask 0; exec {duetime} {arguments}")]).current_dir(place.path(""));
    command
}

#[test]
fn all_files_are_their_owners_alone() {
    let place = Place::new();
    let run = |arguments: &str, input: &str| {
        let ran = finish(generous(&place, arguments), input.as_bytes());
        assert!(ran.code == 0 || ran.code == 65, "{arguments}: {ran:?}");
    };
    run("push --store test.db x", "");
    run("push --store test.db --file - --rejects rejects.jsonl", "{\"payload\": 1}\nno job\n");
    run("backup --store test.db copy.db", "");
    run("backup --store test.db copy.db", "");
    run("export --store test.db --out jobs.jsonl", "");
    run("token create shop --allow read", "");
    let names: Vec<String> = modes(&place).into_iter().map(|(name, _)| name).collect();
    for name in ["copy.db", "jobs.jsonl", "rejects.jsonl", "test.db", "test.db.lock", "tokens.toml", "tokens.toml.lock"]
    {
        assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
    }
    assert_eq!(modes(&place).into_iter().filter(|(_, mode)| *mode != 0o600).collect::<Vec<_>>(), []);
}

#[test]
fn so_are_those_beside_a_store_that_is_open() {
    let mut server = Server::start_in(Place::new(), &["--audit-log", "audit.jsonl"]);
    server.push(&["x"]);
    let modes = modes(&server.place);
    let names: Vec<&str> = modes.iter().map(|(name, _)| name.as_str()).collect();
    let store = ["test.db", "test.db-leases", "test.db-shm", "test.db-wal", "test.db.lock"];
    assert_eq!(names, [&["audit.jsonl"][..], &store].concat());
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
    // Another user cannot take a lock that would keep the next server from starting. Only root can test this.
    let lock = server.place.path("test.db.lock");
    if nix::unistd::geteuid().is_root() {
        fs::set_permissions(server.place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let mut flock = Command::new("setpriv");
        flock.args(["--reuid=65534", "--regid=65534", "--clear-groups", "flock", "--shared", "--nonblock"]);
        let locked = flock.arg(&lock).arg("true").output().unwrap();
        let said = String::from_utf8_lossy(&locked.stderr);
        assert!(!locked.status.success() && said.contains("Permission denied"), "{said}");
    }
    server.stop();
    // An older file that others could open is closed to them.
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    server.place.ok(&["list"]);
    assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o7777, 0o600);
}

/// Its lock belongs to the file, not to the name.
#[test]
fn a_renamed_store_is_held_by_its_server() {
    let server = Server::start();
    let (store, renamed) = (server.place.path("test.db"), server.place.path("renamed.db"));
    fs::rename(&store, &renamed).unwrap();
    let ran = finish(server.place.bare(&["list", "--store", "renamed.db"]), b"");
    assert!(ran.code != 0 && ran.err.contains("is open in process"), "{ran:?}");
    fs::rename(&renamed, &store).unwrap();
    server.push(&["x"]);
}

#[test]
fn the_last_backups_are_kept() {
    let place = Place::new();
    place.ok(&["push", "--delay", "1h", "x"]);
    fs::create_dir(place.path("backups")).unwrap();
    let others =
        ["test-20200101T000000Z.db.bak", "test-2020.db", "other-20200101T000000Z.db", "test-x-20200101T000000Z.db"];
    let earlier = ["test-20200101T000000Z.db", "test-20200102T000000Z.db", "test-20200103T000000Z.db"];
    for name in others.iter().chain(&earlier) {
        fs::write(place.path("backups").join(name), "").unwrap();
    }
    let said = place.json(&["backup", "--keep", "2", "backups"]);
    assert_eq!(
        said["removed"],
        serde_json::json!(["backups/test-20200101T000000Z.db", "backups/test-20200102T000000Z.db"])
    );
    let copy = said["path"].as_str().unwrap();
    assert!(copy.starts_with("backups/test-2") && copy.ends_with("Z.db"), "{copy}");
    let listed = finish(place.bare(&["list", "--store", copy]), b"");
    assert!(listed.out.contains("scheduled"), "{listed:?}");
    for name in others.iter().chain(&earlier[2..]) {
        assert!(place.path("backups").join(name).exists(), "{name} is kept");
    }
    // No folder: nothing is made and nothing removed.
    let ran = place.run(&["backup", "--keep", "2", "elsewhere"]);
    assert!(ran.code == 1 && ran.err.contains("--keep needs a folder: elsewhere"), "{ran:?}");
    assert_eq!(place.run(&["backup", "--keep", "0", "backups"]).code, 2);
}

#[test]
fn a_backup_to_the_name_of_a_weekday_works_every_week() {
    let server = Server::start();
    for week in 1..=3 {
        server.push(&["--delay", "1h", "x"]);
        let ran = server.place.run(&["backup", "monday.db"]);
        assert_eq!((ran.code, &*ran.err), (0, ""), "week {week}: {ran:?}");
        fs::copy(server.place.path("monday.db"), server.place.path("LOOKED")).unwrap();
        let listed = finish(server.place.bare(&["list", "--json", "--store", "LOOKED"]), b"");
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!(listed["jobs"].as_array().unwrap().len(), week);
    }
    // An open store is not a backup, whatever its name.
    let ran = server.place.run(&["backup", "test.db"]);
    assert!(ran.code == 1 && ran.err.contains("is in use as a store"), "{ran:?}");
}
