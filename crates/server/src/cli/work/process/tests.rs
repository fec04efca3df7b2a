//! Runs of real commands.

use super::*;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

/// Long enough for anything here; a test that gets this far has failed.
const LONG: Duration = Duration::from_secs(60);

fn start(script: &str, payload: &[u8], output_bytes_max: Option<usize>) -> Process {
    let command = ["sh", "-c", script].map(OsString::from);
    let program = Program::find(&command).unwrap();
    Process::start(&program, vec![("DUETIME_ID", "7".to_owned())], Payload::from(payload), output_bytes_max).unwrap()
}

async fn ended(mut process: Process) -> Exit {
    let status = tokio::time::timeout(LONG, process.wait()).await.expect("it hangs").unwrap();
    tokio::time::timeout(LONG, process.ended(status)).await.expect("its pipes hang")
}

/// The process whose id a command has written.
async fn pid_in(file: &Path) -> Pid {
    let begin = Instant::now();
    loop {
        match std::fs::read_to_string(file).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok()) {
            Some(pid) => return Pid::from_raw(pid),
            None if begin.elapsed() > LONG => panic!("no process id in {file:?}"),
            None => tokio::task::yield_now().await,
        }
    }
}

/// True if a process runs. One that has ended but was not waited for does not.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn input_environment_and_output_are_connected() {
    let ended = ended(start("cat; echo $DUETIME_ID; echo oops >&2; exit 3", b"hello ", Some(100))).await;
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(ended.output.unwrap(), b"hello 7\n");
    assert_eq!(ended.message, "oops");
}

#[tokio::test]
async fn input_that_is_not_read_harms_nothing() {
    let ended = ended(start("exit 0", &vec![b'x'; 8 << 20], Some(100))).await;
    assert!(ended.status.success());
}

#[tokio::test]
async fn much_output_is_bounded_and_said_to_be_too_much() {
    let ended = ended(start("head -c 300M /dev/zero", b"", Some(1_000))).await;
    assert!(ended.status.success());
    assert_eq!(ended.output, None);
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipes_does_not_hold_us() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let ended = ended(start(&format!("sleep 1000 & echo $! > {}; echo done >&2", file.display()), b"", Some(10))).await;
    assert!(ended.status.success());
    assert_eq!(ended.message, "done");
    let left = pid_in(&file).await;
    assert!(is_running(left), "what a command leaves behind on purpose stays");
    nix::sys::signal::kill(left, Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn ending_it_ends_its_grandchildren() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut process = start(&format!("sh -c 'sleep 1000 & echo $! > {}; wait'; true", file.display()), b"", None);
    let grandchild = pid_in(&file).await;
    assert!(is_running(grandchild));
    let status = tokio::time::timeout(LONG, process.end()).await.unwrap().unwrap();
    assert!(!status.success());
    assert!(!is_running(grandchild));
}

#[tokio::test]
async fn one_that_ignores_the_signal_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut process =
        start(&format!("trap '' TERM; echo $$ > {}; while :; do sleep 1000; done", file.display()), b"", None);
    pid_in(&file).await;
    let begin = Instant::now();
    let status = tokio::time::timeout(LONG, process.end()).await.unwrap().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(begin.elapsed() >= HEED);
}

#[tokio::test]
async fn dropped_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let process = start(&format!("sleep 1000 & echo $! > {}; wait", file.display()), b"", None);
    let pid = pid_in(&file).await;
    drop(process);
    let begin = Instant::now();
    while is_running(pid) {
        assert!(begin.elapsed() < LONG, "it still runs");
        tokio::task::yield_now().await;
    }
}
