//! Warnings and refusals when connecting to an unsuitable server.

use crate::redis_faults::subject::Subject;
use duetime_core::Error;
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{RedisCluster, RedisServer};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn connect(arguments: &[&str]) -> (Redis, RedisServer) {
    let server = RedisServer::with(arguments);
    (Redis::connect(&server.url(), Options::default()).await.expect("connected"), server)
}

#[tokio::test]
async fn eviction_and_a_missing_aof_are_warned_of() {
    let (redis, _server) = connect(&["--maxmemory-policy", "allkeys-lru"]).await;
    let said = redis.warnings().join("\n");
    assert!(said.contains("allkeys-lru") && said.contains("noeviction"), "{said}");
    assert!(said.contains("no AOF") && said.contains("appendonly yes"), "{said}");
    let (redis, _server) = connect(&["--appendonly", "yes"]).await;
    assert!(redis.warnings().is_empty(), "{:?}", redis.warnings());
}

#[tokio::test]
async fn what_can_be_lost_goes_by_what_is_kept() {
    let always = connect(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    assert!(always.0.loss().starts_with("nothing"), "{}", always.0.loss());
    let everysec = connect(&["--appendonly", "yes"]).await;
    assert!(everysec.0.loss().contains("a second"), "{}", everysec.0.loss());
    let never = connect(&["--appendonly", "yes", "--appendfsync", "no"]).await;
    assert!(never.0.loss().contains("changes that its system has not written"), "{}", never.0.loss());
    let none = connect(&[]).await;
    assert!(none.0.loss().starts_with("everything"), "{}", none.0.loss());
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = RedisServer::start();
    let replica = RedisServer::with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let error = Subject::try_connect(&replica.url()).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    assert!(error.to_string().contains("replica") && error.to_string().contains("redis+sentinel://"), "{error}");
}

#[tokio::test]
async fn a_node_of_a_cluster_named_as_a_single_server_is_refused() {
    let cluster = RedisCluster::masters_only();
    for node in cluster.nodes() {
        let error = Subject::try_connect(&node.url()).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        assert!(error.to_string().contains("redis+cluster://"), "{error}");
    }
}

/// Answers every command as a server of such a version would.
async fn old_server(version: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 4_096];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                let text = String::from_utf8_lossy(&buffer[..count]).to_uppercase();
                // Each command is an array.
                for command in text.split("\r\n*").flat_map(|part| part.split("\r\n").nth(2)) {
                    let answer = match command {
                        "HELLO" if version < "6" => "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n",
                        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n",
                        "INFO" => {
                            let info = format!("redis_version:{version}\r\nrole:master\r\n");
                            stream.write_all(format!("${}\r\n{info}\r\n", info.len()).as_bytes()).await.unwrap();
                            continue;
                        }
                        "CONFIG" => "%0\r\n",
                        "SELECT" => "+OK\r\n",
                        _ => "-ERR unknown subcommand\r\n",
                    };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        }
    });
    address
}

/// Redis 5 does not know the command that begins a conversation.
#[tokio::test]
async fn an_old_server_is_refused() {
    for version in ["5.0.7", "6.0.16"] {
        let url = format!("redis://{}", old_server(version).await);
        let error = Subject::try_connect(&url).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{version}: {error:?}");
        assert!(error.to_string().contains("Redis 6.2 or later"), "{error}");
    }
}
