//! Jobs that wait, and jobs that run meanwhile.

use super::body;
use crate::common::binary;
use crate::http::client::request;
use crate::http::server::Server;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BATCH: usize = 1_000;
const CONNECTIONS: usize = 4;
/// Of the jobs, those that fail.
pub(super) const FAILED: usize = 2_000;

/// Whether this is the whole measurement.
pub(super) fn has_many() -> bool {
    super::jobs() > super::JOBS_DEFAULT
}

/// Pushes this many jobs, some of which fail; returns the id of one that waits.
pub(super) fn fill(server: &Server, jobs: usize) -> String {
    let began = Instant::now();
    let waiting = jobs - FAILED - 1;
    std::thread::scope(|scope| {
        for worker in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut connection = server.connect();
                for first in (worker * BATCH..waiting).step_by(CONNECTIONS * BATCH) {
                    let body = body(first..(first + BATCH).min(waiting));
                    connection.send(request("POST", "/v1/jobs", &[], &body));
                    connection.reply().ok();
                }
            });
        }
    });
    println!("pushed in {:.0} s", began.elapsed().as_secs_f64());
    for n in 0..FAILED / BATCH {
        let batch: Vec<Value> =
            (0..BATCH).map(|job| json!({"queue": format!("q{job}"), "kind": "pay", "payload": {"n": n}})).collect();
        server.post("/v1/jobs", &json!(batch)).ok();
        for queue in (0..BATCH).step_by(50) {
            let from: Vec<String> = (queue..queue + 50).map(|n| format!("q{n}")).collect();
            let reserved = server.post("/v1/reserve", &json!({"queues": from, "limit": BATCH})).ok();
            let fail = |(n, lease): (usize, &Value)| json!({"receipt": lease["receipt"], "fail": {"message": format!("HTTP 50{}", n % 4), "final": true}});
            let fails: Vec<Value> = reserved["leases"].as_array().unwrap().iter().enumerate().map(fail).collect();
            let settled = server.post("/v1/settle", &json!(fails)).ok();
            assert!(settled.as_array().unwrap().iter().all(|end| end["state"] == "failed"), "{settled}");
        }
    }
    server.push_to("q7", &json!({"payload": 1, "delay": "20d", "kind": "shown"}))
}

/// Jobs that come due one after the other, and are run: `duetime bench lateness`.
pub(super) struct Load(Option<Child>);

impl Load {
    pub(super) fn start(server: &Server) -> Self {
        let (rate, seconds) = if has_many() { (1_000, 20) } else { (200, 3) };
        let child = Command::new(binary())
            .env_clear()
            .args(["bench", "lateness", "--json", "--rate", &rate.to_string(), "--jobs", &(rate * seconds).to_string()])
            .args(["--server", &format!("http://{}", server.address)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self(Some(child))
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    /// Waits for the end; returns how late jobs began.
    pub(super) fn lateness(mut self) -> Value {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["timings"][0].clone()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}
