//! Looks names up as the system does, within a bound: the system's call blocks a thread, for many seconds if no server answers.
//!
//! - A queue has a name looked up once at a time, however many of its deliveries ask for it.
//! - At most [`EACH_LANE`] lookups of names that were found before run at once, and as many of others. So names that nobody answers for
//!   take few threads, and delay no deliveries to names that are in use.
//! - At most [`EACH_QUEUE`] of them are of one queue, whose others wait behind all other queues. So a queue with many such names delays
//!   no other queue.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hyper_util::client::legacy::connect::dns::Name;
use redis::RedisFuture;
use redis::io::AsyncDNSResolver;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tower_service::Service;

/// Lookups of a lane at once.
const EACH_LANE: usize = 32;
/// Lookups of one queue in a lane at once.
const EACH_QUEUE: usize = 2;
/// Names that are remembered as found. Beyond them all are forgotten.
const FOUND_MAX: usize = 10_000;

tokio::task_local! {
    /// The queue that a task works for.
    static QUEUE: Arc<str>;
}

/// Makes all lookups of this work those of this queue.
pub(super) async fn on_behalf_of<F: Future>(queue: &Arc<str>, work: F) -> F::Output {
    QUEUE.scope(queue.clone(), work).await
}

/// The addresses of a name, or the words of the system.
type LookupResult = Result<Arc<[SocketAddr]>, Arc<io::Error>>;
/// A lookup that others may wait for too.
type Lookup = Shared<BoxFuture<'static, LookupResult>>;

/// The system's resolver; cheap to clone.
#[derive(Clone)]
pub(in crate::deliver) struct Resolver(Arc<Inner>);

struct Inner {
    look_up: fn(&str) -> io::Result<Vec<SocketAddr>>,
    names: Mutex<Names>,
    found: Lane,
    others: Lane,
}

#[derive(Default)]
struct Names {
    /// Those that are being looked up, with the queues that they are for.
    under_way: HashMap<(Arc<str>, Arc<str>), Lookup>,
    /// Those that had addresses when they were last looked up.
    found: HashSet<Arc<str>>,
}

struct Lane {
    places: Arc<Semaphore>,
    /// The places of each queue that has lookups here.
    queues: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl Lane {
    fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(EACH_LANE)), queues: Mutex::default() }
    }

    fn places_of(&self, queue: &Arc<str>) -> Arc<Semaphore> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = queues.get(queue).and_then(Weak::upgrade) {
            return places;
        }
        queues.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(EACH_QUEUE));
        queues.insert(queue.clone(), Arc::downgrade(&places));
        places
    }
}

impl Resolver {
    /// As the system does.
    pub(in crate::deliver) fn of_system() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    /// With this in place of the system's call.
    pub(in crate::deliver) fn new(look_up: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Self {
        Self(Arc::new(Inner { look_up, names: Mutex::default(), found: Lane::new(), others: Lane::new() }))
    }

    fn look_up(&self, name: &str) -> Lookup {
        let queue = QUEUE.try_with(Arc::clone).unwrap_or_default();
        let key = (queue, Arc::from(name));
        let mut names = self.0.names();
        if let Some(under_way) = names.under_way.get(&key) {
            return under_way.clone();
        }
        let (inner, asked, was_found) = (self.0.clone(), key.clone(), names.found.contains(name));
        // A task, so that it comes to its end without those who asked.
        let lookup = tokio::spawn(async move { inner.run(asked, was_found).await });
        let lookup =
            lookup.map(|looked| looked.unwrap_or_else(|error| Err(Arc::new(io::Error::other(error))))).boxed().shared();
        names.under_way.insert(key, lookup.clone());
        lookup
    }
}

impl Inner {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, key: (Arc<str>, Arc<str>), was_found: bool) -> LookupResult {
        let lane = if was_found { &self.found } else { &self.others };
        let (queue, name) = &key;
        // Those of a queue wait for each other first, so that it has few places in the line of all.
        let own = lane.places_of(queue).acquire_owned().await.expect("it is never closed");
        let place = lane.places.clone().acquire_owned().await.expect("it is never closed");
        let (look_up, asked) = (self.look_up, name.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let _places = (own, place);
            look_up(&asked)
        });
        let looked = looked.await.map_err(io::Error::other).flatten();
        let mut names = self.names();
        names.under_way.remove(&key);
        if looked.is_err() {
            names.found.remove(name);
        } else {
            if names.found.len() >= FOUND_MAX {
                names.found.clear();
            }
            names.found.insert(name.clone());
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

/// Each name is a queue here: there are few, of servers that the operator has named.
impl AsyncDNSResolver for Resolver {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        let lookup = QUEUE.sync_scope(host.into(), || self.look_up(host));
        Box::pin(async move {
            let mut addresses = lookup.await.map_err(|error| io::Error::new(error.kind(), error.to_string()))?.to_vec();
            addresses.iter_mut().for_each(|address| address.set_port(port));
            Ok(Box::new(addresses.into_iter()) as Box<_>)
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

    /// They took all threads, so that the store stood still; and they delayed the names of other queues.
    #[test]
    fn names_that_nobody_answers_for_take_few_threads_and_delay_no_other_queue() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(2 * EACH_LANE + 1).build().unwrap();
        runtime.block_on(async {
            let mut resolver = Resolver::new(look_up);
            let mut resolve = |queue: &str, name: &str| {
                let lookup = QUEUE.sync_scope(Arc::from(queue), || resolver.call(name.parse().unwrap()));
                tokio::spawn(lookup)
            };
            assert_eq!(resolve("silent", "good").await.unwrap().unwrap().count(), 1);
            let mut silent: Vec<_> = (0..1_600).map(|n| resolve("silent", &format!("silent-{}", n % 100))).collect();
            // Names of other queues are found, also new ones, and the name that this queue uses.
            for n in 0..100 {
                assert_eq!(resolve(&format!("other-{n}"), &format!("new-{n}")).await.unwrap().unwrap().count(), 1);
                assert_eq!(resolve("silent", "good").await.unwrap().unwrap().count(), 1);
            }
            assert!(ASKED.load(Ordering::Relaxed) <= EACH_QUEUE);
            // Even many such queues leave threads, and names in use are found.
            silent.extend((0..1_600).map(|n| resolve(&format!("silent-{n}"), &format!("silent-{n}"))));
            for _ in 0..100 {
                assert_eq!(resolve("other", "good").await.unwrap().unwrap().count(), 1);
                tokio::task::spawn_blocking(|| ()).await.unwrap();
            }
            assert!(ASKED.load(Ordering::Relaxed) <= EACH_LANE);
            *ANSWERS.0.lock().unwrap() = true;
            ANSWERS.1.notify_all();
            for looked in silent {
                assert_eq!(looked.await.unwrap().unwrap_err().to_string(), "no server answered");
            }
            assert_eq!(ASKED.load(Ordering::Relaxed), 100 + 1_600, "each name of a queue once");
            assert_eq!(resolve("silent", "new").await.unwrap().unwrap().count(), 1);
        });
    }
}
