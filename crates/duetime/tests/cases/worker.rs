//! The worker.

use super::{Remind, ended, nothing, push, queue};
use duetime::job::{CancelOutcome, Stage};
use duetime::retry::Backoff;
use duetime::worker::{Handled, Next, Summary};
use duetime::{Client, Context, JobError, Worker};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const SECOND: Duration = Duration::from_secs(1);

fn counted(succeeded: u64, failed: u64, released: u64) -> Summary {
    let mut summary = Summary::default();
    (summary.succeeded, summary.failed, summary.released) = (succeeded, failed, released);
    summary
}

pub(crate) async fn a_typed_job_is_worked_off(client: Client) {
    let queue = queue();
    let id = client.push(Remind { user: 7 }).queue(queue.clone()).tag("t").await.unwrap().id;
    let (seen, mut saw) = mpsc::unbounded_channel();
    let worker = Worker::new(&client).queue(queue.clone()).handle(move |job: Remind, context: Context| {
        let seen = seen.clone();
        async move {
            let user = job.user;
            seen.send((job, context))?;
            Ok::<u64, JobError>(user * 6)
        }
    });
    let summary = worker.drain().await.unwrap();
    assert_eq!(summary, counted(1, 0, 0));
    let (job, context) = saw.recv().await.unwrap();
    assert_eq!(job, Remind { user: 7 });
    assert_eq!((context.id(), context.attempt(), context.queue(), &**context.kind()), (id, 1, &queue, "remind"));
    assert_eq!((context.tags().len(), context.epoch()), (1, context.receipt().epoch));
    assert!(!context.is_cancelled() && context.due_at().0 > 0);
    assert_eq!(ended(&client, id, Stage::Succeeded).await.result.as_deref(), Some(&b"42"[..]));
}

pub(crate) async fn all_that_is_due_is_run_once(client: Client) {
    let queue = queue();
    client.push_all((0..500).map(|user| client.push(Remind { user }).queue(queue.clone()))).await.unwrap();
    let later = client.push(Remind { user: 0 }).queue(queue.clone()).after(SECOND * 60).await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let worker = Worker::new(&client).queue(queue).concurrency(16).handle(move |_: Remind| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Handled::Ok(()) }
    });
    assert_eq!(worker.drain().await.unwrap().succeeded, 500);
    assert_eq!(runs.load(Ordering::Relaxed), 500);
    ended(&client, later.id, Stage::Pending).await;
}

pub(crate) async fn handlers_are_for_kinds_and_queues_in_order(client: Client) {
    let (urgent, other) = (queue(), queue());
    let order = Arc::new(Mutex::new(Vec::new()));
    for (kind, queue) in [("third", &other), ("first", &urgent), ("fourth", &other), ("second", &urgent)] {
        client.push_raw(kind, *b"{}").queue(queue.clone()).await.unwrap();
    }
    let note = |order: &Arc<Mutex<Vec<String>>>| {
        let order = order.clone();
        move |context: Context| {
            order.lock().unwrap().push(context.kind().to_string());
            async { Handled::Ok(()) }
        }
    };
    let worker = Worker::new(&client).queue(urgent).queue(other).concurrency(1);
    worker.handle_raw("first", note(&order)).fallback(note(&order)).drain().await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["first", "second", "third", "fourth"]);
}

/// The first is the outermost, and each may answer instead of the handler.
pub(crate) async fn wrappers_run_around_every_handler(client: Client) {
    let queue = queue();
    let fine = push(&client, &queue, 1).await;
    let refused = client.push_raw("secret", *b"{}").queue(queue.clone()).await.unwrap().id;
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |word: &'static str| {
        let order = order.clone();
        move |context: Context, next: Next| {
            let order = order.clone();
            async move {
                order.lock().unwrap().push(word);
                let handled = next.run(context).await;
                order.lock().unwrap().push(word);
                handled
            }
        }
    };
    let guard = async |context: Context, next: Next| match &**context.kind() {
        "secret" => Err(JobError::fatal("not here")),
        _ => next.run(context).await,
    };
    let worker = Worker::new(&client).queue(queue).concurrency(1);
    let worker = worker.wrap(note("outer")).wrap(note("inner")).wrap(guard).fallback(async || Handled::Ok(()));
    assert_eq!(worker.drain().await.unwrap(), counted(1, 1, 0));
    assert_eq!(*order.lock().unwrap(), ["outer", "inner", "inner", "outer"].repeat(2));
    ended(&client, fine, Stage::Succeeded).await;
    assert_eq!(ended(&client, refused, Stage::Failed).await.message.as_deref(), Some("not here"));
}

/// The handler is asked to stop, and the attempt has failed whatever it answers.
pub(crate) async fn a_handler_has_a_time_limit(client: Client) {
    let queue = queue();
    let id = push(&client, &queue, 1).await;
    let worker = Worker::new(&client).queue(queue).time_limit(Duration::from_millis(50));
    let worker = worker.fallback(async |context: Context| {
        context.cancellation().cancelled().await;
        Handled::Ok(())
    });
    assert_eq!(worker.drain().await.unwrap(), counted(0, 1, 0));
    let job = ended(&client, id, Stage::Pending).await;
    assert_eq!((job.errors.len(), &*job.errors[0].message), (1, "time limit of 50ms exceeded"));
}

pub(crate) async fn a_handler_says_how_far_it_has_come(client: Client) {
    let queue = queue();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let id = client.push(Remind { user: 7 }).queue(queue.clone()).trace(trace).await.unwrap().id;
    let seen = client.clone();
    let worker = Worker::new(&client).queue(queue).handle(move |_: Remind, context: Context| {
        let client = seen.clone();
        async move {
            assert_eq!(context.trace().map(|trace| &**trace), Some(trace));
            context.progress(40, Some("half")).await?;
            let told = client.jobs().get(context.id()).await?.progress.unwrap();
            assert_eq!((told.percent, told.note.as_deref()), (40, Some("half")));
            let beyond = context.progress(101, None).await.unwrap_err();
            assert_eq!(beyond.code(), "invalid");
            client.jobs().cancel(context.id()).await?;
            assert!(!context.is_cancelled());
            context.progress(100, None).await?;
            assert!(context.is_cancelled(), "it was told with the answer");
            Handled::Ok(())
        }
    });
    assert_eq!(worker.drain().await.unwrap().succeeded, 1);
    let told = ended(&client, id, Stage::Succeeded).await.progress.unwrap();
    assert_eq!((told.percent, told.note.as_deref()), (100, None));
}

pub(crate) async fn a_panic_is_a_failure(client: Client) {
    let queue = queue();
    let id = push(&client, &queue, 7).await;
    let worker = Worker::new(&client)
        .queue(queue)
        .handle(|job: Remind| async move { if job.user == 7 { panic!("seven") } else { Handled::Ok(()) } });
    assert_eq!(worker.drain().await.unwrap().failed, 1);
    let job = ended(&client, id, Stage::Pending).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    let message = &job.errors[0].message;
    assert!(message.starts_with("panicked at ") && message.contains("worker.rs:"), "{message}");
    assert!(message.ends_with(": seven"), "{message}");
}

pub(crate) async fn a_payload_that_does_not_decode_is_a_failure(client: Client) {
    let queue = queue();
    let id = client.push_raw("remind", *b"{\"user\":\"seven\"}").queue(queue.clone()).await.unwrap().id;
    assert_eq!(Worker::new(&client).queue(queue).handle(nothing).drain().await.unwrap().failed, 1);
    let job = ended(&client, id, Stage::Pending).await;
    assert_eq!(job.attempt, 1);
    assert!(
        job.errors[0].message.starts_with("the payload cannot be read as \"remind\": `user` must be"),
        "{}",
        job.errors[0].message
    );
}

/// How long a job was postponed, in seconds: the decision is made a moment before it is carried out, and a wait begins at
/// the clock's latest possible reading.
fn wait_s(job: &duetime_core::Job) -> u64 {
    (job.due_at.0 - job.updated_at.0 + 500) / 1_000
}

pub(crate) async fn errors_say_what_follows(client: Client) {
    let queue = queue();
    let ids = [push(&client, &queue, 0).await, push(&client, &queue, 1).await, push(&client, &queue, 2).await];
    let worker = Worker::new(&client).queue(queue).handle(|job: Remind| async move {
        match job.user {
            0 => Handled::Err(JobError::fatal("never")),
            1 => Err(JobError::retry_after(SECOND * 100, "later")),
            _ => Err(JobError::release(SECOND * 100)),
        }
    });
    let summary = worker.drain().await.unwrap();
    assert_eq!(summary, counted(0, 2, 1));
    let never = ended(&client, ids[0], Stage::Failed).await;
    assert_eq!(never.message.as_deref(), Some("never"));
    let later = ended(&client, ids[1], Stage::Pending).await;
    assert_eq!((later.attempt, wait_s(&later)), (1, 100));
    let released = ended(&client, ids[2], Stage::Pending).await;
    assert_eq!((released.attempt, wait_s(&released)), (0, 100));
}

pub(crate) async fn what_fails_is_tried_again(client: Client) {
    let queue = queue();
    let push = client.push(Remind { user: 1 }).queue(queue.clone()).backoff(Backoff::fixed(Duration::ZERO));
    let id = push.max_attempts(3).await.unwrap().id;
    let worker = Worker::new(&client).queue(queue).handle(|_: Remind, context: Context| async move {
        if context.attempt() < 3 { Err("not yet")? } else { Handled::Ok(()) }
    });
    assert_eq!(worker.drain().await.unwrap(), counted(1, 2, 0));
    assert_eq!(ended(&client, id, Stage::Succeeded).await.attempt, 3);
}

pub(crate) async fn an_unknown_kind_is_given_back(client: Client) {
    let queue = queue();
    let id = client.push_raw("unheard-of", *b"{}").queue(queue.clone()).await.unwrap().id;
    assert_eq!(Worker::new(&client).queue(queue).handle(nothing).drain().await.unwrap().released, 1);
    let job = ended(&client, id, Stage::Pending).await;
    assert_eq!((job.attempt, wait_s(&job)), (0, 5));
}

/// A handler blocks the only thread of its runtime for three leases, while another worker would have the job.
pub(crate) async fn a_handler_that_blocks_keeps_its_lease(client: Client) {
    let queue = queue();
    let id = push(&client, &queue, 1).await;
    let runs = Arc::new(AtomicU32::new(0));
    let (started, starts) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let rival = thread::spawn({
        let (client, queue, runs) = (client.clone(), queue.clone(), runs.clone());
        let rival = Worker::new(&client).queue(queue).handle(move |_: Remind| {
            runs.fetch_add(1, Ordering::Relaxed);
            async { Handled::Ok(()) }
        });
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                starts.await.unwrap();
                rival.run_until(async { stopped.await.unwrap() }).await.unwrap()
            })
        }
    });
    let started = Mutex::new(Some(started));
    let counted = runs.clone();
    let worker = Worker::new(&client).queue(queue).lease(SECOND).handle(move |_: Remind| {
        counted.fetch_add(1, Ordering::Relaxed);
        started.lock().unwrap().take().unwrap().send(()).unwrap();
        async {
            thread::sleep(SECOND * 3);
            Handled::Ok(())
        }
    });
    let summary = worker.drain().await.unwrap();
    stop.send(()).unwrap();
    assert_eq!(rival.join().unwrap(), Summary::default());
    assert_eq!((summary.succeeded, runs.load(Ordering::Relaxed)), (1, 1));
    let job = ended(&client, id, Stage::Succeeded).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
}

/// Of two jobs that a worker has reserved, the first blocks the only thread until another worker has run the second.
pub(crate) async fn a_job_behind_a_handler_that_blocks_is_given_back(client: Client) {
    let queue = queue();
    let ids = [push(&client, &queue, 1).await, push(&client, &queue, 2).await];
    let (started, starts) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let (ran, runs) = std::sync::mpsc::channel();
    let rival = Worker::new(&client).queue(queue.clone()).handle(move |job: Remind| {
        ran.send(job.user).unwrap();
        async { Handled::Ok(()) }
    });
    let rival = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            starts.await.unwrap();
            rival.run_until(async { stopped.await.unwrap() }).await.unwrap()
        })
    });
    let first = Mutex::new(Some((started, runs)));
    let worker = Worker::new(&client).queue(queue).concurrency(2).handle(move |job: Remind| {
        let (started, runs) = first.lock().unwrap().take().expect("the second job is not begun here");
        started.send(()).unwrap();
        assert_eq!(runs.recv_timeout(SECOND * 30), Ok(3 - job.user));
        async { Handled::Ok(()) }
    });
    let summary = worker.drain().await.unwrap();
    stop.send(()).unwrap();
    assert_eq!(summary, counted(1, 0, 1));
    assert_eq!(rival.join().unwrap(), counted(1, 0, 0));
    for id in ids {
        assert_eq!(ended(&client, id, Stage::Succeeded).await.attempt, 1);
    }
}

/// If the worker were killed, they would have failed, although nobody began them.
pub(crate) async fn jobs_on_their_last_attempt_are_not_reserved_ahead(client: Client) {
    const ALL: u32 = 1_000;
    let queue = queue();
    let job = |user: u32| client.push(Remind { user: user.into() }).queue(queue.clone()).max_attempts(1);
    client.push_all((0..ALL).map(job)).await.unwrap();
    let (seen, begun) = (Arc::new(Mutex::new(None)), AtomicU32::new(0));
    let (asked, at, sees) = (client.clone(), queue.clone(), seen.clone());
    let worker = Worker::new(&client).queue(queue.clone()).concurrency(1).handle(move |_: Remind| {
        let (client, queue, seen) = (asked.clone(), at.clone(), sees.clone());
        let before = begun.fetch_add(1, Ordering::Relaxed);
        async move {
            if before == ALL / 2 {
                while client.queues().get(&queue).await?.tally.succeeded < before.into() {}
                *seen.lock().unwrap() = Some(client.queues().get(&queue).await?.counts.running);
            }
            Ok::<(), JobError>(())
        }
    });
    assert_eq!(worker.drain().await.unwrap().succeeded, u64::from(ALL));
    assert_eq!(*seen.lock().unwrap(), Some(1), "all but the one that ran had ended");
}

pub(crate) async fn a_cancel_reaches_the_handler(client: Client) {
    let queue = queue();
    let id = push(&client, &queue, 1).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::new(&client).queue(queue).lease(SECOND).handle(move |_: Remind, context: Context| {
        started.send(()).unwrap();
        async move {
            context.cancellation().cancelled().await;
            Handled::Err("told to stop".into())
        }
    });
    let cancel = async {
        starts.recv().await.unwrap();
        assert_eq!(client.jobs().cancel(id).await.unwrap(), CancelOutcome::CancelRequested);
    };
    let (summary, ()) = tokio::join!(worker.drain(), cancel);
    assert_eq!(summary.unwrap().failed, 1);
    ended(&client, id, Stage::Cancelled).await;
}

pub(crate) async fn a_stop_lets_handlers_finish_and_gives_the_rest_back(client: Client) {
    let queue = queue();
    let ids = [push(&client, &queue, 0).await, push(&client, &queue, 1).await, push(&client, &queue, 2).await];
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let passed = gate.clone();
    let worker = Worker::new(&client).queue(queue.clone()).concurrency(1).handle(move |_: Remind| {
        started.send(()).unwrap();
        let gate = passed.clone();
        async move { Ok::<_, JobError>(gate.acquire().await.map(|permit| permit.forget())?) }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let finish = async {
        starts.recv().await.unwrap();
        stop.send(()).unwrap();
        // The worker has been told by the time that others are polled again.
        tokio::task::yield_now().await;
        gate.add_permits(1);
    };
    let (summary, ()) = tokio::join!(worker.run_until(async { stopped.await.unwrap() }), finish);
    assert_eq!(summary.unwrap().succeeded, 1);
    ended(&client, ids[0], Stage::Succeeded).await;
    for id in &ids[1..] {
        let job = ended(&client, *id, Stage::Pending).await;
        assert_eq!((job.attempt, job.lease_until), (0, None));
    }
}

pub(crate) async fn an_idle_worker_stops_at_once(client: Client) {
    let worker = Worker::new(&client).queue(queue()).stop_limit(SECOND * 3_600).handle(nothing);
    let stopped = tokio::time::timeout(SECOND * 30, worker.run_until(tokio::task::yield_now()));
    assert_eq!(stopped.await.expect("it has nothing to wait for").unwrap(), Summary::default());
}

pub(crate) async fn a_stop_whose_limit_is_over_cancels_and_then_aborts(client: Client) {
    let queue = queue();
    let ids = [push(&client, &queue, 0).await, push(&client, &queue, 1).await];
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::new(&client).queue(queue).concurrency(2).stop_limit(Duration::ZERO);
    let worker = worker.handle(move |job: Remind, context: Context| {
        started.send(()).unwrap();
        async move {
            context.cancellation().cancelled().await;
            if job.user == 0 { Err("told to stop")? } else { std::future::pending::<Handled>().await }
        }
    });
    let stop = async {
        starts.recv().await.unwrap();
        starts.recv().await.unwrap();
    };
    let summary = worker.run_until(stop).await.unwrap();
    assert_eq!(summary, counted(0, 0, 2));
    for id in ids {
        let job = ended(&client, id, Stage::Pending).await;
        assert_eq!((job.attempt, job.lease_until), (0, None));
    }
}

pub(crate) async fn a_worker_that_is_dropped_tells_its_handlers(client: Client) {
    let queue = queue();
    push(&client, &queue, 0).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let (told, mut tells) = mpsc::unbounded_channel();
    let worker = Worker::new(&client).queue(queue).handle(move |_: Remind, context: Context| {
        started.send(()).unwrap();
        let told = told.clone();
        async move {
            context.cancellation().cancelled().await;
            Ok::<_, JobError>(told.send(())?)
        }
    });
    tokio::select! {
        _ = worker.run() => panic!("a worker runs until it is told"),
        _ = starts.recv() => {}
    }
    tells.recv().await.unwrap();
}

pub(crate) async fn a_malformed_queue_ends_the_worker(client: Client) {
    let error = Worker::new(&client).queue("not a name").handle(nothing).run().await.unwrap_err();
    assert_eq!(error.code(), "invalid");
}
