//! A Cluster that loses a master.

use crate::redis_faults::subject::{Subject, errors, until};
use duetime_core::State;
use duetime_core::testing::fixtures::success;
use duetime_store::testing::RedisCluster;

/// With one partition: ids of fixtures name it.
fn url(cluster: &RedisCluster) -> String {
    format!("{}?partitions=1", cluster.url())
}

/// The master of the only partition.
fn master(cluster: &RedisCluster) -> usize {
    let slot: usize = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", "{duetime:default:0}"]).parse().unwrap();
    (0..3).find(|index| slot < (index + 1) * 16_384 / 3).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_outlast_a_failover_in_a_cluster() {
    let mut cluster = RedisCluster::start();
    let s = Subject::connect(&url(&cluster)).await;
    s.push(1..=10).await.unwrap();
    let held = s.reserve(5).await.unwrap();
    let master = master(&cluster);
    // Acknowledged writes have been replicated.
    cluster.nodes()[master].wait_for_replicas(1);
    cluster.kill_master(master);
    s.push(11..=20).await.unwrap();
    assert_eq!(s.settle(held[0].receipt(), success()).await.unwrap(), Some(State::Succeeded));
    assert_eq!(s.reserve(100).await.unwrap().len(), 15);
    assert_eq!(s.counts().await, (0, 19, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_until_a_cluster_is_whole() {
    let mut cluster = RedisCluster::masters_only();
    let s = Subject::connect(&url(&cluster)).await;
    s.push(1..=10).await.unwrap();
    let home = master(&cluster);
    let other = (home + 1) % 3;
    cluster.nodes_mut()[other].kill();
    let is_down =
        |cluster: &RedisCluster| cluster.nodes()[home].command(&["CLUSTER", "INFO"]).contains("cluster_state:fail");
    until("the cluster to be down", || is_down(&cluster)).await;
    let reserve = tokio::spawn({
        let s = s.clone();
        async move { s.reserve(10).await }
    });
    until("the call to be refused, and made again", || errors(&cluster.nodes()[home], "CLUSTERDOWN") >= 2).await;
    assert!(!reserve.is_finished());
    cluster.nodes_mut()[other].start_again();
    assert_eq!(reserve.await.unwrap().unwrap().len(), 10);
}
