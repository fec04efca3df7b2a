//! A runtime whose blocking threads are all busy, such as with names that no DNS server answers for.

use super::folder;
use duetime_core::engine::{Options, Query, ReserveRequest, Source};
use duetime_core::{Engine, NewJob};
use duetime_store::open::{Spec, open};
use duetime_store::sqlite::Durability;
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn the_store_needs_no_blocking_thread_of_the_runtime() {
    const THREADS: usize = 2;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build();
    runtime.unwrap().block_on(async {
        let barrier = Arc::new(Barrier::new(THREADS + 1));
        let busy: Vec<_> = (0..THREADS)
            .map(|_| {
                let barrier = barrier.clone();
                tokio::task::spawn_blocking(move || {
                    barrier.wait();
                    barrier.wait();
                })
            })
            .collect();
        barrier.wait();
        tokio::time::timeout(Duration::from_secs(60), use_engine()).await.expect("nothing waits for those threads");
        barrier.wait();
        for thread in busy {
            thread.await.unwrap();
        }
    });
}

async fn use_engine() {
    let folder = folder();
    let spec = Spec::File { path: folder.path().join("duetime.db"), durability: Durability::Commit, inbox: None };
    let engine = Engine::start(open(spec).await.unwrap().stores, Options::default()).await.unwrap();
    let pushed = engine.push(vec![NewJob::new(b"x".to_vec()); 300]).await.unwrap();
    assert!(pushed.iter().all(Result::is_ok));
    let from = Source::Queues(vec!["default".into()]);
    let reserve = ReserveRequest::new(from).limit(100);
    assert_eq!(engine.reserve(reserve).await.unwrap().leases.len(), 100);
    assert_eq!(engine.find(&Query::default(), None, 1_000).await.unwrap().jobs.len(), 300);
    engine.stop().await.unwrap();
}
