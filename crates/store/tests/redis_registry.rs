//! The cases of registries, on documents in Redis.

use duetime_core::testing::ledger_suite::Subject;
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Its own namespace on the server that all share.
async fn subject() -> Subject {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let url = format!("{}?namespace=r{}", shared_redis().url(), LAST.fetch_add(1, Ordering::Relaxed));
    let redis = Arc::new(Redis::connect(&url, Options::default()).await.expect("connected"));
    Subject { ledger: redis.clone(), registry: redis.clone(), reports: redis, keep: Box::new(()) }
}

duetime_core::ledger_cases! { subject:
    registry: [
        a_document_has_versions, a_mismatch_changes_nothing, documents_come_by_name, a_removed_document_is_gone,
        a_document_has_no_version_twice, a_document_is_removed_in_the_version_that_is_known, kinds_are_apart,
        concurrent_puts_have_one_winner,
    ]
}
