//! A disk that becomes read-only under a running server, as after an error of the file system.

use super::starved::Disk;
use super::{BUDGETS, MEMORY_BYTES_MAX, Pressed};
use crate::http::server::{Server, command, eventually};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Refuses to write to files beside the one that `READ_ONLY_WHILE` names, while that one exists. A file system cannot be mounted
/// read-only while files are open for writing: only the kernel can do that, when it has met an error.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

static int is_refused(int fd) {
    struct stat now, file;
    const char *name = getenv("READ_ONLY_WHILE");
    if (!name || stat(name, &now) || fstat(fd, &file) || !S_ISREG(file.st_mode) || file.st_dev != now.st_dev)
        return 0;
    errno = EROFS;
    return 1;
}

#define GUARD(result, name, parameters, ...) \
    result name parameters { \
        result (*real) parameters = (result (*) parameters)dlsym(RTLD_NEXT, #name); \
        return is_refused(fd) ? -1 : real(__VA_ARGS__); \
    }

GUARD(ssize_t, write, (int fd, const void *bytes, size_t count), fd, bytes, count)
GUARD(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
GUARD(ssize_t, pwrite, (int fd, const void *bytes, size_t count, off_t at), fd, bytes, count, at)
GUARD(ssize_t, pwrite64, (int fd, const void *bytes, size_t count, off64_t at), fd, bytes, count, at)
GUARD(int, ftruncate, (int fd, off_t length), fd, length)
GUARD(int, ftruncate64, (int fd, off64_t length), fd, length)
"#;

/// A library of it.
fn library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("read_only.c"), folder.join("read_only.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
    assert!(made.unwrap().success(), "this test needs a C compiler");
    library
}

#[test]
fn a_disk_that_becomes_read_only_is_told_and_survived() {
    const CALLERS: usize = 16;
    let (disk, folder) = (Disk::mount("64m"), tempfile::tempdir().unwrap());
    let (store, read_only) = (disk.0.path().join("duetime.db"), disk.0.path().join("read-only"));
    let mut arguments = vec!["--store", store.to_str().unwrap(), "--beanstalk", "127.0.0.1:0"];
    arguments.extend(BUDGETS);
    let mut server = command();
    server.env("LD_PRELOAD", library(folder.path())).env("READ_ONLY_WHILE", &read_only);
    let p = Pressed::of(Server::run(server, &arguments));
    let accepted = Mutex::new(HashSet::new());
    let push = |refused: &str| {
        let job = json!({"payload": "x".repeat(1_000)});
        loop {
            let reply = p.server.post("/v1/queues/q/jobs", &job);
            if reply.status == 201 {
                let id = reply.json()["id"].as_str().unwrap().to_owned();
                assert!(accepted.lock().unwrap().insert(id));
            } else {
                reply.problem(503, refused);
                return;
            }
        }
    };
    p.ask("POST", "/v1/queues/held/jobs", &json!({"payload": 1}));
    let held = p.ask("POST", "/v1/queues/held/reserve", &json!({}))["leases"][0].clone();
    let complete = format!("/v1/leases/{}/complete", held["receipt"].as_str().unwrap());
    std::thread::scope(|scope| {
        (0..CALLERS).for_each(|_| drop(scope.spawn(|| push("store_unavailable"))));
        eventually(|| accepted.lock().unwrap().len() > 100);
        std::fs::write(&read_only, "").unwrap();
    });
    let accepted = accepted.into_inner().unwrap();
    // The outcome is refused, and kept.
    p.server.call(&complete).problem(503, "store_unavailable");
    eventually(|| p.server.get("/readyz").body.contains("store_unwritable"));
    assert_eq!(p.server.get("/readyz").status, 503);
    // Readers are answered.
    assert_eq!(p.ask("GET", "/v1/queues/q", &Value::Null)["ready"], accepted.len());
    assert_eq!(p.ask("GET", "/v1/jobs?queue=q&limit=1", &Value::Null)["jobs"].as_array().map(Vec::len), Some(1));
    assert!(p.memory() < MEMORY_BYTES_MAX, "{} MiB", p.memory() >> 20);
    // A process that ends meanwhile finds out at its start.
    std::fs::remove_file(&read_only).unwrap();
    eventually(|| p.server.get("/readyz").status == 200);
    assert_eq!(p.server.call(&complete).status, 200);
    p.serves_others("a disk that was read-only");

    let mut p = p;
    p.server.signal(Signal::SIGKILL);
    p.server.wait();
    mounted(&disk, "ro");
    let refused = command().args(&arguments).args(["--listen", "127.0.0.1:0"]).stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("write"), "{said}");
    mounted(&disk, "rw");
    let p = Pressed::of(Server::with(&arguments));
    let done = p.ask("GET", &format!("/v1/jobs/{}", held["id"].as_str().unwrap()), &Value::Null);
    assert_eq!(done["state"], "succeeded");
    let mut found = HashSet::new();
    loop {
        let page = p.ask("POST", "/v1/queues/q/reserve", &json!({"limit": 1000}))["leases"].clone();
        let ids: Vec<_> =
            page.as_array().unwrap().iter().map(|lease| lease["id"].as_str().unwrap().to_owned()).collect();
        if ids.is_empty() {
            break;
        }
        found.extend(ids);
    }
    assert_eq!(found, accepted);
}

fn mounted(disk: &Disk, how: &str) {
    let options = format!("remount,{how}");
    assert!(Command::new("mount").args(["-o", &options]).arg(disk.0.path()).status().unwrap().success());
}
