//! A server that is stopped and started, and its clients: a call waits while the server is down, and its answer is kept.
//!
//! This module also knows what a kill may undo. Leases are written soon after they are granted, without anybody waiting for
//! that, but in one stream with all else: once a later write has been acknowledged they are in. So the *last instant*
//! of a kill begins a little before the last acknowledged write was sent, however slow the machine is.

use super::server::Server;
use duetime::{Client, Error, ErrorKind};
use duetime_core::{Clock, Millis, SystemClock};
use futures_util::FutureExt as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long before the last acknowledged write a lease must have been granted to be recorded.
const LAST_INSTANT_MS: u64 = 100;
/// The time limit for a condition; never reached if all is well.
const CONDITION_LIMIT: Duration = Duration::from_secs(90);
/// Ports outside the system's ephemeral range: otherwise a client that calls while nobody listens could be given the very
/// port that it calls.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The kill of a generation: of the process after this many earlier kills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kill {
    /// A lease of this generation may be forgotten if its holder was told of it after this.
    pub(crate) instant: Millis,
    /// When the process was gone.
    pub(crate) end: Millis,
}

/// A request, and its answer unless that was lost.
#[derive(Clone, Debug)]
pub(crate) struct Exchange<T> {
    /// The server process that the request was sent to.
    pub(crate) generation: usize,
    /// Before it was sent.
    pub(crate) sent: Millis,
    /// The answer, and when it arrived.
    pub(crate) answer: Option<(Millis, T)>,
}

/// A server process that serves.
#[derive(Clone)]
struct Up {
    generation: usize,
    client: Client,
}

pub(crate) struct Site {
    clock: SystemClock,
    store: PathBuf,
    /// The address to listen on; port 0 for another port each time.
    listen: SocketAddr,
    server: Mutex<Option<Server>>,
    up: watch::Sender<Option<Up>>,
    answered: watch::Sender<u64>,
    /// When the last write was sent that this process acknowledged; at first, when it began to serve.
    last_write: Mutex<Millis>,
    kills: Mutex<Vec<Kill>>,
}

impl Site {
    /// Serves a store, on another port after each start.
    pub(crate) fn start(store: &Path) -> Self {
        Self::listening(store, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// Serves a store on one port.
    pub(crate) fn start_on_a_fixed_port(store: &Path) -> Self {
        let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let from = PORTS.start + u16::try_from(std::process::id() % 10_000).unwrap();
        let port = (from..PORTS.end).chain(PORTS).find(free).expect("a free port");
        Self::listening(store, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    fn listening(store: &Path, listen: SocketAddr) -> Self {
        let site = Self {
            clock: SystemClock::new(),
            store: store.to_owned(),
            listen,
            server: Mutex::default(),
            up: watch::Sender::new(None),
            answered: watch::Sender::new(0),
            last_write: Mutex::default(),
            kills: Mutex::default(),
        };
        site.start_again();
        site
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.wall()
    }

    pub(crate) fn kills(&self) -> Vec<Kill> {
        self.kills.lock().unwrap().clone()
    }

    /// How often the server has been started, minus 1.
    fn generation(&self) -> usize {
        self.up.borrow().as_ref().expect("it was started").generation
    }

    /// A client of the server that is up.
    pub(crate) fn client(&self) -> Client {
        self.up.borrow().as_ref().expect("it was started").client.clone()
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listen
    }

    /// Kills the server.
    pub(crate) fn kill(&self) {
        let mut server = self.server.lock().unwrap().take().expect("it runs");
        server.kill();
        let instant = self.last_write.lock().unwrap().saturating_sub(LAST_INSTANT_MS);
        self.kills.lock().unwrap().push(Kill { instant, end: self.now() });
    }

    /// Starts the server after a kill, and kills it as soon as it has the store open.
    pub(crate) fn stumble(&self) {
        let server = Server::begin(&self.store, self.listen);
        server.wait_for_store(&self.store);
    }

    /// Starts the server after a kill.
    pub(crate) fn start_again(&self) {
        *self.last_write.lock().unwrap() = self.now();
        let mut server = Server::begin(&self.store, self.listen);
        let connecting = Client::connect(&format!("http://{}", server.address())).now_or_never();
        let client = connecting.expect("nothing is sent yet").unwrap();
        *self.server.lock().unwrap() = Some(server);
        let generation = self.up.borrow().as_ref().map_or(0, |up| up.generation + 1);
        self.up.send_replace(Some(Up { generation, client }));
    }

    /// Waits until this many requests have been answered in all.
    pub(crate) async fn answered(&self, count: u64) {
        let mut answered = self.answered.subscribe();
        let is_there = answered.wait_for(|&answered| answered >= count);
        timeout(CONDITION_LIMIT, is_there).await.expect("requests are answered").unwrap();
    }

    /// Waits for the next answer to anybody.
    pub(crate) async fn any_answer(&self) {
        self.answered(self.answered_so_far() + 1).await;
    }

    pub(crate) fn answered_so_far(&self) -> u64 {
        *self.answered.borrow()
    }

    /// Calls the server until the request got there; if its reply is lost, waits until there is a server again.
    /// `has_written` returns whether, according to an answer, the server wrote something before it answered.
    pub(crate) async fn call<T>(
        &self,
        has_written: impl Fn(&T) -> bool,
        request: impl AsyncFn(Client) -> Result<T, Error>,
    ) -> Exchange<Result<T, Error>> {
        let mut ups = self.up.subscribe();
        loop {
            let up = ups.borrow_and_update().clone().expect("it was started");
            let sent = self.now();
            let result = timeout(CONDITION_LIMIT, request(up.client)).await.expect("an answer, or none");
            let is_unsent = result.as_ref().is_err_and(|error| error.code() == "unreachable");
            if !is_unsent && !result.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutcomeUnknown) {
                if result.as_ref().is_ok_and(&has_written) {
                    self.wrote(up.generation, sent);
                }
                self.answered.send_modify(|count| *count += 1);
                let answer = Some((self.now(), result));
                return Exchange { generation: up.generation, sent, answer };
            }
            let is_next = |next: &Option<Up>| next.as_ref().is_some_and(|next| next.generation > up.generation);
            let next = timeout(CONDITION_LIMIT, ups.wait_for(is_next)).await;
            let next = next.unwrap_or_else(|_| panic!("no answer, and no kill: {:?}", result.err()));
            drop(next.unwrap());
            if !is_unsent {
                return Exchange { generation: up.generation, sent, answer: None };
            }
        }
    }

    fn wrote(&self, generation: usize, sent: Millis) {
        let mut last_write = self.last_write.lock().unwrap();
        // An answer of an earlier process says nothing about the current one.
        if generation == self.generation() {
            *last_write = sent.max(*last_write);
        }
    }
}
