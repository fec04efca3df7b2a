//! Connections through a pipe, to an engine on stores that can be inspected and made unavailable.

use super::{Door, connection::converse};
use crate::access::{Secret, hex};
use crate::http::{Args, ListenerConfig};
use duetime_core::Engine;
use duetime_core::engine::{Options, Stores};
use duetime_core::testing::mortal::{Life, MortalLeases, MortalLedger};
use duetime_core::testing::{ModelLedger, TokioClock};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

/// Bytes that a pipe holds: few replies, but all requests.
const PIPE_BYTES: usize = 8 << 10;

pub(super) struct Bench {
    pub(super) engine: Engine,
    /// Its clock.
    pub(super) clock: Arc<TokioClock>,
    ledger: ModelLedger,
    /// The process as its ledger sees it.
    pub(super) life: Arc<Life>,
    door: Arc<Door>,
}

impl Bench {
    async fn new() -> Self {
        Self::with_tokens(None).await
    }

    pub(super) async fn with_tokens(tokens: Option<PathBuf>) -> Self {
        let (ledger, life) = (ModelLedger::default(), Life::plain());
        let clock = Arc::new(TokioClock::new());
        let plain = Stores::one_process(clock.clone(), Arc::new(ledger.clone()));
        let mortal = MortalLedger { ledger: plain.ledger.clone(), life: life.clone() };
        let leases = Arc::new(MortalLeases { leases: Arc::new(ledger.clone()), life: life.clone() });
        let stores = Stores { ledger: Arc::new(mortal), leases: Some(leases), ..plain };
        let engine = Engine::start(stores, Options::default()).await.unwrap();
        let args = Args {
            tokens,
            tls_cert: None,
            tls_key: None,
            audit_log: None,
            connections_max: 100,
            requests_memory_max: crate::serve::RequestsSize(crate::account::BYTES_MIN),
            allow_remote: false,
            no_dashboard: true,
            allow_host: Vec::new(),
        };
        let config = ListenerConfig::new(&args, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let door = Door::new(engine.clone(), &config, super::limits::JOB_BYTES_DEFAULT, CancellationToken::new());
        let reported = engine.clone();
        tokio::spawn(async move { config.watch(&reported).await });
        Self { engine, clock, ledger, life, door }
    }

    pub(super) fn open(&self) -> Talk {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(converse(self.door.clone(), theirs, None));
        Talk(BufReader::new(ours))
    }

    async fn running(&self) -> u64 {
        self.engine.queue("default").await.unwrap().counts.running
    }
}

pub(super) struct Talk(BufReader<DuplexStream>);

impl Talk {
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    pub(super) async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    pub(super) async fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.line().await
    }

    /// Puts a job with a body of this many bytes, and returns its id.
    pub(super) async fn put(&mut self, bytes: usize) -> String {
        let answer = self.ask(&format!("put 0 0 600 {bytes}\r\n{}", "x".repeat(bytes))).await;
        answer.strip_prefix("INSERTED ").unwrap().to_owned()
    }

    /// Reserves a job, and answers its id.
    pub(super) async fn reserve(&mut self) -> String {
        let answer = self.ask("reserve").await;
        self.reserved(&answer).await
    }

    /// Reads the body of a job that was reserved, and answers its id.
    pub(super) async fn reserved(&mut self, answer: &str) -> String {
        let (id, bytes) = answer.strip_prefix("RESERVED ").unwrap().split_once(' ').unwrap();
        let mut body = vec![0; bytes.parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut body).await.unwrap();
        id.to_owned()
    }
}

/// A client that reserves without reading has few jobs in its replies.
#[tokio::test(start_paused = true)]
async fn replies_that_nobody_reads_are_bounded() {
    let bench = Bench::new().await;
    let mut talk = bench.open();
    for _ in 0..400 {
        talk.put(60_000).await;
    }
    let mut silent = bench.open();
    for _ in 0..400 {
        silent.send(b"reserve\r\n").await;
    }
    // The clock moves once nothing else can.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!((1..=100).contains(&bench.running().await), "{}", bench.running().await);
    drop(silent);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.running().await, 0, "they are given back");
}

/// A delete that is not on disk is not acknowledged: the job would come back after a crash.
#[tokio::test(start_paused = true)]
async fn what_is_not_recorded_is_not_acknowledged() {
    let bench = Bench::new().await;
    let mut talk = bench.open();
    let mut ids = Vec::new();
    for _ in 0..3 {
        talk.put(1).await;
        ids.push(talk.reserve().await);
    }
    bench.ledger.set_away(true);
    assert_eq!(talk.ask(&format!("delete {}", ids[0])).await, "INTERNAL_ERROR");
    assert_eq!(talk.ask(&format!("release {} 0 0", ids[1])).await, "INTERNAL_ERROR");
    assert_eq!(talk.ask(&format!("bury {} 0", ids[2])).await, "INTERNAL_ERROR");
    bench.ledger.set_away(false);
    assert_eq!(talk.ask(&format!("delete {}", ids[0])).await, "DELETED");
    assert_eq!(talk.ask(&format!("delete {}", ids[0])).await, "NOT_FOUND");
    assert_eq!(talk.reserve().await, ids[1]);
    assert_eq!(talk.ask("kick 1").await, "KICKED 1");
}

/// Clients without a token do not keep others out: their connections end.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_token_is_disconnected() {
    let secret = Secret::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let token = format!("[[token]]\nname = 'shop'\nsha256 = '{}'\nallow = ['push']\n", hex(&secret.hash()));
    std::fs::write(&file, token).unwrap();
    let bench = Bench::with_tokens(Some(file)).await;
    let (mut silent, mut busy, mut known) = (bench.open(), bench.open(), bench.open());
    assert_eq!(busy.ask("auth wrong").await, "UNAUTHENTICATED");
    assert_eq!(known.ask(&format!("auth {}", secret.reveal())).await, "AUTHENTICATED");
    for second in 1..=9 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(busy.ask("list-tubes").await, "UNAUTHENTICATED", "after {second} s");
    }
    assert_eq!(silent.line().await, "");
    assert_eq!(busy.line().await, "");
    tokio::time::sleep(super::limits::AUTH_TIME_MAX).await;
    assert!(known.ask("put 0 0 60 1\r\nx").await.starts_with("INSERTED "));
}
