//! The client's calls.

use super::{Remind, ended, push, queue};
use duetime::event::{Event, Filter, What};
use duetime::job::{
    BulkAction, CancelOutcome, Due, JobRef, KeyUntil, NewJob, OnConflict, Patch, PushOutcome, Query, Stage,
    State as JobState,
};
use duetime::lease::{Outcome, ReserveRequest, Source, TakeRequest};
use duetime::queue::{Pause, QueueSettings, Rate, WhenFull};
use duetime::status::{HistoryPoint, HistorySpan, ReasonCode};
use duetime::time::Span;
use duetime::{Client, ErrorKind, JobId, Retry, Timestamp, Worker};
use futures_util::StreamExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

fn reserve(queue: &Arc<str>, limit: usize) -> ReserveRequest {
    let from = Source::Queues(vec![queue.clone()]);
    ReserveRequest::new(from).limit(limit)
}

pub(crate) async fn a_push_keeps_what_the_builder_says(client: Client) {
    let queue = queue();
    let pushed = client
        .push(Remind { user: 7 })
        .queue(queue.clone())
        .after(Duration::from_secs(3_600))
        .priority(3)
        .key("k")
        .key_until(KeyUntil::Started)
        .tag("order:1")
        .tags(["a", "b"])
        .max_attempts(4)
        .lease(Duration::from_secs(90))
        .expires(Duration::from_secs(5))
        .await
        .unwrap();
    assert_eq!((pushed.outcome, pushed.state), (PushOutcome::Created, JobState::Scheduled));
    let job = client.jobs().get(pushed.id).await.unwrap();
    assert_eq!((&*job.queue, &*job.kind, &*job.payload), (&*queue, "remind", &br#"{"user":7}"#[..]));
    assert_eq!(
        (job.due_at, job.priority, job.lease, job.expires),
        (pushed.due_at, 3, Some(Span(90_000)), Some(Span(5_000)))
    );
    assert_eq!((job.key.as_deref(), job.key_until), (Some("k"), KeyUntil::Started));
    assert_eq!(job.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["order:1", "a", "b"]);
    assert_eq!(job.options().retry, Retry::default().max_attempts(4));

    let beside = client.push(Remind { user: 9 }).queue(queue.clone()).at(job.due_at).await.unwrap();
    assert_eq!(beside.due_at, job.due_at);
    let again = client.push(Remind { user: 8 }).queue(queue.clone()).key("k").await.unwrap();
    assert_eq!((again.id, again.outcome), (pushed.id, PushOutcome::Kept));
    let refused = client.push(Remind { user: 8 }).queue(queue).key("k").on_conflict(OnConflict::Reject).await;
    assert_eq!(refused.unwrap_err().code(), "key_conflict");
}

pub(crate) async fn a_push_beyond_a_limit_is_refused(client: Client) {
    let eleven_years = Duration::from_secs(11 * 366 * 86_400);
    let late = client.push(Remind { user: 7 }).after(eleven_years).await.unwrap_err();
    assert_eq!(late.code(), "invalid", "{late}");
    assert!(!late.is_retryable());
}

pub(crate) async fn a_batch_is_answered_in_order(client: Client) {
    let (one, other) = (queue(), queue());
    let job = |queue: &Arc<str>, user: u64| client.push(Remind { user }).queue(queue.clone()).build().unwrap();
    let refused = NewJob { tags: vec![Arc::from("")], ..job(&other, 3) };
    let answers = client.push_many(vec![job(&one, 1), job(&other, 2), refused, job(&one, 4)]).await.unwrap();
    assert_eq!(answers.len(), 4);
    for (answer, queue) in answers.iter().zip([Some(&one), Some(&other), None, Some(&one)]) {
        match queue {
            Some(queue) => assert_eq!(answer.as_ref().unwrap().queue, *queue),
            None => assert_eq!(answer.as_ref().unwrap_err().code(), "invalid"),
        }
    }
    assert!(client.push_many(Vec::new()).await.unwrap().is_empty());
}

pub(crate) async fn many_are_pushed_at_once(client: Client) {
    let queue = queue();
    let jobs =
        |first: u64| (first..first + 3).map(|user| client.push(Remind { user }).queue(queue.clone()).tag("many"));
    let pushed = client.push_all(jobs(1)).await.unwrap();
    assert_eq!(pushed.iter().map(|pushed| pushed.outcome).collect::<Vec<_>>(), [PushOutcome::Created; 3]);
    let found = client.jobs().find(Query::default().queue(queue.clone()).tag("many")).into_stream();
    let found: Vec<_> = found.map(|job| job.unwrap().payload_as::<Remind>().unwrap().user).collect().await;
    assert_eq!(found, [1, 2, 3]);

    let refused = jobs(4).enumerate().map(|(at, push)| if at == 1 { push.tag("") } else { push });
    let error = client.push_all(refused).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "invalid"));
    assert!(error.to_string().starts_with("1 of 3 jobs were not pushed, the others were;"), "{error}");
    assert!(error.to_string().contains("number 2: "), "{error}");
    assert_eq!(client.queues().get(&queue).await.unwrap().counts.ready, 5);

    let typed = client.push_all((10..12).map(|user| Remind { user })).await.unwrap();
    assert!(typed.iter().all(|pushed| &*pushed.queue == "reminders"));
    for pushed in typed {
        client.jobs().delete(pushed.id).await.unwrap();
    }
}

pub(crate) async fn a_job_is_found_by_its_key(client: Client) {
    let queue = queue();
    let find = async || client.jobs().find_key(queue.clone(), "order-7").await.unwrap().map(|job| job.id);
    let push = || client.push(Remind { user: 7 }).queue(queue.clone()).key("order-7");
    assert_eq!(find().await, None);
    let first = push().await.unwrap().id;
    assert_eq!(find().await, Some(first));
    let lease = client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.remove(0);
    assert_eq!(find().await, Some(first), "it runs");
    client.leases().complete(lease.job.receipt(), None).await.unwrap();
    assert_eq!(find().await, None, "it has ended");
    push().key_until(KeyUntil::Started).await.unwrap();
    assert_eq!(client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.len(), 1);
    assert_eq!(find().await, None, "it has started");
    let second = push().await.unwrap().id;
    assert_eq!(find().await, Some(second));
    assert_eq!(client.jobs().find_key(queue.clone(), "").await.unwrap_err().kind(), ErrorKind::Invalid);
}

pub(crate) async fn bytes_come_back_as_they_were(client: Client) {
    let queue = queue();
    for payload in [&b"\0\xff"[..], b"", br#"{"n": 123456789012345678901234567890, "x": 1.0}"#, b"\"text\"", b"null"] {
        let id = client.push_raw("bytes", payload).queue(queue.clone()).await.unwrap().id;
        assert_eq!(&*client.jobs().get(id).await.unwrap().payload, payload);
    }
}

pub(crate) async fn leases_are_settled_once(client: Client) {
    let queue = queue();
    for user in 0..3 {
        push(&client, &queue, user).await;
    }
    let reservation = client.leases().reserve(reserve(&queue, 10)).await.unwrap();
    let receipts: Vec<_> = reservation.leases.iter().map(|lease| lease.job.receipt()).collect();
    assert_eq!(receipts.len(), 3);
    let extended = client
        .leases()
        .extend(receipts.iter().map(|&receipt| (receipt, Some(Duration::from_secs(5)))).collect())
        .await
        .unwrap();
    assert!(extended.into_iter().all(|answer| !answer.unwrap().cancel_asked));

    let settled = client.leases().complete(receipts[0], Some(Arc::from(*b"42"))).await.unwrap();
    assert_eq!(settled.state, JobState::Succeeded);
    assert_eq!(ended(&client, receipts[0].id, Stage::Succeeded).await.result.as_deref(), Some(&b"42"[..]));
    assert_eq!(client.leases().release(receipts[1], Duration::ZERO).await.unwrap().state, JobState::Ready);
    let lost = client.leases().settle(vec![(receipts[1], Outcome::complete(None))]).await.unwrap().remove(0);
    assert_eq!(lost.unwrap_err().code(), "lease_lost");
    let lost = client.leases().extend(vec![(receipts[1], None)]).await.unwrap().remove(0);
    assert_eq!(lost.unwrap_err().code(), "lease_lost");
    let failed = client.leases().fail(receipts[2], duetime::lease::Failure::new("no").fatal());
    assert_eq!(failed.await.unwrap().state, JobState::Failed);
    let again = client.leases().reserve(reserve(&queue, 10)).await.unwrap();
    assert_eq!(again.leases.iter().map(|lease| lease.job.attempt).collect::<Vec<_>>(), [1]);
}

pub(crate) async fn a_reserve_waits_and_is_called_off(client: Client) {
    let queue = queue();
    let waiting = reserve(&queue, 1).wait(Span(20_000));
    {
        let mut called_off = Box::pin(client.leases().reserve(waiting.clone()));
        tokio::select! {
            biased;
            _ = &mut called_off => panic!("there is nothing to reserve"),
            () = tokio::task::yield_now() => {}
        }
    }
    let (reservation, id) = tokio::join!(client.leases().reserve(waiting), push(&client, &queue, 1));
    let lease = &reservation.unwrap().leases[0];
    assert_eq!((lease.job.id, lease.job.attempt, lease.length), (id, 1, Span(60_000)));
}

pub(crate) async fn a_job_says_why_it_does_not_run(client: Client) {
    let queue = queue();
    let reasons = |id| {
        let client = client.clone();
        async move {
            let why = client.jobs().why(id).await.unwrap();
            why.reasons.iter().map(|reason| (reason.code, reason.until)).collect::<Vec<_>>()
        }
    };
    let later = client.push(Remind { user: 2 }).queue(queue.clone()).after(Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(reasons(later.id).await, [(ReasonCode::NotDue, Some(later.due_at))]);
    let id = push(&client, &queue, 1).await;
    assert_eq!(reasons(id).await, [(ReasonCode::NoWorker, None)]);
    let until = later.due_at;
    client.queues().pause(&queue, Pause::Until(until)).await.unwrap();
    assert_eq!(reasons(id).await, [(ReasonCode::Paused, Some(until)), (ReasonCode::NoWorker, None)]);
    assert!(client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.is_empty());
    client.queues().resume(&queue).await.unwrap();
    assert_eq!(reasons(id).await, []);
    let settings = QueueSettings::default().max_running(1);
    client.queues().replace(&queue, settings).await.unwrap();
    let lease = client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.remove(0);
    assert_eq!(reasons(id).await, [(ReasonCode::Running, lease.job.lease_until)]);
    let behind = push(&client, &queue, 3).await;
    assert_eq!(reasons(behind).await, [(ReasonCode::MaxRunning, None)]);
    let rate = Some(Rate { per_second: 0.001, burst: Some(1) });
    client.queues().replace(&queue, QueueSettings { rate, ..QueueSettings::default() }).await.unwrap();
    let _passes = client.leases().reserve(reserve(&queue, 1)).await.unwrap();
    let last = push(&client, &queue, 4).await;
    assert!(matches!(reasons(last).await[..], [(ReasonCode::Rate, Some(_))]));
    client.leases().complete(lease.job.receipt(), None).await.unwrap();
    assert_eq!(reasons(id).await, [(ReasonCode::Finished, None)]);
    let unknown = client.jobs().why(JobId::new(7).unwrap()).await.unwrap_err();
    assert_eq!(unknown.code(), "not_found");
}

pub(crate) async fn named_workers_are_listed(client: Client) {
    let queue = queue();
    let name: Arc<str> = format!("worker of {queue}").into();
    let listed = || {
        let (client, name) = (client.clone(), name.clone());
        async move { client.workers().list().await.unwrap().into_iter().find(|status| status.worker == name) }
    };
    let named = |limit| ReserveRequest { worker: Some(name.clone()), ..reserve(&queue, limit) };
    assert_eq!(listed().await, None);
    assert!(client.leases().reserve(named(1)).await.unwrap().leases.is_empty());
    let status = listed().await.unwrap();
    assert_eq!((&status.queues[..], status.waiting, status.held), (&[queue.clone()][..], 0, 0));
    for user in 1..=3 {
        push(&client, &queue, user).await;
    }
    let leases = client.leases().reserve(named(3)).await.unwrap().leases;
    let held = || {
        let listed = listed();
        async move {
            let status = listed.await.unwrap();
            assert_eq!(status.held, status.leases.len());
            status.leases.into_iter().map(|lease| (lease.id, lease.lease_until)).collect::<Vec<_>>()
        }
    };
    let of = |lease: &duetime::lease::Lease| (lease.job.id, lease.job.lease_until.unwrap());
    assert_eq!(held().await, leases.iter().map(of).collect::<Vec<_>>());
    client.leases().complete(leases[0].job.receipt(), None).await.unwrap();
    let extended = client
        .leases()
        .extend(vec![(leases[1].job.receipt(), Some(Duration::from_secs(600)))])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(held().await, [of(&leases[2]), (leases[1].job.id, extended.lease_until)]);
    client.leases().release(leases[1].job.receipt(), Duration::ZERO).await.unwrap();
    client.leases().fail(leases[2].job.receipt(), duetime::lease::Failure::default()).await.unwrap();
    assert_eq!(held().await, []);
    let refused =
        client.leases().reserve(ReserveRequest { worker: Some("".into()), ..reserve(&queue, 1) }).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
    // A worker of the library has a name by default.
    let worker = Worker::new(&client).queue(queue.clone()).fallback(async || duetime::worker::Handled::Ok(()));
    worker.drain().await.unwrap();
    let id = std::process::id().to_string();
    let by_default = client.workers().list().await.unwrap();
    assert!(by_default.iter().any(|status| status.worker.ends_with(&id) && status.queues.contains(&queue)));
}

pub(crate) async fn due_jobs_are_seen_and_taken(client: Client) {
    let queue = queue();
    let later = client.push(Remind { user: 2 }).queue(queue.clone()).after(Duration::from_secs(3_600)).await.unwrap();
    let first = push(&client, &queue, 1).await;
    let waiting = |due_from, due_to| {
        let state = vec![JobState::Scheduled, JobState::Ready].into();
        let mut found =
            client.jobs().find(Query { queue: Some(queue.clone()), state, due_from, due_to, ..Query::default() });
        async move { found.take(10).await.unwrap().iter().map(|job| job.id).collect::<Vec<_>>() }
    };
    assert_eq!(waiting(None, None).await, [first, later.id]);
    assert_eq!(waiting(Some(later.due_at), None).await, [later.id]);
    assert_eq!(waiting(None, Some(Timestamp(later.due_at.0 - 1))).await, [first]);

    let take = TakeRequest {
        from: Source::Queues(vec![queue.clone()]),
        limit: 10,
        due_from: None,
        due_to: None,
        request_id: None,
    };
    let taken = client.leases().take(take.clone()).await.unwrap();
    assert_eq!(taken.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [first]);
    assert_eq!(ended(&client, first, Stage::Succeeded).await.message.as_deref(), Some("taken"));
    let named = TakeRequest { from: Source::Jobs(vec![later.id.into()]), limit: 1, ..take };
    let refused = client.leases().take(named.clone()).await.unwrap();
    assert!(refused.leases.is_empty());
    let other = self::queue();
    let new = |queue: &Arc<str>| NewJob { queue: queue.clone(), ..NewJob::new(*b"1") };
    let pushed = client.push_many(vec![new(&queue), new(&other), new(&Arc::from("-"))]).await.unwrap();
    let ids: Vec<_> = pushed.iter().take(2).map(|pushed| pushed.as_ref().unwrap().id).collect();
    assert_eq!(pushed[2].as_ref().unwrap_err().code(), "invalid");
    let both = TakeRequest { from: Source::Queues(vec![other, queue]), limit: 5, ..named };
    let taken = client.leases().take(both).await.unwrap();
    assert_eq!(taken.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [ids[1], ids[0]]);
    assert_eq!(refused.refused.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [later.id]);
}

pub(crate) async fn jobs_are_changed_on_their_condition(client: Client) {
    let queue = queue();
    let id = push(&client, &queue, 1).await;
    let job = client.jobs().get(id).await.unwrap();
    let stale = JobRef { id, version: Some(job.version - 1) };
    assert_eq!(client.jobs().reschedule(stale, Due::After(Span(1_000))).await.unwrap_err().code(), "version_mismatch");
    assert_eq!(client.jobs().cancel(stale).await.unwrap_err().code(), "version_mismatch");
    let current = JobRef { id, version: Some(job.version) };
    let moved = client.jobs().reschedule(current, Due::After(Span(3_600_000))).await.unwrap();
    assert!(moved.due_at > job.due_at && moved.version > job.version);
    let due = client.jobs().run(id).await.unwrap();
    assert!(due.due_at < moved.due_at);
    assert_eq!(client.jobs().cancel(id).await.unwrap(), duetime::job::CancelOutcome::Cancelled);
    assert_eq!(client.jobs().cancel(id).await.unwrap(), duetime::job::CancelOutcome::AlreadyFinished);
    let ended = JobRef { id, version: Some(client.jobs().get(id).await.unwrap().version) };
    assert_eq!(client.jobs().cancel(ended).await.unwrap(), duetime::job::CancelOutcome::AlreadyFinished);
    let stale = JobRef { id, version: Some(due.version) };
    for refused in [
        client.jobs().cancel(stale).await.map(drop),
        client.jobs().reschedule(stale, Due::After(Span(1_000))).await.map(drop),
        client.jobs().run(stale).await.map(drop),
        client.jobs().retry(stale).await.map(drop),
        client.jobs().delete(stale).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), "version_mismatch");
    }
    let again = client.jobs().retry(id).await.unwrap();
    assert_eq!((again.stage, again.attempt), (Stage::Pending, 0));
    assert_eq!(client.jobs().retry(id).await.unwrap_err().code(), "job_live");
    client.jobs().delete(id).await.unwrap();
    assert!(client.jobs().get(id).await.unwrap_err().is_not_found());
    assert_eq!(client.jobs().delete(id).await.unwrap_err().code(), "not_found");
}

pub(crate) async fn jobs_are_cancelled_by_key(client: Client) {
    let (queue, other) = (queue(), queue());
    let push =
        |queue: Arc<str>| client.push(Remind { user: 7 }).queue(queue).key("order-7").after(Duration::from_secs(1_800));
    let (job, kept) = (push(queue.clone()).await.unwrap().id, push(other).await.unwrap().id);
    let cancel = async || client.cancel_by_key(queue.clone(), "order-7").await.unwrap();
    assert_eq!(cancel().await, Some(CancelOutcome::Cancelled));
    assert_eq!(client.jobs().get(job).await.unwrap().stage, Stage::Cancelled);
    assert_eq!(client.jobs().get(kept).await.unwrap().stage, Stage::Pending, "of another queue");
    assert_eq!(cancel().await, None, "it has ended");
    push(queue.clone()).await.unwrap();
    assert_eq!(cancel().await, Some(CancelOutcome::Cancelled), "the key was free");
    client.push(Remind { user: 7 }).queue(queue.clone()).key("order-7").await.unwrap();
    client.leases().reserve(reserve(&queue, 1)).await.unwrap();
    assert_eq!(cancel().await, Some(CancelOutcome::CancelRequested), "a worker has it");
    assert_eq!(client.cancel_by_key(queue.clone(), "order-8").await.unwrap(), None);
    assert_eq!(client.cancel_by_key(queue.clone(), "").await.unwrap_err().kind(), ErrorKind::Invalid);
}

pub(crate) async fn jobs_are_found_and_cancelled_by_tag(client: Client) {
    let queue = queue();
    let tag: Arc<str> = Arc::from(format!("order {queue}/ä"));
    for user in 0..5 {
        let job = client.push(Remind { user }).queue(queue.clone());
        if user % 2 == 0 {
            job.tag(tag.clone()).await.unwrap()
        } else {
            job.await.unwrap()
        };
    }
    let query =
        Query { tag: Some(tag.clone()), state: vec![JobState::Ready, JobState::Cancelled].into(), ..Query::default() };
    let page = client.jobs().page(&query, None, 2).await.unwrap();
    assert_eq!((page.jobs.len(), page.next_cursor.is_some()), (2, true));
    let mut found = client.jobs().find(query);
    assert_eq!(found.take(2).await.unwrap()[..], page.jobs[..]);
    assert!(found.next().await.unwrap().is_some_and(|third| !page.jobs.contains(&third)));
    assert_eq!((found.next().await.unwrap(), found.next().await.unwrap()), (None, None));
    let counts = client.jobs().cancel_by_tag(tag).await.unwrap();
    assert_eq!(counts, [("cancelled", 3)].into());
    assert_eq!(client.queues().get(&queue).await.unwrap().counts.ready, 2);
}

pub(crate) async fn found_jobs_are_rescheduled(client: Client) {
    let queue = queue();
    let job = |user: u64, hours: u64| {
        let due = Due::After(Span(hours * 3_600_000));
        NewJob { queue: queue.clone(), due, ..duetime::new_job(&Remind { user }).unwrap() }
    };
    // More than a page.
    let mut pushed = client.push_many((0..1_100).map(|user| job(user, 1)).collect()).await.unwrap();
    let first = pushed.remove(0).unwrap();
    client.jobs().run(first.id).await.unwrap();
    let running = client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.remove(0).job;
    assert_eq!(running.id, first.id);
    let bulk = |state: Vec<JobState>, to| {
        let query = Query { queue: Some(queue.clone()), state: state.into(), ..Query::default() };
        let client = client.clone();
        async move { client.jobs().bulk(&query, BulkAction::Reschedule(to)).await }
    };
    let at = first.due_at.0 + 7_200_000;
    assert_eq!(bulk(vec![], Due::At(Timestamp(at))).await.unwrap(), [("rescheduled", 1_099)].into());
    assert_eq!(bulk(vec![], Due::At(Timestamp(at))).await.unwrap(), [].into(), "a repeat does nothing");
    let last = pushed.pop().unwrap().unwrap();
    assert_eq!(client.jobs().get(last.id).await.unwrap().due_at, Timestamp(at));
    let mut found = client.jobs().find(Query::default().queue(queue.clone()));
    let mut ids = HashSet::new();
    while let Some(job) = found.next().await.unwrap() {
        assert!(ids.insert(job.id), "{} came twice", job.id);
    }
    assert_eq!(ids.len(), 1_100);
    assert_eq!(bulk(vec![JobState::Running], Due::Now).await.unwrap(), [("job_running", 1)].into());
    client.leases().complete(running.receipt(), None).await.unwrap();
    assert_eq!(bulk(vec![JobState::Succeeded], Due::Now).await.unwrap(), [("already_finished", 1)].into());
    assert_eq!(bulk(vec![], Due::Now).await.unwrap(), [("rescheduled", 1_099)].into());
    assert_eq!(bulk(vec![], Due::After(Span(0))).await.unwrap(), [].into(), "they are due");
    assert_eq!(client.queues().get(&queue).await.unwrap().counts.ready, 1_099);
    assert_eq!(client.leases().reserve(reserve(&queue, 1_000)).await.unwrap().leases.len(), 1_000);
    let waiting = vec![JobState::Scheduled, JobState::Ready, JobState::Running];
    let counts = bulk(waiting, Due::After(Span(60_000))).await.unwrap();
    assert_eq!(counts, [("job_running", 1_000), ("rescheduled", 99)].into());
    assert_eq!(bulk(vec![], Due::After(Span(u64::MAX))).await.unwrap_err().code(), "invalid");
}

pub(crate) async fn queues_are_managed(client: Client) {
    let queue = queue();
    push(&client, &queue, 1).await;
    let settings = QueueSettings {
        lease: Some(Span(90_000)),
        max_running: Some(1),
        rate: Some(Rate { per_second: 1_000.0, burst: Some(7) }),
        ..QueueSettings::default()
    };
    assert_eq!(client.queues().replace(&queue, settings.clone()).await.unwrap(), settings);
    let unlimited = QueueSettings { max_running: Some(0), ..settings.clone() };
    assert_eq!(client.queues().replace(&queue, unlimited).await.unwrap_err().code(), "invalid");
    assert!(client.queues().pause(&queue, Pause::UntilResumed).await.unwrap().paused);
    assert!(client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.is_empty());
    let until = client.queues().get(&queue).await.unwrap().settings.paused_until;
    assert_eq!(until, None);
    let year_2100 = 4_102_444_800_000;
    assert_eq!(client.queues().pause(&queue, Pause::Until(Timestamp(year_2100))).await.unwrap_err().code(), "invalid");
    let soon = client.push(Remind { user: 1 }).queue(queue.clone()).await.unwrap().due_at.0 + 3_600_000;
    assert_eq!(
        client.queues().pause(&queue, Pause::Until(Timestamp(soon))).await.unwrap().paused_until,
        Some(Timestamp(soon))
    );
    assert_eq!(client.queues().resume(&queue).await.unwrap(), settings);
    let status = client.queues().get(&queue).await.unwrap();
    assert_eq!((status.counts.ready, status.tally.pending, &status.settings), (2, 2, &settings));
    assert!(client.queues().list().await.unwrap().iter().any(|status| status.queue == queue));
    let running = client.leases().reserve(reserve(&queue, 10)).await.unwrap().leases;
    assert_eq!(running.len(), 1, "one runs at a time");
    assert_eq!(client.queues().purge(&queue).await.unwrap(), 1);
    assert_eq!(client.queues().get(&queue).await.unwrap().counts.ready, 0);
    let due = client.queues().due_counts(Some(&queue)).await.unwrap();
    assert!(due.as_of.is_some() || due.buckets.is_none());
    let failures = client.queues().failures(Some(&queue)).await.unwrap();
    assert_eq!(failures.as_of.is_some(), failures.groups.is_some());
    let history = client.queues().history(Some(&queue), HistorySpan::Hour).await.unwrap();
    let points = history.points.unwrap();
    let sum = |count: fn(&HistoryPoint) -> u64| points.iter().map(count).sum::<u64>();
    assert_eq!((sum(|point| point.pushed), sum(|point| point.started), sum(|point| point.cancelled)), (2, 1, 1));
    assert!(client.queues().history(None, HistorySpan::Day).await.unwrap().points.is_some());
    assert_eq!(client.queues().history(Some("not a name"), HistorySpan::Day).await.unwrap_err().code(), "invalid");
    assert_eq!(client.queues().delete(&queue).await.unwrap_err().code(), "queue_in_use", "one runs");
    let error = client.queues().force_delete(&queue).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("1 job runs"), "{error}");
    client.leases().complete(running[0].job.receipt(), None).await.unwrap();
    push(&client, &queue, 1).await;
    let deleted = client.queues().force_delete(&queue).await.unwrap();
    assert_eq!((deleted.existed, deleted.cancelled, deleted.deleted), (true, 1, 3));
    assert!(!client.queues().delete(&queue).await.unwrap().existed);
    assert!(client.queues().list().await.unwrap().iter().all(|status| status.queue != queue));
    push(&client, &queue, 1).await;
    let anew = client.queues().get(&queue).await.unwrap();
    assert_eq!((anew.tally.totals.pushed, &anew.settings), (1, &QueueSettings::default()));
    assert!(client.health().await.unwrap().ready);
    assert_eq!(client.queues().get("not a name").await.unwrap_err().code(), "invalid");
}

pub(crate) async fn a_full_queue_takes_no_job(client: Client) {
    let queue = queue();
    client.queues().replace(&queue, QueueSettings::default().max_waiting(1)).await.unwrap();
    let pushed = client.push(Remind { user: 1 }).queue(queue.clone()).origin("o").await.unwrap();
    let error = client.push(Remind { user: 2 }).queue(queue.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.kind(), error.is_retryable()), ("queue_full", ErrorKind::Full, true));
    let again = client.push(Remind { user: 1 }).queue(queue.clone()).origin("o").await.unwrap();
    assert_eq!((again.id, again.outcome), (pushed.id, PushOutcome::Repeated));
    let drops = QueueSettings::default().max_waiting(1).when_full(WhenFull::Drop);
    client.queues().replace(&queue, drops).await.unwrap();
    let dropped = client.push(Remind { user: 2 }).queue(queue.clone()).await.unwrap();
    assert_eq!(dropped.outcome, PushOutcome::Dropped);
    assert_eq!(client.jobs().get(dropped.id).await.unwrap_err().code(), "not_found");
}

/// An operator may have paused a queue, or set what the program does not know.
pub(crate) async fn a_program_sets_up_its_queue_and_leaves_the_rest(client: Client) {
    let (queue, queues) = (queue(), client.queues());
    let operators = QueueSettings { max_running: Some(2), lease: Some(Span(5_000)), ..QueueSettings::default() };
    queues.replace(&queue, operators).await.unwrap();
    let paused_at = queues.pause(&queue, Pause::UntilResumed).await.unwrap().paused_at;
    assert!(paused_at.is_some());
    let wanted = QueueSettings { lease: Some(Span(90_000)), ..QueueSettings::default() }
        .with_rule(Retry::default().max_attempts(3));
    let set_up = queues.set_up(&queue, wanted.clone()).await.unwrap();
    assert_eq!(set_up, QueueSettings { max_running: Some(2), paused: true, paused_at, ..wanted.clone() });
    assert_eq!(queues.set_up(&queue, wanted).await.unwrap(), set_up, "a repeat changes nothing");
    assert_eq!(queues.get(&queue).await.unwrap().settings, set_up);
    let paused = queues.set_up(&queue, QueueSettings { paused: true, ..QueueSettings::default() }).await.unwrap_err();
    assert!(paused.to_string().contains("call `queues().pause`"), "{paused}");
    assert_eq!(queues.replace(&queue, QueueSettings::default()).await.unwrap(), QueueSettings::default());
}

pub(crate) async fn what_happens_is_told(client: Client) {
    let queue = queue();
    let filter = Filter { queues: vec![queue.clone()], what: vec![What::Pushed, What::Started, What::Succeeded] };
    let (mut events, stream) = (client.events(filter.clone()).await.unwrap(), client.events(filter).await.unwrap());
    let id = push(&client, &queue, 7).await;
    client.jobs().update(id, Patch::default().priority(1)).await.unwrap();
    let lease = client.leases().reserve(reserve(&queue, 1)).await.unwrap().leases.remove(0);
    client.leases().complete(lease.job.receipt(), None).await.unwrap();
    for (what, state, attempt) in [
        (What::Pushed, JobState::Ready, 0),
        (What::Started, JobState::Running, 1),
        (What::Succeeded, JobState::Succeeded, 1),
    ] {
        let Some(Event::Transition(told)) = events.next().await.unwrap() else { panic!("nothing is missed") };
        assert_eq!((told.what, told.state, told.attempt, told.id), (what, state, attempt, id));
        assert_eq!((&told.queue, &*told.kind), (&queue, "remind"));
    }
    let told = stream.into_stream().take(3).map(|event| match event.unwrap() {
        Event::Transition(told) => told.what,
        other => panic!("nothing is missed, got {other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>().await, [What::Pushed, What::Started, What::Succeeded]);
    let malformed = Filter { queues: vec!["a b".into()], what: Vec::new() };
    assert_eq!(client.events(malformed).await.unwrap_err().code(), "invalid");
}

pub(crate) async fn metrics_are_a_text_for_prometheus(client: Client) {
    let queue = queue();
    for user in 1..=3 {
        push(&client, &queue, user).await;
    }
    let leases = client.leases().reserve(reserve(&queue, 2)).await.unwrap().leases;
    client.leases().settle(vec![(leases[0].job.receipt(), Outcome::complete(None))]).await.unwrap();
    let text = client.metrics_text().await.unwrap();
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE duetime_jobs_pushed counter\n"), "{text}");
    for (name, value) in [
        ("duetime_jobs_pushed_total", "3"),
        ("duetime_jobs_succeeded_total", "1"),
        ("duetime_queue_pushed_total", "3"),
        ("duetime_attempt_seconds_count", "1"),
        ("duetime_jobs_ready", "1.0"),
        ("duetime_jobs_running", "1.0"),
    ] {
        let line = format!("{name}{{queue=\"{queue}\"}} {value}");
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}
