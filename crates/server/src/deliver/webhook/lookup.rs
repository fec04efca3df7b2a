//! Looks names up as the system does, within a bound: the system's call blocks a thread, for many seconds if no server answers, and the
//! store works on threads of the same pool.
//!
//! - A name is looked up once at a time, however many deliveries ask for it.
//! - At most [`EACH_LANE`] lookups of names that were found before run at once, and as many of others. So names that nobody answers for
//!   delay neither the store nor deliveries to names that are in use.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hyper_util::client::legacy::connect::dns::Name;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tower_service::Service;

/// Lookups of a lane at once.
const EACH_LANE: usize = 8;
/// Names that are remembered as found. Beyond them all are forgotten.
const FOUND_MAX: usize = 10_000;

/// The addresses of a name, or the words of the system.
type Looked = Result<Arc<[SocketAddr]>, Arc<io::Error>>;
/// A lookup that others may wait for too.
type Lookup = Shared<BoxFuture<'static, Looked>>;

/// The system's resolver; cheap to clone.
#[derive(Clone)]
pub(super) struct Resolver(Arc<Inner>);

struct Inner {
    look_up: fn(&str) -> io::Result<Vec<SocketAddr>>,
    names: Mutex<Names>,
    found: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

#[derive(Default)]
struct Names {
    /// Those that are being looked up.
    under_way: HashMap<Arc<str>, Lookup>,
    /// Those that had addresses when they were last looked up.
    found: HashSet<Arc<str>>,
}

impl Resolver {
    /// As the system does.
    pub(super) fn of_system() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    fn new(look_up: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Self {
        let lane = || Arc::new(Semaphore::new(EACH_LANE));
        Self(Arc::new(Inner { look_up, names: Mutex::default(), found: lane(), others: lane() }))
    }

    fn look_up(&self, name: &str) -> Lookup {
        let mut names = self.0.names();
        if let Some(under_way) = names.under_way.get(name) {
            return under_way.clone();
        }
        let name: Arc<str> = Arc::from(name);
        let lane = if names.found.contains(&name) { &self.0.found } else { &self.0.others };
        let (inner, lane, looked) = (self.0.clone(), lane.clone(), name.clone());
        // A task, so that it comes to its end without those who asked.
        let lookup = tokio::spawn(async move { inner.run(looked, lane).await });
        let lookup =
            lookup.map(|looked| looked.unwrap_or_else(|error| Err(Arc::new(io::Error::other(error))))).boxed().shared();
        names.under_way.insert(name, lookup.clone());
        lookup
    }
}

impl Inner {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, name: Arc<str>, lane: Arc<Semaphore>) -> Looked {
        let place = lane.acquire_owned().await.expect("it is never closed");
        let (look_up, asked) = (self.look_up, name.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let _place = place;
            look_up(&asked)
        });
        let looked = looked.await.map_err(io::Error::other).flatten();
        let mut names = self.names();
        names.under_way.remove(&name);
        if looked.is_err() {
            names.found.remove(&name);
        } else {
            if names.found.len() >= FOUND_MAX {
                names.found.clear();
            }
            names.found.insert(name);
        }
        looked.map(Arc::from).map_err(Arc::new)
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let lookup = self.look_up(name.as_str());
        Box::pin(async move {
            match lookup.await {
                Ok(addresses) => Ok(Vec::from(&*addresses).into_iter()),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Servers for the names `silent-…` answer once this is set.
    static ANSWERS: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
        if name.starts_with("silent") {
            ASKED.fetch_add(1, Ordering::Relaxed);
            let answers = ANSWERS.0.lock().unwrap();
            drop(ANSWERS.1.wait_while(answers, |answers| !*answers).unwrap());
            return Err(io::Error::other("no server answered"));
        }
        Ok(vec![([127, 0, 0, 1], 0).into()])
    }

    /// They took all threads, so that the store stood still.
    #[test]
    fn names_that_nobody_answers_for_take_few_threads() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(2 * EACH_LANE + 1).build().unwrap();
        runtime.block_on(async {
            let mut resolver = Resolver::new(look_up);
            let mut resolve = |name: &str| tokio::spawn(resolver.call(name.parse().unwrap()));
            assert_eq!(resolve("good").await.unwrap().unwrap().count(), 1);
            let silent: Vec<_> = (0..1_600).map(|n| resolve(&format!("silent-{}", n % 100))).collect();
            // The name that is in use is found, and the store has a thread.
            for _ in 0..100 {
                assert_eq!(resolve("good").await.unwrap().unwrap().count(), 1);
                tokio::task::spawn_blocking(|| ()).await.unwrap();
            }
            assert!(ASKED.load(Ordering::Relaxed) <= EACH_LANE);
            *ANSWERS.0.lock().unwrap() = true;
            ANSWERS.1.notify_all();
            for looked in silent {
                assert_eq!(looked.await.unwrap().unwrap_err().to_string(), "no server answered");
            }
            assert_eq!(ASKED.load(Ordering::Relaxed), 100, "each name once");
            assert_eq!(resolve("new").await.unwrap().unwrap().count(), 1);
        });
    }
}
