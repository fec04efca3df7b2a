//! The cases on a private Redis.

use duetime::Client;
use duetime_store::testing::RedisServer;
use std::sync::OnceLock;

async fn client() -> Client {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    Client::connect(&SERVER.get_or_init(RedisServer::start).url()).await.unwrap()
}

client_cases!((client().await, ()));
