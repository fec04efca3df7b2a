//! Layers of tower around handlers.

use duetime::job::Stage;
use duetime::worker::{Call, Handled};
use duetime::{prelude::*, testing};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Poll};
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::{Layer, Service};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "count")]
struct Count {
    number: u32,
}

/// Counts the calls and sees the jobs.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    seen: Arc<AtomicUsize>,
}

struct Counting(Arc<AtomicUsize>);

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, seen: self.0.clone() }
    }
}

impl<S: Service<Call>> Service<Call> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, task: &mut task::Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> S::Future {
        assert_eq!(&**call.context().kind(), "count");
        self.seen.fetch_add(1, Ordering::SeqCst);
        self.inner.call(call)
    }
}

#[derive(Default)]
struct Running {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[tokio::test]
async fn a_layer_is_shared_by_all_handlers() {
    let (client, _clock) = testing::client().await;
    for number in 0..20 {
        client.push(Count { number }).await.unwrap();
    }
    let (running, seen) = (Arc::new(Running::default()), Arc::new(AtomicUsize::new(0)));
    let worker = Worker::new(&client)
        .state(running.clone())
        .handle(async |_: Count, State(running): State<Arc<Running>>| {
            running.most.fetch_max(running.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            running.now.fetch_sub(1, Ordering::SeqCst);
            Handled::Ok(())
        })
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(Counting(seen.clone()));
    assert_eq!(worker.drain().await.unwrap().succeeded, 20);
    assert_eq!((running.most.load(Ordering::SeqCst), seen.load(Ordering::SeqCst)), (1, 20));
}

/// A layer that has another type of error passes the errors of handlers on unchanged.
#[tokio::test]
async fn errors_pass_through_layers_and_those_of_layers_are_failures() {
    let (client, _clock) = testing::client().await;
    let worker = Worker::new(&client)
        .handle(async |count: Count| match count.number {
            0 => Err(JobError::fatal("no such order")),
            _ => pending::<Handled>().await,
        })
        .layer(TimeoutLayer::new(Duration::from_millis(1)));
    let error = async |number| {
        client.push(Count { number }).await.unwrap();
        let job = worker.run_one().await.unwrap().unwrap();
        (job.errors[0].message.to_string(), job.stage)
    };
    // The first is not retried.
    assert_eq!(error(0).await, ("no such order".to_owned(), Stage::Failed));
    let (message, stage) = error(1).await;
    assert!(message.contains("timed out") && stage == Stage::Pending, "{message} {stage:?}");
}
