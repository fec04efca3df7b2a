//! The README's commands, run as they stand.
//!
//! In place of the clone there is a folder with the built binary at `target/release/duetime`, and a `cargo` that runs
//! it for `cargo run --release --`. The ports are others: by `DUETIME_LISTEN` and `DUETIME_SERVER`, and in the text for
//! `curl` and Redis, which is a private one. Nothing else differs. `cargo xtask test` is what runs this test; the examples
//! that are named have one of their own.

use duetime_store::testing::RedisServer;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const README: &str = include_str!("../../../README.md");
/// Where the README's server listens.
const ADDRESS: &str = "127.0.0.1:7300";
const SERVE: &str = "cargo run --release -- serve";
const TEST: &str = "cargo xtask test";
const SERVE_REDIS: &str = "duetime serve --broker redis://127.0.0.1:6379";
/// Where the README's Redis listens.
const REDIS: &str = "redis://127.0.0.1:6379";
const EXAMPLES: &str = "cargo run -p duetime --features redis --example";

/// The README's blocks in a language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let starts = README.split(&fence).skip(1);
    starts.map(|rest| rest.split_once("\n```").expect("a block has an end").0.to_owned()).collect()
}

fn fake_clone(folder: &Path) {
    fs::create_dir_all(folder.join("target/release")).unwrap();
    fs::create_dir_all(folder.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_duetime"), folder.join("target/release/duetime")).unwrap();
    let cargo = folder.join("bin/cargo");
    let script =
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] && shift 3 && exec target/release/duetime \"$@\"\nexit 1\n";
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
}

fn shell(folder: &Path, script: &str, address: &str) -> Command {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder).env("PATH", path).env_remove("DUETIME_STORE");
    command.env("DUETIME_LISTEN", address).env("DUETIME_SERVER", format!("http://{address}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Ends with the test, however that ends.
struct Server(Child);

impl Server {
    /// Starts it with this command, and waits until it says where it listens.
    fn start(folder: &Path, script: &str) -> (Self, String) {
        let server = shell(folder, script, "127.0.0.1:0").process_group(0).spawn().unwrap();
        let mut server = Self(server);
        let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| Some(line.unwrap().split_once("listening on http://")?.1.trim().to_owned()))
            .expect("the server says where it listens");
        std::thread::spawn(move || lines.for_each(drop));
        (server, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server is in the shell's group, whatever the shell made of it.
        let _ = killpg(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn its_commands_work_as_they_stand() {
    let mut blocks = blocks("sh");
    assert_eq!(blocks.remove(0), SERVE, "the first block starts the server");
    assert!(blocks.iter().any(|block| block == SERVE_REDIS), "{blocks:?}");
    blocks.retain(|block| block != TEST && block != SERVE_REDIS && !block.starts_with(EXAMPLES));
    let folder = tempfile::tempdir().unwrap();
    fake_clone(folder.path());
    let redis = RedisServer::start();

    let (_server, address) = Server::start(folder.path(), SERVE);
    let path = "PATH=\"$PWD/target/release:$PATH\"";
    let serve_redis = format!("{path}\n{}", SERVE_REDIS.replace(REDIS, &redis.url()));
    let (_other, _) = Server::start(folder.path(), &serve_redis);

    let script = blocks.join("\n").replace(ADDRESS, &address).replace(REDIS, &redis.url());
    let mut child = shell(folder.path(), &script, &address).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    for expected in ["pushed: queue greetings", "\"outcome\":\"created\"", "scheduled", "hello, two seconds later\n"] {
        assert!(said.contains(expected), "{expected} is missing: {said}");
    }
    assert!(said.contains("not saved\nschedule  nightly\n") && said.contains("\"name\":\"weekly\""), "{said}");
    assert!(said.contains("{\"hello\": \"curl\"}\n") && said.contains("hello from Redis\n"), "{said}");
}

/// The README's program, but for `main`.
#[expect(clippy::unit_arg, reason = "the program is to be short")]
async fn example() -> Result<(), duetime::Error> {
    use std::time::Duration;
    let client = duetime::Client::open("jobs.db").await?; // or Client::connect("http://127.0.0.1:7300").await?
    client.push_raw("greet", *b"hello").delay(Duration::from_secs(2)).await?;
    let worker = duetime::Worker::new(&client).raw_handler("greet", async |payload, _| Ok(println!("{payload:?}")));
    worker.run_for(Duration::from_secs(5)).await?;
    client.close().await
}

#[test]
fn its_program_is_the_one_here_and_runs() {
    let here = include_str!("readme.rs");
    let block = blocks("rust").remove(0);
    assert!(block.lines().filter(|line| !line.is_empty()).count() <= 10);
    for line in block.lines().filter(|line| !line.contains("main")) {
        assert!(here.contains(line.trim()), "not in this file: {line}");
    }
    // In a process of its own: the program names a file in the folder it is in.
    if std::env::var_os("README_EXAMPLE").is_some() {
        tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = ["readme::its_program_is_the_one_here_and_runs", "--exact", "--nocapture"];
    let mut child = Command::new(std::env::current_exe().unwrap());
    let ran = child.args(own).env("README_EXAMPLE", "1").current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("[104, 101, 108, 108, 111]"), "{said}");
    assert!(folder.path().join("jobs.db").exists());
}
