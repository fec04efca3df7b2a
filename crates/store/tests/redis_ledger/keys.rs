//! Keys, and origins of pushes.

use super::{Bench, EditInLedger};
use duetime_core::json::Timestamp;
use duetime_core::limits::DAY_MS;
use duetime_core::model::job::{Job, Stage};
use duetime_core::ports::{Change, Edited, Ledger, Recorded};
use duetime_core::testing::fixtures::{QUEUE, T0, id, job};
use duetime_store::redis::Options;

#[tokio::test]
async fn keys_are_judged() {
    let bench = Bench::new("keys").await;
    let keyed = |n| Job { key: Some("k".into()), ..job(n) };
    assert_eq!(bench.record(&[keyed(1), keyed(2)]).await, [Recorded::Created, Recorded::KeyHeld(id(1))]);
    bench.complete_one().await;
    assert_eq!(bench.record(&[keyed(2)]).await, [Recorded::Created]);
    let edited = bench.redis.edit_in_ledger(id(1), Change::RETRY).await;
    assert_eq!(edited, Edited::KeyHeld(id(2), QUEUE.into(), "k".into()));
    bench.complete_one().await;
    let edited = bench.redis.edit_in_ledger(id(1), Change::RETRY).await;
    assert!(matches!(edited, Edited::Changed(_)), "{edited:?}");
    assert_eq!(bench.record(&[keyed(3)]).await, [Recorded::KeyHeld(id(1))]);
    assert_eq!(bench.one().await.id, id(1));
}

#[tokio::test]
async fn an_origin_is_known_as_long_as_the_record_of_its_job() {
    let bench = Bench::with("origins", Options { ended_max: 1, ..Options::default() }).await;
    let from_push = |n, origin: &str| Job { origin: Some(origin.into()), ..job(n) };
    let tagged = Job { tags: ["t".into()].into(), key: Some("k".into()), ..from_push(1, "o") };
    let recorded = bench.record(&[tagged.clone(), from_push(2, "o"), from_push(3, "\0o")]).await;
    assert_eq!(recorded, [Recorded::Created, Recorded::Known(id(1)), Recorded::Created]);
    assert_eq!(bench.record(std::slice::from_ref(&tagged)).await, [Recorded::Repeat]);
    assert_eq!(bench.row(1).await, Some(tagged));
    let elsewhere = Job { queue: "other".into(), ..from_push(4, "o") };
    let keyed = Job { key: Some("k".into()), ..from_push(4, "p") };
    let pushes = [job(9), from_push(9, "o"), keyed, Job { key: Some("k".into()), ..elsewhere.clone() }];
    let met = [None, Some(Recorded::Known(id(1))), Some(Recorded::KeyHeld(id(1))), None];
    assert_eq!(Ledger::known(&bench.redis, &pushes).await.unwrap(), met);
    assert_eq!(bench.record(&[elsewhere]).await, [Recorded::Created]);
    assert_eq!(bench.complete_one().await.origin.as_deref(), Some("o"));
    assert_eq!(bench.record(&[from_push(5, "o")]).await, [Recorded::Known(id(1))]);

    // Retention of ended jobs is bounded, and pruning makes room.
    bench.clock.advance(DAY_MS);
    assert_eq!(bench.complete_one().await.id, id(3));
    assert_eq!(bench.row(1).await, None);
    assert_eq!(
        bench.record(&[from_push(5, "o"), from_push(6, "\0o")]).await,
        [Recorded::Created, Recorded::Known(id(3))]
    );
    let edited = bench.redis.edit_in_ledger(id(5), Change::Delete).await;
    assert!(matches!(edited, Edited::Changed(_)), "{edited:?}");
    assert_eq!(bench.record(&[from_push(7, "o")]).await, [Recorded::Created]);
    let ended = |n| Job { stage: Stage::Succeeded, finished_at: Some(Timestamp(T0)), ..from_push(n, "o") };
    assert_eq!(bench.record(&[ended(8)]).await, [Recorded::Known(id(7))], "an import");
}
