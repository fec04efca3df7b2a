//! Every command, reply and corner, on every store, in pieces of any size.

use super::script::{Pieces, conversations, converse};
use super::server::{Alone, Both};
use duetime_store::testing::{PostgresServer, RedisServer};
use std::net::SocketAddr;

/// Runs all conversations, several at once: most of them wait now and then.
pub(super) fn converse_all(address: SocketAddr, pieces: Pieces, fits: impl Fn(&str) -> bool) {
    let conversations = conversations();
    assert!(conversations.len() > 20);
    std::thread::scope(|scope| {
        let talks = conversations
            .iter()
            .filter(|(heading, _)| fits(heading))
            .map(|(heading, lines)| scope.spawn(move || converse(address, heading, lines, pieces)));
        let talks: Vec<_> = talks.collect();
        let failed = talks.into_iter().filter_map(|talk| talk.join().err()).count();
        assert_eq!(failed, 0, "conversations went wrong");
    });
}

const PIECES: [Pieces; 3] = [Pieces::Lines, Pieces::Together, Pieces::Small(7)];

#[test]
fn corners_in_memory() {
    PIECES.into_iter().for_each(|pieces| converse_all(Alone::start(&[]).address, pieces, |_| true));
}

#[test]
fn corners_on_sqlite() {
    for pieces in PIECES {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("duetime.db");
        converse_all(Both::with(&["--store", store.to_str().unwrap()]).address, pieces, |_| true);
    }
}

#[test]
fn corners_on_redis() {
    for pieces in PIECES {
        let redis = RedisServer::start();
        converse_all(Both::with(&["--broker", &redis.url()]).address, pieces, |_| true);
    }
}

#[test]
fn corners_on_redis_beside_postgres() {
    for pieces in PIECES {
        let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
        let server = Both::with(&["--broker", &redis.url(), "--ledger", &postgres.url(), "--ledger-may-lose"]);
        converse_all(server.address, pieces, |_| true);
    }
}
