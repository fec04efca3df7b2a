//! Unique keys.

use super::Subject;
use crate::model::job::{Job, KeyUntil, State};
use crate::ports::Put;
use crate::testing::fixtures::{again, cancel, id, job, success};

fn keyed(n: u64, key: &str) -> Job {
    Job { key: Some(key.into()), ..job(n) }
}

/// The second one is not held, and the first is named.
pub async fn a_key_has_one_holder(s: Subject) {
    assert_eq!(
        s.put(&[keyed(1, "k"), keyed(2, "k"), keyed(3, "l")]).await,
        [Put::Held, Put::KeyHeld(id(1)), Put::Held]
    );
    assert_eq!(s.put(&[keyed(1, "k")]).await, [Put::Held], "it holds its own key");
    assert_eq!(s.handed_out(10).await, [1, 3].map(id));
    assert_eq!(s.put(&[keyed(2, "k")]).await, [Put::KeyHeld(id(1))], "a run holds it too");
}

/// However it ends.
pub async fn a_key_is_free_when_its_job_ends(s: Subject) {
    s.hold(&[keyed(1, "k")]).await;
    assert_eq!(s.settle(s.one().await.receipt(), success()).await, Some(State::Succeeded));
    s.hold(&[keyed(2, "k")]).await;
    s.edit(id(2), cancel()).await;
    s.hold(&[keyed(3, "k")]).await;
    s.edit(id(3), crate::ports::Change::Delete).await;
    s.hold(&[keyed(4, "k")]).await;
    assert_eq!(s.handed_out(10).await, [id(4)]);
}

/// An event during the run queues one more run; the first job never gets the key again, and does not lose its lease.
pub async fn a_key_may_be_free_once_its_job_started(s: Subject) {
    let until_started = |n| Job { key_until: KeyUntil::Started, ..keyed(n, "k") };
    s.hold(&[until_started(1)]).await;
    assert_eq!(s.put(&[until_started(2)]).await, [Put::KeyHeld(id(1))]);
    let first = s.one().await;
    s.hold(&[until_started(2)]).await;
    assert_eq!(s.put(&[until_started(1)]).await, [Put::Held], "it is held, in a later version");
    assert_eq!(s.settle(first.receipt(), again(&first, s.now())).await, Some(State::Ready));
    assert_eq!(s.put(&[until_started(3)]).await, [Put::KeyHeld(id(2))]);
    assert_eq!(s.settle(s.one().await.receipt(), success()).await, Some(State::Succeeded), "the first, again");
    assert_eq!(s.put(&[until_started(3)]).await, [Put::KeyHeld(id(2))], "its end does not free another's key");
    assert_eq!(s.handed_out(10).await, [id(2)]);
    s.hold(&[until_started(3)]).await;
}

/// And keys compare byte by byte.
pub async fn keys_of_queues_differ(s: Subject) {
    let elsewhere = Job { queue: "other".into(), ..keyed(2, "k") };
    s.hold(&[keyed(1, "k"), elsewhere, keyed(3, "K"), keyed(4, "k ")]).await;
}

/// Between two attempts, too.
pub async fn a_key_is_held_over_a_retry(s: Subject) {
    s.hold(&[keyed(1, "k")]).await;
    let job = s.one().await;
    assert_eq!(s.settle(job.receipt(), again(&job, s.now() + 5_000)).await, Some(State::Scheduled));
    assert_eq!(s.put(&[keyed(2, "k")]).await, [Put::KeyHeld(id(1))]);
}
