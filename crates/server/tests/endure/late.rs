//! Lateness after the last fault: jobs that wait through all faults and are edited meanwhile become due when the faults end, and
//! no worker but one takes them.

use crate::round::Round;
use duetime::{Client, Error};
use duetime_core::engine::{Outcome, Patch, ReserveRequest};
use duetime_core::testing::Random;
use duetime_core::{Due, JobId, Millis, NewJob};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

const QUEUE: &str = "late";
const JOBS: u64 = 200;
/// The jobs become due within this time after the last fault.
const SPREAD_MS: u64 = 4_000;
/// The promise: how late a job may be, once it is due and all servers are ready. A reply of Redis that was lost just before is
/// noticed after 3 s; another second is for the next attempt on a busy machine.
const LATE_MAX_MS: u64 = 4_000;
/// All servers are ready within this time after the last fault.
const READY_WITHIN_MS: u64 = 60_000;
/// How long the worker asks after the last job is due.
const ASK_MS: u64 = 20_000;
const PAUSE: Duration = Duration::from_millis(50);

/// The jobs, with the times at which they are due.
pub(crate) struct Late(BTreeMap<JobId, Millis>);

impl Late {
    /// Pushes the jobs, due after so many milliseconds.
    pub(crate) async fn push(client: &Client, after_ms: u64) -> Self {
        let job = |n| NewJob {
            due: Due::after(Duration::from_millis(after_ms + n * SPREAD_MS / JOBS)),
            queue: QUEUE.into(),
            ..NewJob::new(Vec::new())
        };
        let jobs: Vec<NewJob> = (0..JOBS).map(job).collect();
        // A server may have just been started.
        let answers = loop {
            match client.push_many(jobs.clone()).await {
                Ok(answers) => break answers,
                Err(_) => sleep(PAUSE).await,
            }
        };
        Self(answers.into_iter().map(|answer| answer.unwrap()).map(|pushed| (pushed.id, pushed.due_at.0)).collect())
    }

    /// Edits jobs for ever, whatever becomes of that.
    pub(crate) async fn edit(&self, round: &Round, mut random: Random) {
        let ids: Vec<JobId> = self.0.keys().copied().collect();
        let clients = round.clients().await;
        loop {
            sleep(PAUSE).await;
            let patch = Patch { priority: Some(u32::try_from(random.within(0..2_000)).unwrap()), ..Patch::default() };
            let _ = random.of(&clients).jobs().update(*random.of(&ids), patch).await;
        }
    }

    /// Runs the jobs once all servers are ready, and returns what was late.
    pub(crate) async fn run(&self, round: &Round) -> Vec<String> {
        let clients = round.clients().await;
        let begin = round.mono();
        for client in &clients {
            while !client.health().await.is_ok_and(|health| health.ready) {
                if round.mono() > begin + READY_WITHIN_MS {
                    return vec![format!(
                        "a server is not ready {READY_WITHIN_MS} ms after the last fault: {:?}",
                        client.health().await
                    )];
                }
                sleep(PAUSE).await;
            }
        }
        let ready = round.mono();
        let at = round.at();
        let due = |wall: Millis| (at.mono + wall).saturating_sub(at.wall);
        let mut waiting: BTreeMap<JobId, Millis> =
            self.0.iter().map(|(id, wall)| (*id, due(*wall).max(ready))).collect();
        let end = waiting.values().max().copied().unwrap_or(ready) + ASK_MS;
        let mut wrong = Vec::new();
        while !waiting.is_empty() && round.mono() < end {
            match step(&clients[0]).await {
                Ok(ids) => {
                    let now = round.mono();
                    for id in ids {
                        let Some(due) = waiting.remove(&id) else { continue };
                        if now > due + LATE_MAX_MS {
                            wrong.push(format!(
                                "job {id} started {} ms late, servers were ready {} ms before",
                                now - due,
                                now - ready
                            ));
                        }
                    }
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
        // A broker without a ledger may have lost some.
        for id in waiting.keys() {
            if let Ok(job) = clients[0].jobs().get(*id).await
                && job.is_pending()
            {
                wrong.push(format!("job {id} was due and not handed out: {job:?}"));
            }
        }
        wrong
    }
}

/// Reserves jobs and completes them.
async fn step(client: &Client) -> Result<Vec<JobId>, Error> {
    let request = ReserveRequest::new(QUEUE).limit(100).wait(Duration::from_secs(1));
    let leases = client.leases().reserve(request).await?.leases;
    let ids: Vec<JobId> = leases.iter().map(|lease| lease.job.id).collect();
    let outcomes = leases.iter().map(|lease| (lease.job.receipt(), Outcome::complete(None))).collect();
    client.leases().settle(outcomes).await?;
    Ok(ids)
}
