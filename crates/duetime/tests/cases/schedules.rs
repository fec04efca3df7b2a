//! The client's schedules.

use super::queue;
use duetime::{
    Client, Error, Job, Missed, NewJob, Outcome, Overlap, Query, ReserveRequest, Schedule, Source, State, TickOutcome,
    Timing,
};
use std::sync::Arc;

fn job(queue: &Arc<str>) -> NewJob {
    NewJob { queue: queue.clone(), kind: "beat".into(), tags: vec!["own".into()], ..NewJob::new(*b"\xff{}") }
}

pub(crate) async fn a_schedule_pushes_at_its_ticks(client: Client) {
    let queue = queue();
    let set = client.set_schedule(&queue, Schedule::new(Timing::Every(1_000), job(&queue))).await.unwrap();
    assert_eq!(set.next.len(), 10);
    for tick in &set.next[..2] {
        let from = Source::Queues(vec![queue.clone()]);
        let request = ReserveRequest { from, limit: 1, lease_ms: None, wait_ms: 20_000, request_id: None };
        let lease = client.reserve(request).await.unwrap().leases.remove(0);
        let tag = format!("schedule:{queue}");
        assert_eq!((lease.job.due_at, &*lease.job.kind, &*lease.job.payload), (*tick, "beat", &b"\xff{}"[..]));
        assert_eq!(lease.job.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["own", &tag]);
        client.settle(vec![(lease.job.receipt(), Outcome::Complete { result: None })]).await.unwrap();
    }
    let status = client.schedule(&queue).await.unwrap();
    let last = status.last.unwrap();
    assert_eq!((last.outcome, status.version), (TickOutcome::Pushed, set.version));
    assert!(last.at >= set.next[1] && status.next[0] > set.next[1]);
    client.delete_schedule(&queue).await.unwrap();
    // What was pushed stays, one for each tick.
    let query = Query { queue: Some(queue.clone()), ..Query::default() };
    let jobs: Vec<Job> = client.find(&query, None, 100).await.unwrap().jobs;
    let mut ticks: Vec<u64> = jobs.iter().map(|job| job.first_due_at).collect();
    ticks.sort_unstable();
    let expected: Vec<u64> = (0..ticks.len() as u64).map(|n| set.next[0] + n * 1_000).collect();
    assert_eq!(ticks, expected);
    assert_eq!(jobs.iter().filter(|job| job.state(u64::MAX) == State::Succeeded).count(), 2);
}

pub(crate) async fn schedules_are_set_shown_and_deleted(client: Client) {
    let name = queue();
    let cron = Timing::parse("30 2 * * 1-5", Some("europe/berlin")).unwrap();
    let schedule = Schedule {
        missed: Missed::Skip,
        overlap: Overlap::Skip,
        start: Some(1_900_000_000_000),
        end: Some(1_900_000_000_000 + 3 * 86_400_000),
        ..Schedule::new(cron, job(&name))
    };
    let previewed = client.preview_schedule(&name, schedule.clone()).await.unwrap();
    assert_eq!(client.schedule(&name).await.unwrap_err().code(), "schedule_not_found");
    let set = client.set_schedule(&name, schedule).await.unwrap();
    assert_eq!((&set.next, &set.schedule), (&previewed.next, &previewed.schedule));
    // 2030-03-17 is a Sunday.
    assert_eq!(set.next, [1_900_027_800_000, 1_900_114_200_000, 1_900_200_600_000]);
    let Timing::Cron { time_zone, .. } = &set.schedule.timing else { panic!("{set:?}") };
    assert_eq!(&**time_zone, "Europe/Berlin");
    assert_eq!(client.schedule(&name).await.unwrap(), set);
    assert!(client.schedules().await.unwrap().contains(&set));
    assert_eq!(client.set_schedule(&name, set.schedule.clone()).await.unwrap(), set);
    client.delete_schedule(&name).await.unwrap();
    let gone = client.delete_schedule(&name).await.unwrap_err();
    assert!(matches!(&gone, Error::Core(duetime::core::Error::NoSchedule(gone)) if *gone == name), "{gone}");
}

pub(crate) async fn a_schedule_beyond_a_limit_is_refused(client: Client) {
    let name = queue();
    let never = Timing::parse("0 0 30 2 *", None).unwrap();
    let nowhere = Timing::parse("* * * * *", Some("Europe/Nowhere")).unwrap();
    for timing in [never, nowhere, Timing::Every(999)] {
        let refused = client.set_schedule(&name, Schedule::new(timing, job(&name))).await.unwrap_err();
        assert_eq!(refused.code(), "invalid", "{refused}");
    }
    let wrong = client.set_schedule("no name", Schedule::new(Timing::Every(1_000), job(&name))).await.unwrap_err();
    assert_eq!(wrong.code(), "invalid");
}
