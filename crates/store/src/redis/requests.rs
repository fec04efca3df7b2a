//! Request ids, so that a repeat after a lost reply gets the same answer.
//!
//! A request without an id from the caller gets a slot of this process, which is reused once the request is answered. So
//! Redis remembers no more requests than run concurrently.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Requests {
    process: String,
    last: AtomicU64,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    free: Vec<u32>,
    count: u32,
}

/// A request in progress: its slot, and its id there.
#[derive(Debug)]
pub(super) struct Request<'a> {
    requests: &'a Requests,
    place: u32,
    /// Greater than that of any earlier request in the same slot.
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) name: String,
}

impl Requests {
    pub(super) fn new() -> Self {
        let mut random = [0; 8];
        getrandom::fill(&mut random).expect("the system gives random numbers");
        let process = format!("{:016x}", u64::from_le_bytes(random));
        Self { process, last: AtomicU64::new(0), places: Mutex::default() }
    }

    /// A unique id.
    pub(super) fn unique(&self) -> String {
        self.name(self.next())
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    fn name(&self, number: u64) -> String {
        format!("{}.{number}", self.process)
    }

    pub(super) fn begin(&self) -> Request<'_> {
        let mut places = self.places.lock().expect("no panic under this lock");
        let place = places.free.pop().unwrap_or_else(|| {
            places.count += 1;
            places.count
        });
        drop(places);
        let number = self.next();
        let key = format!("{}.{place}", self.process);
        Request { requests: self, place, number, key, name: self.name(number) }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.requests.places.lock().expect("no panic under this lock").free.push(self.place);
    }
}
