//! `duetime workers`.

use super::exit::Result;
use super::output::{self, safe};
use super::target::Target;
use super::time::{now, relative};
use duetime_core::api::{Timestamp, WorkerStatus};

/// Show the workers of a server, and how many jobs each one runs.
///
/// A worker's name is its host name and process id unless --name sets it. A worker that gives no name is listed by its
/// address, as unnamed@10.0.0.7. A server lists the workers that asked it for jobs within the last hour; other servers list
/// their own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let workers = args.target.client().await?.workers().list().await?;
    if args.target.json {
        return output::json(&serde_json::json!({ "workers": workers }));
    }
    let header = ["WORKER", "QUEUES", "WAITING", "HELD", "FIRST SEEN", "LAST SEEN"];
    output::rows(&header, workers.iter().map(row), "no workers: none has asked this server for jobs in the last hour")
}

fn row(status: &WorkerStatus) -> Vec<String> {
    let WorkerStatus { worker, queues, waiting, held, first_seen, last_seen, .. } = status;
    let seen = |Timestamp(at): &Timestamp| relative(*at, now());
    vec![safe(worker), queues.join(" "), waiting.to_string(), held.to_string(), seen(first_seen), seen(last_seen)]
}
