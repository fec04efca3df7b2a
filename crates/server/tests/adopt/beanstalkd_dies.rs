//! The command and beanstalkd are killed, and each job is adopted exactly once.

use super::beanstalkd::{DRAIN, adopt, command, counts, drain, jobs, put};
use crate::beanstalk::script::Talk;
use crate::beanstalk::server::{Alone, free_port};
use crate::cli::server::Server;
use crate::cli::support::{Place, pid, until};
use crate::common::Random;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Counters that grow while the command works.
const COUNTERS: [&str; 6] =
    ["cmd-reserve-with-timeout", "cmd-stats-job", "cmd-put", "cmd-bury", "cmd-delete", "current-jobs-buried"];

fn spawn(server: &Server, source: &Alone) -> Child {
    let mut command = command(server, source, &DRAIN);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until one of the counters has grown by some amount, or the command has ended.
fn wait_for_progress(talk: &mut Talk, child: &mut Child, random: &mut Random) {
    let counter = COUNTERS[random.within(0..COUNTERS.len() as u64) as usize];
    let by = random.within(0..700);
    let mut read = || talk.stats("stats").unwrap()[counter].parse::<u64>().unwrap();
    let before = read();
    until("progress, or the end", || (read() >= before + by || child.try_wait().unwrap().is_some()).then_some(()));
}

fn payloads(jobs: &[Value]) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    jobs.iter().for_each(|job| *counts.entry(job["payload"].to_string()).or_default() += 1);
    counts
}

/// An old worker: reserves and deletes until it is stopped. Returns the jobs that it ran.
fn work(source: &Alone, is_over: &AtomicBool, ran: &Mutex<Vec<String>>) {
    let mut talk = Talk::open(source.address);
    talk.ask("watch both");
    talk.ask("ignore default");
    while !is_over.load(Ordering::Relaxed) {
        let line = talk.ask("reserve-with-timeout 0");
        let Some(rest) = line.strip_prefix("RESERVED ") else { continue };
        let id = rest.split(' ').next().unwrap().to_owned();
        let body = talk.line();
        assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
        ran.lock().unwrap().push(body);
    }
}

#[test]
fn kill_of_the_command_beside_a_worker_loses_and_doubles_nothing() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    let (mut count, ran, is_over) = (0_u64, Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| work(&source, &is_over, &ran));
        for _ in 0..12 {
            for _ in 0..random.within(500..1_500) {
                let (tube, delay_s) = if random.percent(50) { ("both", 0) } else { ("later", 50_000) };
                put(&mut talk, tube, &format!("{} {delay_s} 60", random.within(0..9)), count.to_string().as_bytes());
                count += 1;
            }
            let mut child = spawn(&server, &source);
            wait_for_progress(&mut talk, &mut child, &mut random);
            let _ = child.kill();
            child.wait().unwrap();
        }
        drain(&server, &source);
        is_over.store(true, Ordering::Relaxed);
    });
    let ran = ran.into_inner().unwrap();
    println!("{count} jobs, {} by the worker", ran.len());
    let adopted = jobs(&server);
    assert_eq!(adopted.len() + ran.len(), count as usize);
    let mut all = payloads(&adopted);
    ran.into_iter().for_each(|body| *all.entry(body).or_default() += 1);
    assert_eq!(all.len() as u64, count, "each of them, once");
    for job in adopted {
        assert_eq!(job["state"], if job["queue"] == "later" { "scheduled" } else { "ready" }, "{job}");
    }
    assert!(talk.stats("stats-tube duetime-adopt").is_none(), "no claim is left");
}

fn on(folder: &Path, port: u16) -> Alone {
    Alone::original(port, &["-f", "0", "-b", folder.to_str().unwrap()])
}

#[test]
fn kill_of_beanstalkd_with_its_log_loses_and_doubles_nothing() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = Server::start();
    let mut source = on(folder.path(), port);
    let mut count = 0;
    for round in 0..6 {
        let mut talk = Talk::open(source.address);
        for _ in 0..random.within(300..900) {
            let delay_s = if random.percent(50) { 0 } else { 50_000 };
            put(&mut talk, "mail", &format!("1 {delay_s} 60"), count.to_string().as_bytes());
            count += 1;
        }
        let mut child = spawn(&server, &source);
        wait_for_progress(&mut talk, &mut child, &mut random);
        drop(talk);
        // Either both die, or the command finds it again.
        let both = round % 2 == 0;
        if both {
            let _ = child.kill();
        }
        source.kill();
        source = on(folder.path(), port);
        let status = child.wait().unwrap();
        assert!(both || status.success(), "{status}");
    }
    drain(&server, &source);
    let adopted = jobs(&server);
    assert_eq!(adopted.len(), count);
    assert_eq!(payloads(&adopted).len(), count, "each of them, once");
    let is_later = |job: &&Value| job["state"] == "scheduled";
    assert!(adopted.iter().filter(is_later).count() > 500, "delays survive");
}

/// Its ids begin at 1 again, and the bodies are the same: they are other jobs.
#[test]
fn a_restart_without_a_log_confuses_no_jobs() {
    let server = Server::start();
    let port = free_port();
    for _ in 0..3 {
        let source = Alone::original(port, &[]);
        let mut talk = Talk::open(source.address);
        assert_eq!(put(&mut talk, "tick", "1 0 60", b"1"), "1");
        drain(&server, &source);
    }
    assert_eq!(jobs(&server).len(), 3);
}

#[test]
fn claims_wait_while_there_is_no_server() {
    let mut server = Server::start();
    let source = Alone::original(free_port(), &[]);
    let mut talk = Talk::open(source.address);
    (0..700).for_each(|n: u32| drop(put(&mut talk, "mail", "1 0 60", n.to_string().as_bytes())));
    let mut child = spawn(&server, &source);
    until("jobs are claimed", || (talk.stats("stats").unwrap()["cmd-bury"] != "0").then_some(()));
    let mut process = server.child.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let _ = child.kill();
    child.wait().unwrap();
    let ran = adopt(&server, &source, &DRAIN);
    assert_eq!(ran.code, 75, "nobody to push to: {ran:?}");
    let server = Server::start_in(std::mem::replace(&mut server.place, Place::new()), &[]);
    drain(&server, &source);
    let adopted = jobs(&server);
    assert_eq!((adopted.len(), payloads(&adopted).len()), (700, 700));
}

/// The address of a proxy before a server that forwards requests until it meets a push, of which it tells.
fn without_pushes(server: &Server) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ((tell, told), address) = (channel(), server.url.strip_prefix("http://").unwrap().to_owned());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut client, tell) = (stream.unwrap(), tell.clone());
            let mut server = TcpStream::connect(&address).unwrap();
            let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut to_client));
            std::thread::spawn(move || {
                let mut request = [0; 65_536];
                while let Ok(count @ 1..) = client.read(&mut request) {
                    if request.starts_with(b"POST") {
                        let _ = tell.send(());
                    } else if server.write_all(&request[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (url, told)
}

/// The command is killed after it wrote its claim and before it buried the job, and once more while it pushes the job.
#[test]
fn a_claim_is_finished_though_the_command_was_killed_twice() {
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    let job = put(&mut talk, "mail", "1 0 60", b"1");
    talk.ask("watch mail");
    assert_eq!(talk.ask("reserve-with-timeout 0"), format!("RESERVED {job} 1"));
    assert_eq!(talk.line(), "1");
    assert_eq!(talk.ask(&format!("release {job} 1 0")), "RELEASED");
    let claim = format!(r#"{{"claim":"first","to":null,"jobs":[[{job},null,1]]}}"#);
    put(&mut talk, "duetime-adopt", "0 0 60", claim.as_bytes());

    let (url, pushed) = without_pushes(&server);
    let mut child = command(&server, &source, &DRAIN).env("DUETIME_SERVER", url).stdin(Stdio::null()).spawn().unwrap();
    pushed.recv_timeout(Duration::from_secs(30)).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(jobs(&server).is_empty());
    drain(&server, &source);
    assert_eq!(jobs(&server).len(), 1);
    assert_eq!(counts(&mut talk), [0; 4]);
}

/// The command was killed after it wrote its claim, and what it sent after that is late: the claim is delayed until then.
#[test]
fn a_claim_is_not_given_up_before_its_jobs_are_buried() {
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    let job = put(&mut talk, "mail", "1 0 60", b"1");
    talk.ask("watch mail");
    assert_eq!(talk.ask("reserve-with-timeout 0"), format!("RESERVED {job} 1"));
    assert_eq!(talk.line(), "1");
    let claim = format!(r#"{{"claim":"first","to":null,"jobs":[[{job},null,1]]}}"#);
    put(&mut talk, "duetime-adopt", "0 2 60", claim.as_bytes());
    let mut child = spawn(&server, &source);
    until("it looks at claims", || (talk.stats("stats").unwrap()["cmd-peek-delayed"] != "0").then_some(()));
    assert_eq!(talk.ask(&format!("bury {job} 1")), "BURIED");
    assert!(child.wait().unwrap().success());
    assert_eq!((jobs(&server).len(), counts(&mut talk)), (1, [0; 4]));
}

#[test]
fn the_command_ends_soon_after_its_signal_though_beanstalkd_never_answers() {
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut follow = command(&server, &source, &["--follow", "--yes", "beanstalkd"]);
    let mut child = follow.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    put(&mut Talk::open(source.address), "mail", "1 0 60", b"1");
    until("it follows", || (jobs(&server).len() == 1).then_some(()));
    source.signal(Signal::SIGSTOP);
    let begin = Instant::now();
    kill(pid(&child), Signal::SIGTERM).unwrap();
    let code = child.wait().unwrap().code();
    let took = begin.elapsed();
    source.signal(Signal::SIGCONT);
    assert_eq!(code, Some(75));
    assert!(took < Duration::from_secs(30), "an answer has 60 s: {took:?}");
}
