//! Rights over time: a token expires while the store carries out a call, or is narrowed while it streams. The store and the clock
//! are the test's, so that nothing but the check after that call can notice.

use super::app::App;
use super::listener_config::ListenerConfig;
use super::testing::{Reply, ask_as, stream_as};
use crate::access::{Caller, Clock, Secret, Tokens, hex};
use crate::deliver::Policy;
use crate::file_watch::to_health;
use axum::body::Body;
use duetime_core::api::Span;
use duetime_core::engine::{BulkAction, Options, Query, Stores};
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::testing::mortal::{Life, MortalLedger, MortalLocks};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Due, Engine, NewJob, State};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Two pages of a bulk change.
const JOBS: usize = PAGE_JOBS_MAX + 500;
const DAY_MS: u64 = 86_400_000;

/// A server with one token.
struct World {
    app: App,
    /// The process as its stores see it.
    life: Arc<Life>,
    tokens: Arc<Tokens>,
    secret: Secret,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let (secret, folder) = (Secret::new().unwrap(), tempfile::tempdir().unwrap());
        write(&folder, &secret, "admin:orders.*");
        let tokens = Arc::new(Tokens::open(folder.path().join("tokens.toml")).unwrap());
        let life = Life::plain();
        let plain = Stores::one_process(Arc::new(TokioClock::new()), Arc::new(ModelLedger::default()));
        let ledger = MortalLedger { ledger: plain.ledger.clone(), life: life.clone() };
        let locks = MortalLocks { locks: plain.locks.clone(), life: life.clone() };
        let stores = Stores { ledger: Arc::new(ledger), locks: Arc::new(locks), ..plain };
        let engine = Engine::start(stores, Options::default()).await.unwrap();
        let app = App::new(engine, ListenerConfig::plain(), Policy::default(), Arc::default());
        Self { app, life, tokens, secret, folder }
    }

    /// The holder of the token, which expires with the next call of this verb of the stores.
    fn expires_at(&self, verb: &'static str) -> Caller {
        let (life, before) = (self.life.clone(), self.life.calls(verb));
        let clock: Clock = Arc::new(move || if life.calls(verb) > before { 1_000 } else { 0 });
        self.caller(&clock)
    }

    fn caller(&self, clock: &Clock) -> Caller {
        Caller::of_token(&self.tokens, self.secret.reveal(), clock).unwrap()
    }

    async fn ask(&self, caller: Caller, asked: &str, body: &str) -> Reply {
        ask_as(caller, &self.app, asked, &[], body.to_owned()).await
    }

    async fn push(&self, queue: &str, jobs: usize) {
        let job = NewJob { queue: queue.into(), due: Due::After(Span(DAY_MS)), ..NewJob::new(*b"x") };
        for result in self.app.engine.push(vec![job; jobs]).await.unwrap() {
            result.unwrap();
        }
    }
}

fn write(folder: &TempDir, secret: &Secret, allow: &str) {
    let (hash, expires) = (hex(&secret.hash()), "1970-01-01T00:00:01.000Z");
    let text = format!("[[token]]\nname = 'ours'\nsha256 = '{hash}'\nallow = ['{allow}']\nexpires = '{expires}'\n");
    // In one step: the server may read it just now.
    let (new, file) = (folder.path().join("new"), folder.path().join("tokens.toml"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_given_after_the_token_expired_goes_back() {
    let world = World::new().await;
    let reply =
        world.ask(world.expires_at("acquire"), "PUT /v1/locks/orders.a", r#"{"owner":"ours","ttl":"1h"}"#).await;
    assert_eq!((reply.status.as_u16(), world.life.calls("acquire")), (401, 1), "{:?}", reply.body);
    assert_eq!(world.app.engine.inspect("orders.a").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_many_ends_with_the_page_in_which_the_token_expires() {
    let selection = Query { queue: Some("orders.a".into()), ..Query::default() };
    for (path, action, state, done) in [
        ("cancel", BulkAction::Cancel, State::Scheduled, "cancelled"),
        ("retry", BulkAction::Retry, State::Cancelled, "retried"),
        ("reschedule", BulkAction::Reschedule(Due::Now), State::Scheduled, "rescheduled"),
        ("delete", BulkAction::Delete, State::Scheduled, "deleted"),
    ] {
        let world = World::new().await;
        world.push("orders.a", JOBS).await;
        let others = Query { state: vec![state].into(), ..selection.clone() };
        if path == "retry" {
            world.app.engine.bulk(&selection, BulkAction::Cancel).await.unwrap();
        }
        let selected = format!(r#"{{"queue":"orders.a","state":["{state}"]}}"#);
        let is_moved = path == "reschedule";
        let body = if is_moved { format!(r#"{{"selection":{selected},"delay":"0s"}}"#) } else { selected };
        let reply = world.ask(world.expires_at("edit_ledger"), &format!("POST /v1/jobs/{path}"), &body).await;
        assert_eq!(reply.status.as_u16(), 401, "{path}: {:?}", reply.body);
        let left = world.app.engine.bulk(&others, action).await.unwrap();
        assert_eq!(left, [(done, (JOBS - PAGE_JOBS_MAX) as u64)].into(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_activity_is_silent_about_queues_whose_right_was_lost() {
    let world = World::new().await;
    let (tokens, health) = (world.tokens.clone(), to_health(&world.app.engine));
    tokio::spawn(async move { tokens.watch(health).await });
    let clock: Clock = Arc::new(|| 0);
    let mut stream = stream_as(world.caller(&clock), &world.app, "GET /v1/events?every=100ms").await;
    assert!(text(&mut stream).await.contains("event: subscribed"));
    world.push("orders.a", 1).await;
    assert!(text(&mut stream).await.contains("event: activity"));
    write(&world.folder, &world.secret, "admin:mail.*");
    // The file is read every second, and the clock moves once nothing else can.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.push("orders.a", 1).await;
    assert_eq!(text(&mut stream).await, ":\n\n", "a sign of life, and nothing else");
    world.push("mail.a", 1).await;
    assert!(text(&mut stream).await.contains("event: activity"));
}

/// The next text of a stream.
async fn text(stream: &mut Body) -> String {
    let frame = stream.frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}
