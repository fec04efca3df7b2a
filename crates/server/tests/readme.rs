//! The README: its commands run as they stand, and its program is compiled and run.

use crate::book::read_along;
use std::process::Command;

const README: &str = include_str!("../../../README.md");

#[test]
fn its_commands_work_as_they_stand() {
    let printed = read_along("README.md");
    for expected in ["pushed: queue greetings", "\"outcome\":\"created\"", "hello, two seconds later\n"] {
        assert!(printed.contains(expected), "{expected} is missing: {printed}");
    }
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
    let block = README.split_once("```rust\n").unwrap().1.split_once("\n```").unwrap().0;
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
