//! The client's schedules.

use super::{Remind, queue};
use duetime::job::{NewJob, PushOutcome, Query, State as JobState};
use duetime::lease::{Outcome, ReserveRequest, Source};
use duetime::queue::Pause;
use duetime::schedule::{ClockChange, Cron, Every, Missed, Overlap, Run, TickOutcome, Timing};
use duetime::time::Span;
use duetime::{Client, ErrorKind, Job, Schedule, Timestamp, new_job};
use std::sync::Arc;
use std::time::Duration;

fn job(queue: &Arc<str>) -> NewJob {
    NewJob { queue: queue.clone(), kind: "beat".into(), tags: vec!["own".into()], ..NewJob::new(*b"\xff{}") }
}

pub(crate) async fn a_schedule_pushes_at_its_ticks(client: Client) {
    let queue = queue();
    let set = client.schedules().set(&queue, Schedule::new(Timing::Every(Span(1_000)), job(&queue))).await.unwrap();
    assert_eq!(set.next.len(), 10);
    for tick in &set.next[..2] {
        let from = Source::Queues(vec![queue.clone()]);
        let request = ReserveRequest::new(from).limit(1).wait(Span(20_000));
        let lease = client.leases().reserve(request).await.unwrap().leases.remove(0);
        let tag = format!("schedule:{queue}");
        assert_eq!((lease.job.due_at, &*lease.job.kind, &*lease.job.payload), (*tick, "beat", &b"\xff{}"[..]));
        assert_eq!(lease.job.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["own", &tag]);
        client.leases().settle(vec![(lease.job.receipt(), Outcome::complete(None))]).await.unwrap();
    }
    let status = client.schedules().get(&queue).await.unwrap();
    let last = status.last.unwrap();
    assert_eq!((last.outcome, status.version), (TickOutcome::Pushed, set.version));
    assert!(last.at >= set.next[1] && status.next[0] > set.next[1]);
    client.schedules().delete(&queue).await.unwrap();
    // Pushed jobs remain, one for each tick.
    let query = Query::default().queue(queue.clone());
    let jobs: Vec<Job> = client.jobs().page(&query, None, 100).await.unwrap().jobs;
    let mut ticks: Vec<u64> = jobs.iter().map(|job| job.first_due_at.0).collect();
    ticks.sort_unstable();
    let expected: Vec<u64> = (0..ticks.len() as u64).map(|n| set.next[0].0 + n * 1_000).collect();
    assert_eq!(ticks, expected);
    assert_eq!(jobs.iter().filter(|job| job.state(u64::MAX) == JobState::Succeeded).count(), 2);
}

pub(crate) async fn times_and_a_job_are_a_schedule(client: Client) {
    let name = queue();
    let cron = || Cron::new(" 30 2 * * 1-5").zone("Europe/Berlin");
    let by_hand = Schedule::cron("30 2 * * 1-5", "Europe/Berlin", new_job(&Remind { user: 7 }).unwrap());
    let set = client.schedules().set(&name, cron().job(Remind { user: 7 })).await.unwrap();
    assert_eq!(set.schedule, client.schedules().preview(&name, by_hand).await.unwrap().schedule);
    let pushed = client.push(Remind { user: 8 }).tag("own").priority(3);
    let every = Every::new(Duration::from_secs(90)).job(pushed).unwrap().overlap(Overlap::Skip);
    let set = client.schedules().set(&name, every).await.unwrap().schedule;
    assert_eq!((&set.timing, set.job.priority), (&Timing::Every(Span(90_000)), 3));
    assert_eq!((&*set.job.tags[0], set.overlap), ("own", Overlap::Skip));
    let wrong = client.schedules().set(&name, Cron::new("every day").job(job(&name))).await.unwrap_err();
    assert_eq!((wrong.kind(), wrong.code()), (ErrorKind::Invalid, "invalid"));
    let utc = client.schedules().preview(&name, Cron::new("@daily").job(job(&name))).await.unwrap().schedule.timing;
    assert_eq!(utc, Timing::Cron { expression: "@daily".into(), time_zone: "UTC".into() });
    client.schedules().delete(&name).await.unwrap();
}

pub(crate) async fn schedules_are_set_shown_and_deleted(client: Client) {
    let name = queue();
    let cron = Timing::parse("30 2 * * 1-5", Some("europe/berlin")).unwrap();
    let schedule = Schedule {
        missed: Missed::Skip,
        overlap: Overlap::Skip,
        start: Some(Timestamp(1_900_000_000_000)),
        end: Some(Timestamp(1_900_000_000_000 + 3 * 86_400_000)),
        ..Schedule::new(cron, job(&name))
    };
    let previewed = client.schedules().preview(&name, schedule.clone()).await.unwrap();
    assert!(client.schedules().get(&name).await.unwrap_err().is_not_found());
    let set = client.schedules().set(&name, schedule).await.unwrap();
    assert_eq!((&set.next, &set.schedule), (&previewed.next, &previewed.schedule));
    // 2030-03-17 is a Sunday.
    assert_eq!(set.next, [1_900_027_800_000, 1_900_114_200_000, 1_900_200_600_000].map(Timestamp));
    let Timing::Cron { time_zone, .. } = &set.schedule.timing else { panic!("{set:?}") };
    assert_eq!(&**time_zone, "Europe/Berlin");
    assert_eq!(client.schedules().get(&name).await.unwrap(), set);
    assert!(client.schedules().list().await.unwrap().contains(&set));
    assert_eq!(client.schedules().set(&name, set.schedule.clone()).await.unwrap(), set);
    client.schedules().delete(&name).await.unwrap();
    let gone = client.schedules().delete(&name).await.unwrap_err();
    assert!(gone.is_not_found() && gone.to_string().contains(&*name), "{gone}");
}

pub(crate) async fn a_schedule_is_paused_resumed_and_run(client: Client) {
    let name = queue();
    let cron = Timing::parse("30 2 * * *", Some("Europe/Berlin")).unwrap();
    let start = Some(Timestamp(1_900_000_000_000));
    let set = client.schedules().set(&name, Schedule { start, ..Schedule::new(cron, job(&name)) }).await.unwrap();
    let runs = client.schedules().next_runs(&name, 16).await.unwrap();
    assert_eq!(runs[..10].iter().map(|run| run.at).collect::<Vec<_>>(), set.next);
    assert_eq!((&*runs[0].local, runs[0].clock_change), ("2030-03-18T02:30:00+01:00[Europe/Berlin]", None));
    assert_eq!(runs[13].clock_change, Some(ClockChange::Gap));
    assert_eq!(&*runs[13].local, "2030-03-31T03:00:00+02:00[Europe/Berlin]");
    assert_eq!(client.schedules().next_runs(&name, 0).await.unwrap_err().code(), "invalid");

    let until = set.next[3];
    let paused = client.schedules().pause(&name, Pause::Until(until)).await.unwrap();
    assert_eq!((paused.schedule.paused_until, &paused.next[..]), (Some(until), &runs_from(&runs, 3)[..]));
    let paused = client.schedules().pause(&name, Pause::UntilResumed).await.unwrap();
    assert_eq!((paused.schedule.paused, paused.schedule.paused_until), (Some(true), None));
    assert!(client.schedules().next_runs(&name, 10).await.unwrap().is_empty());

    let first = client.schedules().run(&name, Some("once".into())).await.unwrap();
    assert_eq!((&first.queue, first.outcome), (&name, PushOutcome::Created));
    let repeated = client.schedules().run(&name, Some("once".into())).await.unwrap();
    assert_eq!((repeated.id, repeated.outcome), (first.id, PushOutcome::Repeated));
    let other = client.schedules().run(&name, None).await.unwrap();
    assert_eq!(other.outcome, PushOutcome::Created);
    let query = Query { tag: Some(format!("schedule:{name}").into()), ..Query::default() };
    let mut found: Vec<_> = client.jobs().page(&query, None, 10).await.unwrap().jobs.iter().map(|job| job.id).collect();
    found.sort_unstable();
    assert_eq!(found, [first.id, other.id]);

    let resumed = client.schedules().resume(&name).await.unwrap();
    assert_eq!((resumed.schedule.paused, &resumed.next), (Some(false), &set.next));
    client.schedules().delete(&name).await.unwrap();
    for gone in [
        client.schedules().pause(&name, Pause::UntilResumed).await.map(drop),
        client.schedules().run(&name, None).await.map(drop),
    ] {
        assert_eq!(gone.unwrap_err().code(), "schedule_not_found");
    }
}

fn runs_from(runs: &[Run], first: usize) -> Vec<Timestamp> {
    runs[first..].iter().take(10).map(|run| run.at).collect()
}

pub(crate) async fn a_schedule_beyond_a_limit_is_refused(client: Client) {
    let name = queue();
    let never = Timing::parse("0 0 30 2 *", None).unwrap();
    let nowhere = Timing::parse("* * * * *", Some("Europe/Nowhere")).unwrap();
    for timing in [never, nowhere, Timing::Every(Span(999))] {
        let refused = client.schedules().set(&name, Schedule::new(timing, job(&name))).await.unwrap_err();
        assert_eq!(refused.code(), "invalid", "{refused}");
    }
    let wrong =
        client.schedules().set("no name", Schedule::new(Timing::Every(Span(1_000)), job(&name))).await.unwrap_err();
    assert_eq!(wrong.code(), "invalid");
}
