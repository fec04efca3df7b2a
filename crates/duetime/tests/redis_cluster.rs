//! A Cluster with as many partitions as it usually gets, seen by clients: what spans partitions holds together.

use duetime::job::{BulkAction, NewJob, Query, State as JobState};
use duetime::lease::{Failure, ReserveRequest, Source};
use duetime::retry::WhenExhausted;
use duetime::time::Span;
use duetime::{Client, JobId, Retry, Worker};
use duetime_store::testing::RedisCluster;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const QUEUES: usize = 20;
const JOBS_PER_QUEUE: usize = 10;
const LATER_PER_QUEUE: usize = 5;

fn queue(n: usize) -> Arc<str> {
    Arc::from(format!("queue-{n}"))
}

fn reserve(queue: &str, limit: usize) -> ReserveRequest {
    let from = Source::Queues(vec![Arc::from(queue)]);
    ReserveRequest::new(from).limit(limit).wait(Span(10_000))
}

async fn find(client: &Client, query: &Query) -> BTreeSet<JobId> {
    let (mut found, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = client.jobs().page(query, cursor.as_deref(), 100).await.unwrap();
        for job in page.jobs {
            assert!(found.insert(job.id), "{} was found twice", job.id);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_many_partitions_are_one_store() {
    let cluster = RedisCluster::masters_only();
    let (one, other) = (Client::connect(&cluster.url()).await.unwrap(), Client::connect(&cluster.url()).await.unwrap());

    // Pushed in batches that span all queues.
    let mut tagged: [BTreeSet<JobId>; 4] = Default::default();
    let mut partitions = BTreeSet::new();
    for n in 0..JOBS_PER_QUEUE {
        let job = |q| one.push_raw("k", *b"1").queue(queue(q)).tag(format!("tag-{}", n % 4)).build().unwrap();
        for pushed in one.push_many((0..QUEUES).map(job).collect::<Vec<NewJob>>()).await.unwrap() {
            let id = pushed.unwrap().id;
            tagged[n % 4].insert(id);
            partitions.insert(id.partition());
        }
    }
    let later = |q| {
        let push = one.push_raw("k", *b"1").queue(queue(q)).tag("later").after(Duration::from_secs(3_600));
        push.build().unwrap()
    };
    let later = (0..QUEUES).flat_map(|q| std::iter::repeat_with(move || q).take(LATER_PER_QUEUE)).map(later).collect();
    one.push_many(later).await.unwrap().into_iter().for_each(|pushed| drop(pushed.unwrap()));
    assert!(partitions.len() > QUEUES / 2, "{partitions:?}");
    for node in cluster.nodes() {
        assert_ne!(node.command(&["DBSIZE"]), "0", "each master has its part");
    }

    // Found and cancelled by tag, wherever they are.
    for (n, ids) in tagged.iter().enumerate() {
        let query = Query { tag: Some(format!("tag-{n}").into()), ..Query::default() };
        assert_eq!(find(&other, &query).await, *ids);
    }
    let cancelled = other.jobs().cancel_by_tag("later").await.unwrap();
    assert_eq!(cancelled, [("cancelled", (QUEUES * LATER_PER_QUEUE) as u64)].into());

    // Worked off by one worker at all queues.
    let mut worker = Worker::new(&other).concurrency(16).fallback(|| async { duetime::worker::Handled::Ok(()) });
    for q in 0..QUEUES {
        worker = worker.queue(queue(q));
    }
    assert_eq!(worker.drain().await.unwrap().succeeded, (QUEUES * JOBS_PER_QUEUE) as u64);
    let done = find(&one, &Query::default().state(JobState::Succeeded)).await;
    assert_eq!(done, tagged.into_iter().flatten().collect());
    let queues = one.queues().list().await.unwrap();
    assert_eq!(queues.len(), QUEUES);
    assert!(queues.iter().all(|queue| queue.tally.succeeded == JOBS_PER_QUEUE as u64 && queue.counts.running == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_job_moves_to_another_partition() {
    let cluster = RedisCluster::masters_only();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let retry = || Retry {
        max_attempts: Some(1),
        when_exhausted: Some(WhenExhausted::Move("undone".into())),
        ..Retry::default()
    };
    for n in 0..10 {
        let queue = queue(n);
        let pushed = client.push_raw("k", *b"payload").queue(queue.clone()).tag("t").retry(retry()).await.unwrap();
        let job = client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.remove(0).job;
        assert_eq!(job.id, pushed.id);
        let failure = Failure::new("no");
        assert_eq!(client.leases().fail(job.receipt(), failure).await.unwrap().state, JobState::Failed);
        let copy = client.leases().reserve(reserve("undone", 10)).await.unwrap().leases;
        assert_eq!(copy.len(), 1);
        assert_ne!(copy[0].job.id.partition(), job.id.partition(), "{queue} lies in another partition");
        assert_eq!((&*copy[0].job.payload, copy[0].job.attempt), (&b"payload"[..], 1));
        client.leases().complete(copy[0].job.receipt(), None).await.unwrap();
    }
    let failed = Query::default().tag("t").state(JobState::Failed);
    assert_eq!(find(&client, &failed).await.len(), 10);
    assert_eq!(client.jobs().bulk(&failed, BulkAction::Retry).await.unwrap(), [("retried", 10)].into());
    for n in 0..10 {
        let again = client.leases().reserve(reserve(&queue(n), 10)).await.unwrap().leases;
        assert_eq!(again.len(), 1);
        client.leases().complete(again[0].job.receipt(), None).await.unwrap();
    }
    assert!(find(&client, &failed).await.is_empty());
}
