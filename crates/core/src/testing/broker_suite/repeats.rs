//! Requests that are sent again because their reply was lost.

use super::{Subject, ids};
use crate::json::Timestamp;
use crate::limits::DAY_MS;
use crate::model::id::Receipt;
use crate::ports::{Reserve, Take};
use crate::rules::{Decision, Finish};
use crate::testing::fixtures::{QUEUE, again, id, job, reserve, success, take};

fn request(request_id: &str, limit: usize) -> Reserve {
    Reserve { request_id: Some(request_id.into()), ..reserve(QUEUE, limit) }
}

/// With the same receipts, also if they were extended meanwhile; another request gets others.
pub async fn a_repeat_gets_the_same_leases(s: Subject) {
    s.hold(&[job(1), job(2), job(3)]).await;
    let first = s.leases(request("a", 2)).await;
    s.pass(1_000);
    let repeat = s.leases(request("a", 2)).await;
    assert_eq!(
        repeat.iter().map(|l| (&l.job, l.length)).collect::<Vec<_>>(),
        [(&first[0].job, first[0].length), (&first[1].job, first[1].length)]
    );
    s.extend(first[0].job.receipt(), Some(90_000)).await;
    let repeat = s.leases(request("a", 2)).await;
    assert_eq!(repeat[0].job.lease_until, Some(Timestamp(s.now() + 90_000)));
    assert_eq!(ids(s.leases(request("b", 2)).await), [id(3)]);
}

/// Not jobs that were settled, or handed out to another caller since.
pub async fn a_repeat_gets_what_still_lives(s: Subject) {
    s.hold(&[job(1), job(2), job(3), job(4)]).await;
    let first = s.leases(request("a", 3)).await;
    s.settle(first[0].job.receipt(), success()).await;
    s.settle(first[1].job.receipt(), again(&first[1].job, s.now())).await;
    assert_eq!(s.handed_out(1).await, [id(2)]);
    assert_eq!(ids(s.leases(request("a", 3)).await), [id(3)]);
    s.settle(first[2].job.receipt(), success()).await;
    let repeat = s.reserve(request("a", 3)).await;
    assert_eq!((ids(repeat.leases), repeat.is_repeat), (vec![], true), "and nothing new in their place");
}

/// A waiting request asks again and again with the same id.
pub async fn a_request_that_got_nothing_looks_again(s: Subject) {
    assert_eq!(ids(s.leases(request("a", 1)).await), []);
    s.hold(&[job(1), job(2)]).await;
    assert_eq!(ids(s.leases(request("a", 1)).await), [id(1)]);
    assert_eq!(ids(s.leases(request("a", 1)).await), [id(1)]);
}

/// It gets the receipts of the first one; their outcomes are read elsewhere. No other request gets these leases.
pub async fn a_repeated_take_leases_nothing_more(s: Subject) {
    s.hold(&[job(1), job(2), job(3)]).await;
    let take = |name: &str| s.take(Take { request_id: Some(name.into()), ..take(QUEUE, 2) });
    let first = take("a").await;
    assert_eq!(first.repeats, []);
    let first = first.reserved;
    let receipts: Vec<Receipt> = first.leases.iter().map(|lease| lease.job.receipt()).collect();
    assert_eq!(receipts.len(), 2);
    let repeat = take("a").await;
    assert_eq!((repeat.reserved.leases.len(), repeat.repeats), (0, receipts.clone()));
    assert_eq!(ids(s.leases(request("a", 2)).await), []);
    s.settle(receipts[0], Decision::Finish(Finish::taken())).await;
    s.settle(receipts[1], again(&first.leases[1].job, s.now())).await;
    let repeat = take("a").await;
    assert_eq!((repeat.reserved.leases.len(), repeat.repeats), (0, receipts));
    assert_eq!(ids(take("b").await.reserved.leases), [2, 3].map(id));
}

/// Ids may come again after a day, with nothing in between.
pub async fn a_request_is_forgotten_in_time(s: Subject) {
    let take = || s.take(Take { request_id: Some("a".into()), ..take(QUEUE, 1) });
    s.hold(&[job(1), job(2)]).await;
    assert_eq!(ids(take().await.reserved.leases), [id(1)]);
    s.pass(DAY_MS);
    assert_eq!(ids(take().await.reserved.leases), [id(2)]);
    assert_eq!(take().await.repeats.iter().map(|receipt| receipt.id).collect::<Vec<_>>(), [id(2)]);
}
