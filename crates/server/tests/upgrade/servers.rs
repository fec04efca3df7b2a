//! The servers that are up, as a load balancer would know them.

use super::fleet::SERVERS;
use duetime::Client;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Clients of the servers that are up, each in its place.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    clients: RwLock<[Option<Client>; SERVERS]>,
    next: AtomicUsize,
}

impl Servers {
    pub(crate) fn set(&self, n: usize, client: Option<Client>) {
        self.clients.write().unwrap()[n] = client;
    }

    pub(crate) fn client(&self, n: usize) -> Option<Client> {
        self.clients.read().unwrap()[n].clone()
    }

    /// All that are up.
    pub(crate) fn all(&self) -> Vec<Client> {
        self.clients.read().unwrap().iter().flatten().cloned().collect()
    }

    /// In turns, so that one server continues what another began.
    pub(crate) fn any(&self) -> Client {
        let all = self.all();
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        all[turn % all.len()].clone()
    }
}
