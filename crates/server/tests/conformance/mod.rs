//! The clients in `clients`, by one list: `clients/conformance/cases.json` says calls, faults, and what must come out.
//!
//! Each client has a driver that makes the calls, or works. Here are the real server, a proxy that does harm, and the judge.

mod driver;
mod proxy;

use crate::http::server::{Server, eventually};
use crate::http::tokens::{Tokens, send};
use driver::{Calls, Language, Work};
use nix::sys::signal::Signal;
use proxy::{Fault, Proxy};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

const CASES: &str = include_str!("../../../../clients/conformance/cases.json");
/// How long one look at a job waits for its end.
const LOOK: &str = "20s";
/// How long a server stays away.
const AWAY: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases<'a> {
    #[serde(borrow)]
    calls: Vec<CallCase<'a>>,
    work: Vec<WorkCase>,
}

/// Calls, one after the other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallCase<'a> {
    name: String,
    #[serde(default)]
    faults: Vec<Fault>,
    /// The first server in the list is not there.
    #[serde(default)]
    first_server_is_away: bool,
    #[serde(borrow)]
    steps: Vec<Step<'a>>,
    /// The totals of the case's queue afterwards.
    #[serde(default)]
    totals: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step<'a> {
    /// As it is written: numbers must stay exact. `{queue}` is the case's queue, `{id}` the last id.
    #[serde(borrow)]
    say: &'a RawValue,
    /// The answer; of objects the named fields, `"*"` for any value.
    #[serde(borrow)]
    out: &'a RawValue,
    /// How often the call is made; once by default.
    #[serde(default)]
    many: Option<usize>,
}

/// Jobs, and what becomes of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkCase {
    name: String,
    jobs: Vec<JobCase>,
    #[serde(default = "lease")]
    lease: u32,
    #[serde(default = "concurrency")]
    concurrency: u32,
    #[serde(default)]
    faults: Vec<Fault>,
    /// What happens once the first job has begun.
    #[serde(default)]
    meanwhile: Meanwhile,
    /// The totals of the case's queue afterwards.
    #[serde(default)]
    totals: Value,
}

fn lease() -> u32 {
    5
}

fn concurrency() -> u32 {
    2
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Meanwhile {
    #[default]
    Nothing,
    /// The worker dies, and another begins.
    KillWorker,
    /// The worker and its processes are stopped (SIGSTOP), and another begins. Once the jobs have ended, it goes on.
    FreezeWorker,
    /// The worker is asked to stop: it gives back what does not end in a second.
    StopWorker,
    /// The server stops, and comes back with the same file.
    RestartServer,
    /// The same, after [`AWAY`].
    LeaveServer,
    /// The first job is cancelled.
    Cancel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobCase {
    push: Value,
    /// How many of them.
    #[serde(default = "one")]
    count: usize,
    /// The job afterwards.
    end: Value,
    /// Events of this job that are logged.
    #[serde(default)]
    log: Vec<String>,
    /// Whether the worker must name this job on its standard error.
    #[serde(default)]
    said: bool,
}

fn one() -> usize {
    1
}

/// A server, and the proxy before it.
struct World {
    server: Option<Server>,
    proxy: Proxy,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Self::serve(&folder, "127.0.0.1:0");
        let proxy = Proxy::start(server.address);
        Self { server: Some(server), proxy, folder }
    }

    fn serve(folder: &TempDir, listen: &str) -> Server {
        let store = folder.path().join("duetime.db");
        Server::with(&["--store", store.to_str().unwrap(), "--listen", listen])
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Stops the server and starts it again after this time, at the same address and on the same file.
    fn restart(&mut self, after: Duration) {
        let server = self.server.take().expect("it runs");
        let listen = server.address.to_string();
        server.stop();
        std::thread::sleep(after);
        self.server = Some(Self::serve(&self.folder, &listen));
    }

    fn totals(&self, queue: &str) -> Value {
        self.server().get(&format!("/v1/queues/{queue}")).ok()["totals"].clone()
    }
}

/// Says what differs, if anything: of objects the expected fields count, and `"*"` is any value.
fn differs(expected: &Value, got: &Value, at: &str) -> Option<String> {
    match (expected, got) {
        (Value::String(any), got) if any == "*" && !got.is_null() => None,
        (Value::String(part), Value::String(got)) if part.starts_with('~') => {
            (!got.contains(&part[1..])).then(|| format!("{at}: expected something with {:?}, got {got:?}", &part[1..]))
        }
        (Value::Object(fields), Value::Object(got)) => fields.iter().find_map(|(name, expected)| match got.get(name) {
            Some(got) => differs(expected, got, &format!("{at}.{name}")),
            None => Some(format!("{at}.{name}: expected {expected}, got nothing")),
        }),
        (Value::Array(all), Value::Array(got)) if all.len() == got.len() => all
            .iter()
            .zip(got)
            .enumerate()
            .find_map(|(n, (expected, got))| differs(expected, got, &format!("{at}[{n}]"))),
        (expected, got) => (expected != got).then(|| format!("{at}: expected {expected}, got {got}")),
    }
}

/// Makes the calls of a case, and judges.
fn call(world: &World, language: Language, case: &CallCase<'_>, queue: &str) -> Result<(), String> {
    world.proxy.plan(case.faults.clone());
    let proxy = format!("http://{}", world.proxy.address);
    // Nobody listens at the first port.
    let servers = if case.first_server_is_away { format!("http://127.0.0.1:1,{proxy}") } else { proxy };
    let mut calls = Calls::start(language, &servers);
    let mut id = String::new();
    for step in &case.steps {
        let one_line = step.say.get().replace('\n', " ");
        let line = one_line.replace("{queue}", queue).replace("{id}", &id);
        let expected = step.out.get().replace("{queue}", queue).replace("{id}", &id);
        let expected: Value = serde_json::from_str(&expected).unwrap();
        for _ in 0..step.many.unwrap_or(1) {
            let answer = calls.call(&line)?;
            if let Some(new) = answer["ok"]["id"].as_str() {
                id = new.to_owned();
            }
            if let Some(why) = differs(&expected, &answer, "") {
                return Err(format!("{line}\n      {why}\n      in {answer}"));
            }
        }
    }
    judge(world, queue, &case.totals)
}

fn judge(world: &World, queue: &str, totals: &Value) -> Result<(), String> {
    let left: Vec<_> = world.proxy.left().into_iter().filter(|fault| fault.times < 50).collect();
    if !left.is_empty() {
        return Err(format!("these faults did not happen: {left:?}"));
    }
    if totals.is_null() {
        return Ok(());
    }
    differs(totals, &world.totals(queue), "totals").map_or(Ok(()), Err)
}

/// Has a worker do the jobs of a case, and judges.
fn work(world: &mut World, language: Language, case: &WorkCase, queue: &str) -> Result<(), String> {
    let mut jobs = Vec::new();
    for job in &case.jobs {
        for _ in 0..job.count {
            jobs.push((world.server().push_to(queue, &job.push), job));
        }
    }
    world.proxy.plan(case.faults.clone());
    let arguments = [
        ("queues", queue.to_owned()),
        ("concurrency", case.concurrency.to_string()),
        ("lease", case.lease.to_string()),
        ("stop-deadline", "1".to_owned()),
    ];
    let logs = [world.folder.path().join(format!("{queue}-1.log")), world.folder.path().join(format!("{queue}-2.log"))];
    let mut worker = Work::start(language, world.proxy.address, &arguments, &logs[0]);
    let mut frozen = None;
    let first = jobs[0].0.clone();
    if case.meanwhile != Meanwhile::Nothing {
        eventually(|| worker.has_logged("start", &first) || worker.ended().is_some());
        if !worker.has_logged("start", &first) {
            return Err(format!("the worker ended before its first job began, and said {}", worker.said()));
        }
    }
    match case.meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::KillWorker => {
            worker.signal(Signal::SIGKILL);
            eventually(|| worker.ended().is_some());
            worker = Work::start(language, world.proxy.address, &arguments, &logs[1]);
        }
        Meanwhile::FreezeWorker => {
            worker.signal_all(Signal::SIGSTOP);
            let other = Work::start(language, world.proxy.address, &arguments, &logs[1]);
            frozen = Some(std::mem::replace(&mut worker, other));
        }
        Meanwhile::StopWorker => worker.stop()?,
        Meanwhile::RestartServer => world.restart(Duration::ZERO),
        Meanwhile::LeaveServer => world.restart(AWAY),
        Meanwhile::Cancel => drop(world.server().call(&format!("/v1/jobs/{first}/cancel")).ok()),
    }
    let is_stopped = case.meanwhile == Meanwhile::StopWorker;
    for (id, job) in &jobs {
        let shown = if is_stopped {
            world.server().job(id)
        } else {
            end(world, language, id, &mut worker, &arguments, &logs[1])?
        };
        if let Some(why) = differs(&job.end, &shown, "job") {
            return Err(format!("{}\n      {why}\n      in {shown}", job.push));
        }
    }
    if !is_stopped {
        worker.stop()?;
    }
    if let Some(frozen) = frozen {
        thaws(world, frozen, queue, &jobs[0])?;
    }
    for (id, job) in &jobs {
        if let Some(event) = job.log.iter().find(|event| !worker.has_logged(event, id)) {
            return Err(format!("expected `{event}` of job {id} in the log, got {:?}", worker.log()));
        }
    }
    if let Some((id, _)) = jobs.iter().find(|(id, job)| job.said && !worker.said().contains(id.as_str())) {
        return Err(format!("expected a word about job {id}, got {:?}", worker.said()));
    }
    judge(world, queue, &case.totals)
}

/// A frozen worker goes on: it leaves the job that another has done, says so once, and does the next one.
fn thaws(world: &World, mut worker: Work, queue: &str, (id, job): &(String, &JobCase)) -> Result<(), String> {
    worker.signal_all(Signal::SIGCONT);
    let next = world.server().push_to(queue, &json!({"payload": {"do": "echo"}}));
    let ended = world.server().get(&format!("/v1/jobs/{next}?wait={LOOK}")).ok();
    if ended["state"] != "succeeded" || !worker.has_logged("end", &next) {
        return Err(format!("expected the worker to go on, got {ended}, and it said {}", worker.said()));
    }
    worker.stop()?;
    let said = worker.said();
    if said.lines().filter(|line| line.contains(&**id) && line.contains("lost")).count() != 1 {
        return Err(format!("expected one line about the lost lease of job {id}, got {said}"));
    }
    differs(&job.end, &world.server().job(id), "job").map_or(Ok(()), Err)
}

/// The job once it has ended. A worker that kills itself is started again.
fn end(
    world: &World,
    language: Language,
    id: &str,
    worker: &mut Work,
    arguments: &[(&str, String)],
    log: &std::path::Path,
) -> Result<Value, String> {
    for _ in 0..3 {
        let shown = world.server().get(&format!("/v1/jobs/{id}?wait=1s")).ok();
        if is_over(&shown) {
            return Ok(shown);
        }
        if let Some(status) = worker.ended() {
            // A job may kill its worker, but not before it has begun.
            if worker.log().is_empty() {
                return Err(format!("the worker ended with {status} before it worked, and said {}", worker.said()));
            }
            *worker = Work::start(language, world.proxy.address, arguments, log);
        }
        let shown = world.server().get(&format!("/v1/jobs/{id}?wait={LOOK}")).ok();
        if is_over(&shown) {
            return Ok(shown);
        }
    }
    Err(format!("the job has not ended: {}", world.server().job(id)))
}

fn is_over(job: &Value) -> bool {
    ["succeeded", "failed", "cancelled"].iter().any(|state| job["state"] == *state)
}

/// Goes through all cases, and names those that fail.
fn conforms(language: Language) {
    let cases: Cases<'_> = serde_json::from_str(CASES).unwrap();
    let only = std::env::var("DUETIME_CASE").ok();
    let is_asked = |name: &str| only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut world = World::new();
    let mut failed = Vec::new();
    let mut ran = 0;
    for (n, case) in cases.calls.iter().enumerate().filter(|(_, case)| is_asked(&case.name)) {
        ran += 1;
        if let Err(why) = call(&world, language, case, &format!("c{n}")) {
            failed.push(format!("{}\n      {why}", case.name));
        }
    }
    for (n, case) in cases.work.iter().enumerate().filter(|(_, case)| is_asked(&case.name)) {
        ran += 1;
        if let Err(why) = work(&mut world, language, case, &format!("w{n}")) {
            failed.push(format!("{}\n      {why}", case.name));
        }
    }
    assert!(ran > 0, "no case is called so: {only:?}");
    assert!(
        failed.is_empty(),
        "{} of {ran} cases fail with {language:?}:\n  - {}",
        failed.len(),
        failed.join("\n  - ")
    );
}

#[test]
fn the_client_in_php_conforms() {
    conforms(Language::Php);
}

#[test]
fn the_client_in_python_conforms() {
    conforms(Language::Python);
}

#[test]
fn the_client_in_node_conforms() {
    conforms(Language::Node);
}

/// A worker whose token expires waits, says so once, and goes on once an operator has repaired it.
fn waits_for_its_token(language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::new();
    let (root, token) = (tokens.create("root", "admin"), tokens.create("worker", "work"));
    let valid = std::fs::read_to_string(tokens.file()).unwrap();
    let server = tokens.server(&[]);
    let done = |id: &str| {
        let path = format!("/v1/jobs/{id}?wait={LOOK}");
        assert_eq!(send(&server, &root, "GET", &path, "").ok()["state"], "succeeded");
    };
    let push = || {
        let pushed = send(&server, &root, "POST", "/v1/queues/q/jobs", r#"{"payload": {"do": "echo"}}"#).expect(201);
        pushed["id"].as_str().unwrap().to_owned()
    };
    let log = folder.path().join("work.log");
    let arguments = [("queues", "q".to_owned()), ("concurrency", "1".to_owned()), ("stop-deadline", "1".to_owned())];
    let mut worker = Work::with_token(language, server.address, &token, &arguments, &log);
    done(&push());
    // It waits for the next job now.
    let named = "name = \"worker\"";
    assert_eq!(valid.matches(named).count(), 1, "{valid}");
    let expired = valid.replace(named, &format!("{named}\nexpires = \"2020-01-01T00:00:00.000Z\""));
    std::fs::write(tokens.file(), expired).unwrap();
    eventually(|| send(&server, &token, "GET", "/v1/queues", "").status == 401);
    // This ends its wait, whatever the server does with it.
    let waiting = push();
    eventually(|| worker.said().contains("unauthorized"));
    std::fs::write(tokens.file(), valid).unwrap();
    done(&waiting);
    done(&push());
    worker.stop().unwrap();
    let said = worker.said();
    assert_eq!(said.matches("unauthorized").count(), 1, "{said}");
}

#[test]
fn a_worker_in_php_waits_for_its_token() {
    waits_for_its_token(Language::Php);
}

#[test]
fn a_worker_in_python_waits_for_its_token() {
    waits_for_its_token(Language::Python);
}

#[test]
fn a_worker_in_node_waits_for_its_token() {
    waits_for_its_token(Language::Node);
}

#[test]
fn an_answer_is_judged_by_what_is_expected_of_it() {
    let got = json!({"ok": {"id": "7", "tags": ["a"], "rest": 1}});
    for (expected, is_same) in [
        (json!({"ok": {"id": "*", "tags": ["a"]}}), true),
        (json!({"ok": {"id": "~7"}}), true),
        (json!({"ok": {"id": "8"}}), false),
        (json!({"ok": {"tags": []}}), false),
        (json!({"ok": {"none": "*"}}), false),
        (json!({"ok": {"none": null}}), false),
        (json!({"error": {}}), false),
    ] {
        assert_eq!(differs(&expected, &got, "").is_none(), is_same, "{expected}");
    }
}
