//! Load on a server that speaks the beanstalkd protocol, beanstalkd's own or this one: `beanstalk_load ADDRESS [JOBS]`.
//!
//! Prints for each way of working how many commands a second were answered, and how late delayed jobs came.

#![allow(clippy::print_stdout, reason = "it is what it is for")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const BODY: &str = "0123456789012345678901234567890123456789";

struct Talk {
    write: TcpStream,
    read: BufReader<TcpStream>,
    line: String,
}

impl Talk {
    fn open(address: &str) -> Self {
        let write = TcpStream::connect(address).expect("a server listens there");
        write.set_nodelay(true).expect("a socket");
        let read = BufReader::with_capacity(1 << 16, write.try_clone().expect("a socket"));
        Self { write, read, line: String::new() }
    }

    fn send(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).expect("it is sent");
    }

    fn line(&mut self) -> &str {
        self.line.clear();
        self.read.read_line(&mut self.line).expect("an answer");
        self.line.trim_end()
    }

    fn number(&mut self) -> u64 {
        let line = self.line();
        line.split(' ').nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }

    fn reserved(&mut self) -> u64 {
        let id = self.number();
        let mut body = [0; BODY.len() + 2];
        self.read.read_exact(&mut body).expect("a body");
        id
    }
}

/// Runs this on this many connections at once; returns the commands per second.
fn measure(name: &str, address: &str, connections: usize, each: usize, work: impl Fn(&mut Talk, usize) + Sync) {
    let talks: Vec<Talk> = (0..connections).map(|_| Talk::open(address)).collect();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for mut talk in talks {
            let work = &work;
            scope.spawn(move || work(&mut talk, each));
        }
    });
    let rate = (connections * each) as f64 / begin.elapsed().as_secs_f64();
    println!("{name:<42} {rate:>10.0}/s");
}

fn put_pipelined(talk: &mut Talk, jobs: usize) {
    let batch = format!("put 1024 0 60 {}\r\n{BODY}\r\n", BODY.len()).repeat(100);
    for _ in 0..jobs / 100 {
        talk.send(&batch);
        for _ in 0..100 {
            talk.number();
        }
    }
}

fn take_pipelined(talk: &mut Talk, jobs: usize) {
    let batch = "reserve\r\n".repeat(100);
    for _ in 0..jobs / 100 {
        talk.send(&batch);
        let ids: Vec<u64> = (0..100).map(|_| talk.reserved()).collect();
        talk.send(&ids.iter().map(|id| format!("delete {id}\r\n")).collect::<String>());
        (0..100).for_each(|_| assert_eq!(talk.line(), "DELETED"));
    }
}

fn put_single(talk: &mut Talk, jobs: usize) {
    let put = format!("put 1024 0 60 {}\r\n{BODY}\r\n", BODY.len());
    for _ in 0..jobs {
        talk.send(&put);
        talk.number();
    }
}

fn take_single(talk: &mut Talk, jobs: usize) {
    for _ in 0..jobs {
        talk.send("reserve\r\n");
        let id = talk.reserved();
        talk.send(&format!("delete {id}\r\n"));
        assert_eq!(talk.line(), "DELETED");
    }
}

/// The lateness of jobs that are due three seconds after their put, as the client sees it.
fn lateness(address: &str, jobs: usize) {
    let (mut put, mut take) = (Talk::open(address), Talk::open(address));
    put.send("use late\r\n");
    put.line();
    take.send("watch late\r\nignore default\r\n");
    take.line();
    take.line();
    let mut due = std::collections::HashMap::new();
    for _ in 0..jobs {
        // Its delay begins between its put and the answer.
        put.send(&format!("put 1024 3 60 {}\r\n{BODY}\r\n", BODY.len()));
        let id = put.number();
        due.insert(id, Instant::now() + Duration::from_secs(3));
    }
    let mut late: Vec<f64> = Vec::new();
    // So that no job waits for a request.
    take.send(&"reserve\r\n".repeat(jobs));
    for _ in 0..jobs {
        let id = take.reserved();
        late.push(Instant::now().saturating_duration_since(due[&id]).as_secs_f64() * 1e3);
    }
    for id in due.keys() {
        take.send(&format!("delete {id}\r\n"));
        take.line();
    }
    late.sort_by(f64::total_cmp);
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize];
    println!(
        "{:<42} p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        "lateness of delayed jobs",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".to_owned());
    let jobs: usize = arguments.next().map_or(200_000, |jobs| jobs.parse().expect("how many jobs"));
    measure("put, pipelined on 8 connections", &address, 8, jobs / 8, put_pipelined);
    measure("reserve and delete, pipelined on 8", &address, 8, jobs / 8, take_pipelined);
    measure("put, one at a time on 64 connections", &address, 64, jobs / 640, put_single);
    measure("reserve and delete, one at a time on 64", &address, 64, jobs / 640, take_single);
    lateness(&address, 500);
}
