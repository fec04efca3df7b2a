//! Private servers for tests: a Redis, a cluster, a master with sentinels, a PostgreSQL, a MariaDB. They use free ports of
//! 127.0.0.1 and their own folders, and end with the test, even if it is killed.
//!
//! Servers started by others are never used, such as Debian's on port 6379. All calls block, as is usual in test setup, and
//! panic if a server misbehaves.
//!
//! ```no_run
//! let server = duetime_store::testing::RedisServer::start();
//! assert_eq!(server.command(&["SET", "key", "value"]), "OK");
//! ```

mod fake_clock;
mod fates;
mod maria_db_server;
mod port;
mod postgres_server;
mod process;
mod proxy;
mod redis_cluster;
mod redis_sentinel;
mod redis_server;
mod resp;
mod template;

use std::thread;
use std::time::{Duration, Instant};

pub use fake_clock::FakeClock;
pub use fates::Fates;
pub use maria_db_server::MariaDbServer;
pub use postgres_server::PostgresServer;
pub use proxy::{Command, End, Fate, Proxy, TooLong};
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;
pub use redis_server::{RedisServer, shared_redis};

/// Time limit for a server to start, or to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Time limit for servers to agree. On a loaded machine elections are repeated, and a sentinel that was not scheduled for
/// two seconds pauses for 30 s.
const AGREED_LIMIT: Duration = Duration::from_secs(90);

/// Time limit for a database to start, also after a crash.
const DATABASE_LIMIT: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks at another process until there is a result; panics with the expectation when the time limit has passed.
#[track_caller]
pub fn until<T>(expected: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "expected {expected} within {limit:?}");
        thread::sleep(PAUSE);
    }
}
