//! The entries that the ledger is to record.

use super::Subject;
use crate::clock::Millis;
use crate::model::job::{Job, State};
use crate::ports::{Change, Edit, Extend, OutboxEntry, Outcomes, Put, Queues, Room, Update};
use crate::testing::fixtures::{QUEUE, T0, again, cancel, due, id, job, success};

fn priority(priority: u32) -> Change {
    Change::Update(Update { priority: Some(priority), ..Update::default() })
}

/// One for each job, the last one.
pub async fn the_latest_entry_stands(s: Subject) {
    s.hold(&[job(1), due(2, T0 + 500)]).await;
    let first = s.one().await;
    s.settle(first.receipt(), again(&first, T0)).await;
    s.edit(id(2), cancel()).await;
    assert_eq!(s.broker.backlog(), 2);
    let second = s.one().await;
    s.settle(second.receipt(), success()).await;
    assert_eq!(s.broker.backlog(), 2);
    let entries = s.outcomes().await;
    let of = |n| entries.iter().filter(|entry| entry.job().id == id(n)).collect::<Vec<_>>();
    assert_eq!(of(1).len(), 1);
    assert_eq!(of(1)[0].job().state(T0), State::Succeeded);
    assert_eq!(of(2)[0].job().state(T0), State::Cancelled);
}

/// Payload and tags are still to be recorded.
pub async fn a_rewritten_entry_absorbs_later_ones(s: Subject) {
    s.hold(&[job(1)]).await;
    s.edit(id(1), Change::Update(Update { payload: Some((*b"new").into()), ..Update::default() })).await;
    let running = s.one().await;
    s.settle(running.receipt(), success()).await;
    let entries = s.outcomes().await;
    let [OutboxEntry::Rewritten(job)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((job.state(T0), &*job.payload), (State::Succeeded, &b"new"[..]));
}

/// If it were noted separately, the ledger would take it for newer than the unrecorded entry.
pub async fn a_lease_joins_the_entry_of_its_job(s: Subject) {
    s.hold(&[job(1)]).await;
    s.edit(id(1), Change::Update(Update { payload: Some((*b"new").into()), ..Update::default() })).await;
    let running = s.one().await;
    let extended = s.broker.extend(vec![Extend::new(running.receipt(), None)]).await.unwrap();
    let entries = s.outcomes().await;
    let [OutboxEntry::Rewritten(noted)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((noted.lease_until, noted.epoch), (running.lease_until, running.epoch));
    assert!(matches!(extended[0], crate::ports::Extended::Until { version, .. } if version == noted.version));
    s.forget(id(1), noted.version).await;
    s.broker.extend(vec![Extend::new(running.receipt(), None)]).await.unwrap();
    assert!(s.outcomes().await.is_empty(), "a lease alone leaves no entry");
}

/// It replaces the one before it, which may never be recorded.
pub async fn a_returned_entry_says_it_all(s: Subject) {
    s.hold(&[job(1)]).await;
    s.edit(id(1), priority(3)).await;
    let running = s.one().await;
    let entries = s.settled(running.receipt(), again(&running, T0 + 5)).await.entries;
    assert!(matches!(&entries[..], [OutboxEntry::Rewritten(_)]), "{entries:?}");
    let (_, entries) = s.edit_with_entries(crate::testing::fixtures::edit(id(1), cancel())).await;
    assert!(matches!(&entries[..], [OutboxEntry::Rewritten(_)]), "{entries:?}");
}

/// Recording a version does not remove a later entry.
pub async fn entries_are_forgotten_by_version(s: Subject) {
    s.hold(&[job(1)]).await;
    s.edit(id(1), priority(3)).await;
    let first = s.outcomes().await.remove(0).job().version;
    s.edit(id(1), priority(4)).await;
    s.forget(id(1), first).await;
    let second = s.outcomes().await;
    assert_eq!(second[0].job().priority, 4);
    s.forget(id(1), second[0].job().version).await;
    assert!(s.outcomes().await.is_empty());
    assert_eq!(s.broker.backlog(), 0);
    assert!(s.get(id(1)).await.is_some(), "the job stays");
}

/// The oldest first; recent entries are left to their writers.
pub async fn entries_have_an_age_and_a_limit(s: Subject) {
    s.hold(&(1..=4).map(job).collect::<Vec<_>>()).await;
    for n in 1..=4 {
        s.edit(id(n), cancel()).await;
        s.pass(1_000);
    }
    let ids = async |limit, age_ms| {
        let entries = s.broker.outcomes(Outcomes::Oldest { limit, age_ms }).await.unwrap();
        entries.iter().map(|entry| entry.job().id).collect::<Vec<_>>()
    };
    assert_eq!(ids(10, 2_000).await, [1, 2, 3].map(id));
    assert_eq!(ids(10, 2_001).await, [1, 2].map(id));
    assert_eq!(ids(2, 0).await, [1, 2].map(id));
    assert_eq!(ids(10, 60_000).await, []);
    let pages = async |skip, limit| {
        let page = Outcomes::In { partition: s.broker.partition(QUEUE), skip, limit };
        s.broker.outcomes(page).await.unwrap().iter().map(|entry| entry.job().id).collect::<Vec<_>>()
    };
    assert_eq!(pages(0, 3).await, [1, 2, 3].map(id));
    assert_eq!(pages(3, 3).await, [id(4)]);
    assert_eq!(pages(4, 3).await, []);
    s.forget(id(1), u64::MAX).await;
    assert_eq!(ids(2, 0).await, [2, 3].map(id));
}

/// The ledger loads it again in time. Jobs due earlier stay.
pub async fn what_waits_beyond_the_watermark_goes(s: Subject) {
    s.hold(&[due(1, T0 + 1_000), due(2, T0 + 1_000), due(3, T0 + 1_000)]).await;
    let to = |due_at| Change::Update(Update { due_at: Some(due_at), ..Update::default() });
    s.edit(id(1), to(T0 + 5_000)).await;
    s.edit(id(2), to(T0 + 4_999)).await;
    s.edit(id(3), to(T0 + 6_000)).await;
    let noted: Vec<_> = s.outcomes().await.iter().map(|entry| (entry.job().id, entry.job().version)).collect();
    s.edit(id(3), to(T0 + 7_000)).await;
    s.broker.set_watermark(T0 + 1).await.unwrap();
    assert_eq!(s.broker.forget(&noted, T0 + 5_000).await.unwrap(), []);
    assert_eq!(s.get(id(1)).await, None);
    assert!(s.get(id(2)).await.is_some());
    assert!(s.get(id(3)).await.is_some(), "its later entry is not recorded yet");
    s.pass(10_000);
    assert_eq!(s.handed_out(10).await, [2, 3].map(id));
}

/// One of several engines that share a broker may be behind: jobs that the loader may have passed stay.
pub async fn what_the_brokers_own_watermark_has_passed_stays(s: Subject) {
    s.hold(&[due(1, T0 + 1_000), due(2, T0 + 1_000), due(3, T0 + 1_000)]).await;
    let mut noted = Vec::new();
    for n in 1..=3 {
        let change = Change::Update(Update { due_at: Some(T0 + 5_000 + n), ..Update::default() });
        let edit = Edit { id: id(n), version: None, change };
        noted.push((id(n), s.edit_with_entries(edit).await.1[0].job().version));
    }
    s.broker.forget(&noted[..1], T0 + 2_000).await.unwrap();
    assert!(s.get(id(1)).await.is_some(), "no watermark is known yet");
    s.broker.set_watermark(T0 + 5_003).await.unwrap();
    s.broker.set_watermark(T0 + 1_000).await.unwrap();
    s.broker.forget(&noted[1..], T0 + 2_000).await.unwrap();
    assert!(s.get(id(2)).await.is_some(), "it is before the broker's own");
    assert_eq!(s.get(id(3)).await, None);
}

/// A broker that lost its last changes has jobs in an earlier state than the ledger.
pub async fn what_is_in_an_older_version_is_let_go_of(s: Subject) {
    s.hold(&[due(1, T0 + 1_000), due(2, T0 + 1_000)]).await;
    let running = {
        s.hold(&[job(3)]).await;
        s.one().await
    };
    let reading = s.broker.reading();
    let (one, three) = (s.get(id(1)).await.unwrap(), running.version);
    let noted = [(id(1), one.version + 5), (id(2), one.version), (id(3), three + 5)];
    let mut gone = s.broker.forget(&noted, Millis::MAX).await.unwrap();
    gone.sort();
    assert_eq!(gone, [id(1), id(3)]);
    assert_eq!((s.get(id(1)).await, s.get(id(3)).await), (None, None));
    assert!(s.get(id(2)).await.is_some(), "it is as the ledger has it");
    assert_eq!(s.settle(running.receipt(), success()).await, None, "its lease is over");
    assert_eq!(s.broker.counts(Queues::first()).await.unwrap()[0].1.running, 0);
    assert_eq!(
        s.broker.put(vec![one.clone()], reading, Room::Any).await.unwrap(),
        [Put::Tombstone],
        "it was read before"
    );
    assert_eq!(s.put(&[Job { version: one.version + 5, ..one }]).await, [Put::Held]);
}

/// An earlier reading would bring back a cancelled job.
pub async fn what_is_not_known_is_not_put_in_a_lower_version(s: Subject) {
    let reading = s.broker.reading();
    s.forget(id(1), T0 + 5).await;
    assert_eq!(s.broker.put(vec![job(1)], reading, Room::Any).await.unwrap(), [Put::Tombstone]);
    assert_eq!(s.put(&[Job { version: T0 + 5, ..job(1) }]).await, [Put::Held]);
}

/// By a lease, for example.
pub async fn what_has_changed_since_stays(s: Subject) {
    s.hold(&[job(1)]).await;
    let first = s.one().await;
    let later = s.settled(first.receipt(), again(&first, T0 + 10)).await.entries.remove(0);
    s.pass(10);
    let second = s.one().await;
    s.broker.set_watermark(1).await.unwrap();
    s.broker.forget(&[(id(1), later.job().version)], 0).await.unwrap();
    assert_eq!(s.get(id(1)).await, Some(second.clone()));
    s.broker.forget(&[(id(1), second.version)], 0).await.unwrap();
    assert_eq!(s.settle(second.receipt(), success()).await, Some(State::Succeeded), "a run is not let go");
}

/// Nor does a put, nor an extension: engines record leases separately.
pub async fn a_lease_leaves_no_entry(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    s.extend(running.receipt(), None).await;
    assert!(s.outcomes().await.is_empty());
}
