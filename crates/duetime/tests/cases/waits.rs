//! Waiting for the end of a job.

use super::{Remind, nothing, push, queue};
use duetime::job::{Stage, State as JobState};
use duetime::lease::{Failure, Receipt, ReserveRequest, Source};
use duetime::{Client, ErrorKind, JobId, Worker};
use std::sync::Arc;
use std::time::Duration;

/// Nothing here takes so long unless an end is not noticed.
const LONG: Duration = Duration::from_secs(25);

async fn lease(client: &Client, queue: &Arc<str>) -> Receipt {
    let from = Source::Queues(vec![queue.clone()]);
    let request = ReserveRequest::new(from).limit(1);
    client.leases().reserve(request).await.unwrap().leases.remove(0).job.receipt()
}

pub(crate) async fn a_job_that_has_ended_is_not_waited_for(client: Client) {
    let queue = queue();
    let id = push(&client, &queue, 7).await;
    client.leases().complete(lease(&client, &queue).await, Some((*b"[1, 2]").into())).await.unwrap();
    let job = client.jobs().wait(id, Duration::ZERO).await.unwrap();
    assert_eq!(job.payload_as::<Remind>().unwrap(), Remind { user: 7 });
    assert_eq!(job.result_as::<(u8, u8)>().unwrap(), (1, 2));
    let unread = job.result_as::<String>().unwrap_err().to_string();
    assert!(unread.starts_with("`result` must be JSON that can be read as what is asked for, got "), "{unread}");
    assert!(unread.contains("string"), "{unread}");
}

pub(crate) async fn a_wait_lasts_until_the_job_has_ended(client: Client) {
    let queue = queue();
    for end in ["completed", "failed", "cancelled"] {
        let id = push(&client, &queue, 7).await;
        let ends = async {
            match end {
                "completed" => drop(Worker::new(&client).queue(queue.clone()).handle(nothing).drain().await.unwrap()),
                "failed" => {
                    let failure = Failure::new("no mail").fatal();
                    client.leases().fail(lease(&client, &queue).await, failure).await.unwrap();
                }
                _ => drop(client.jobs().cancel(id).await.unwrap()),
            }
        };
        let (job, ()) = tokio::join!(client.jobs().wait(id, LONG), ends);
        let job = job.unwrap();
        match end {
            "completed" => job.result_as::<()>().unwrap(),
            "failed" => {
                let none = job.result_as::<u64>().unwrap_err().to_string();
                assert!(none.ends_with("got none: no mail"), "{none}");
            }
            _ => assert_eq!(job.stage, Stage::Cancelled),
        }
    }
}

pub(crate) async fn a_wait_ends_at_its_limit(client: Client) {
    let queue = queue();
    let push = client.push(Remind { user: 7 }).queue(queue.clone()).after(Duration::from_secs(3_600));
    let id = push.await.unwrap().id;
    let late = client.jobs().wait(id, Duration::from_millis(40)).await.unwrap_err();
    assert_eq!(late.code(), "not_ended");
    assert_eq!((late.kind(), late.job()), (ErrorKind::TimedOut, Some(id)), "{late:?}");
    let said = format!("the job {id} (remind) has not ended within 40ms; wait again, or ask `why` it does not run");
    assert_eq!(late.to_string(), said);
    let none = JobId::from_sequence(1 << 40);
    assert!(client.jobs().wait(none, LONG).await.unwrap_err().is_not_found());

    let deletes = async { client.jobs().delete(id).await.unwrap() };
    let (gone, ()) = tokio::join!(client.jobs().wait(id, LONG), deletes);
    assert!(gone.unwrap_err().is_not_found());
}

/// Waits of one client end each with their own job.
pub(crate) async fn many_waits_end_with_their_jobs(client: Client) {
    let queue = queue();
    let mut ids = Vec::new();
    for user in 0..20 {
        ids.push(push(&client, &queue, user).await);
    }
    let waits = ids.iter().map(|&id| client.jobs().wait(id, LONG));
    let worker = Worker::new(&client)
        .queue(queue.clone())
        .handle(async |remind: Remind| Ok::<_, duetime::JobError>(remind.user));
    let (ended, summary) = tokio::join!(futures_util::future::try_join_all(waits), worker.drain());
    assert_eq!(summary.unwrap().succeeded, 20);
    for (user, job) in (0..20).zip(ended.unwrap()) {
        assert_eq!((job.state(0), job.result_as::<u64>().unwrap()), (JobState::Succeeded, user));
    }
}
