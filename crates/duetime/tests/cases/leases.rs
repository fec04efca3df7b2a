//! Leases under attack.

use super::{Remind, queue};
use duetime::lease::{Receipt, ReserveRequest, Source};
use duetime::time::Span;
use duetime::{Client, JobId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const LEASES: usize = 1_000;
/// Leases that are extended in one call.
const TOGETHER: usize = 2;
const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600_000;

fn request(queue: &Arc<str>, lease_ms: u64, wait_ms: u64) -> ReserveRequest {
    let from = Source::Queues(vec![queue.clone()]);
    ReserveRequest::new(from).limit(LEASES).lease(Span(lease_ms)).wait(Span(wait_ms))
}

/// Many leases end together, and are extended from before their end until after it. A holder whose extension succeeds is the
/// only holder; all other jobs come back.
pub(crate) async fn an_extended_lease_has_no_second_holder(client: Client) {
    let queue = queue();
    let job = |user| client.push(Remind { user }).queue(queue.clone()).build().unwrap();
    let pushed = client.push_many((0..LEASES as u64).map(job).collect()).await.unwrap();
    assert!(pushed.iter().all(Result::is_ok));
    let leases = client.leases().reserve(request(&queue, SECOND_MS, 0)).await.unwrap().leases;
    assert_eq!(leases.len(), LEASES);

    let receipts: Vec<Receipt> = leases.iter().map(|lease| lease.job.receipt()).collect();
    let extend = |(n, receipts): (usize, &[Receipt])| {
        let (client, receipts) = (client.clone(), receipts.to_vec());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(SECOND_MS * 9 / 10 + n as u64)).await;
            let leases = receipts.iter().map(|&receipt| (receipt, Some(Duration::from_millis(HOUR_MS)))).collect();
            client
                .leases()
                .extend(leases)
                .await
                .unwrap()
                .into_iter()
                .flatten()
                .map(|extension| extension.receipt.id)
                .collect()
        })
    };
    let extensions: Vec<_> = receipts.chunks(TOGETHER).enumerate().map(extend).collect();
    let (mut extended, mut held) = (BTreeSet::new(), BTreeSet::new());
    while extensions.iter().any(|extension| !extension.is_finished()) {
        held.extend(ids(&client, &queue).await);
    }
    for extension in extensions {
        let ids: Vec<JobId> = extension.await.unwrap();
        extended.extend(ids);
    }
    while extended.union(&held).count() < LEASES {
        held.extend(ids(&client, &queue).await);
    }
    held.extend(ids(&client, &queue).await);
    println!("{} extended, {} held again", extended.len(), held.len());
    assert_eq!(extended.intersection(&held).count(), 0, "of {} extended leases", extended.len());
}

/// The jobs that come back within two seconds.
async fn ids(client: &Client, queue: &Arc<str>) -> Vec<JobId> {
    let reservation = client.leases().reserve(request(queue, HOUR_MS, 2 * SECOND_MS)).await.unwrap();
    reservation.leases.into_iter().map(|lease| lease.job.id).collect()
}
