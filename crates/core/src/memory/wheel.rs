//! A hierarchical timing wheel: values by due time, for one queue, in memory.
//!
//! After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7. A tick is a millisecond.
//! Level 0 has a slot for each of 256 ticks, level 1 for each 256 times 256 ticks, and so on; an entry is on the level of
//! the highest digit (to base 256) in which its due time differs from the wheel's now. When the wheel reaches a slot of a
//! higher level, that slot is spread over the levels below (it *cascades*), so an entry moves at most seven times, and
//! within an hour mostly twice.
//!
//! Why a wheel: nearly every job is inserted once and expires once, and many are cancelled before. A heap pays for its order at
//! each of these steps; a wheel inserts and cancels in constant time, and sorts only what is near. Each queue has a wheel, so
//! a burst of a million jobs in one queue costs the others nothing. An empty wheel is small (192 bytes), because there may be
//! 100,000 queues.
//!
//! Why the slots are lists of chunks of entry numbers (one cache line each) and not linked lists of entries: a cascade of
//! many entries would miss the cache once for each of them.
//!
//! Why at most a part of a cascade in one call: a slot of level 2 holds a minute of jobs, perhaps a million, and the caller
//! holds the broker's lock. So a cascade is a state (`cascading`) that the next call continues. What is inserted below
//! a slot that is being cascaded goes to its end; otherwise it would overtake entries of the same tick.
//!
//! Why it cannot turn back: every entry's slot depends on now. If the wall clock is set back, the caller keeps what has been
//! handed out and is no longer due in a small ordered set (`held_back` in `queue.rs`). Leases have their own wheel, which
//! follows the monotonic clock.
//!
//! Invariants:
//! - no entry is due before the wheel's now;
//! - from level 1 up, the slot of now itself is empty, except for one that is being cascaded;
//! - no call touches an unbounded number of entries.
//!
//! It deliberately does not read a clock, wake anybody, order by priority, or store jobs: it holds ids.

mod slab;
mod slots;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use slab::Slab;
use slots::{CHUNK_LINKS, Link, Slot, Slots, level_of};

/// Entries that one call of [`Wheel::expire`] cascades at most, give or take a chunk: about a
/// millisecond's work.
pub const CASCADE_MAX: usize = 16_384;

/// Heap bytes that an emptied wheel keeps for later use; if it has more, it frees all of them.
pub const KEEP_BYTES_MAX: usize = 64 * 1024;

/// Identifies an entry until it is handed out or cancelled; afterwards it identifies nothing.
///
/// An entry's number is used again, so a handle also carries the wheel's count of inserts at its time, modulo
/// 2³² - 1. A stale handle could only ever be mistaken exactly that many inserts later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    stamp: NonZeroU32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    due: u64,
    value: T,
    place: Link,
    /// That of the handle; `None` when the entry is free.
    stamp: Option<NonZeroU32>,
}

/// Values by the tick at which they are due.
///
/// An entry takes 24 bytes (when `T` is a `u64`) and 5 in a slot, at most 88 when nearly all of its
/// neighbours were cancelled; an empty wheel takes 192. Memory follows the most entries held at once, and is
/// given back when the wheel is empty again.
///
/// ```
/// let mut wheel = duetime_core::memory::wheel::Wheel::new(1_000);
/// let tea = wheel.insert(1_500, "tea");
/// wheel.insert(1_200, "egg");
/// let mut ready = Vec::new();
/// assert!(!wheel.expire(1_499, 10, |value| ready.push(value)));
/// assert_eq!(ready, ["egg"]);
/// assert_eq!(wheel.cancel(tea), Some("tea"));
/// assert_eq!(wheel.cancel(tea), None);
/// ```
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    now: u64,
    /// The level of the slot that is being cascaded, 0 when none is. Only the slot of `now` ever is.
    cascading: usize,
    len: usize,
    stamp: NonZeroU32,
    entries: Slab<Entry<T>>,
    slots: Slots,
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel whose now is the tick `now`, in milliseconds.
    pub const fn new(now: u64) -> Self {
        Self { now, cascading: 0, len: 0, stamp: NonZeroU32::MIN, entries: Slab::new(), slots: Slots::new() }
    }

    /// The tick up to which the wheel has turned: everything due before it has been handed out. Never goes back. It may lag
    /// behind the argument of [`expire`](Self::expire) while that returns `true`.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// How many entries are waiting.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry is waiting.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Heap memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.slots.bytes()
    }

    /// Adds a value that is due at the tick `due`, in milliseconds; any `u64` will do. One before
    /// [`now`](Self::now) counts as now: the next [`expire`](Self::expire) hands it out.
    ///
    /// # Panics
    ///
    /// Beyond 2³² - 1 entries; after adverse cancels, no sooner than at 2²⁸.
    pub fn insert(&mut self, due: u64, value: T) -> Handle {
        let due = due.max(self.now);
        let stamp = self.stamp;
        self.stamp = stamp.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let entry = Entry { due, value, place: Link::default(), stamp: Some(stamp) };
        let index = self.entries.insert(entry, u32::MAX);
        // An entry that would go below a slot that is being cascaded is appended to that slot: else it would overtake those
        // of the same tick that are still in there.
        let level = level_of(self.now, due).max(self.cascading);
        self.entries[index].place = self.slots.append(Slot::of(level, due), index);
        self.len += 1;
        Handle { index, stamp }
    }

    /// Takes out the entry that `handle` names and returns its value, or `None` if it is gone. Constant time.
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        let entry = *self.entries.get(handle.index).filter(|entry| entry.stamp == Some(handle.stamp))?;
        self.slots.remove(entry.place);
        self.free(handle.index);
        self.release();
        Some(entry.value)
    }

    /// Hands out entries due at the tick `now` or before: by due time, then in the order of insertion, and at most `limit`
    /// values. Returns whether to call again: because more is due than `limit`, or because [`CASCADE_MAX`] was reached.
    /// Entries inserted between two calls come in their order.
    ///
    /// A `now` before [`now`](Self::now) counts as the latter. Empty stretches are skipped, however long.
    pub fn expire(&mut self, now: u64, limit: usize, out: impl FnMut(T)) -> bool {
        self.turn(now, limit, CASCADE_MAX, out)
    }

    /// The tick to look again, in milliseconds: never later than the next due time, and exact if that is in the lowest level
    /// or nearly alone. If it is earlier, calling [`expire`](Self::expire) then brings a better answer; after as many calls
    /// as there are levels it is exact. `None` when the wheel is empty.
    pub fn next_expiry(&self) -> Option<u64> {
        if self.cascading > 0 && self.len > 0 {
            return Some(self.now);
        }
        self.slots.first(self.now).map(|slot| self.first_due(slot))
    }

    /// Visits the entries numbered from `from` up to `count` further on, with due time (as counted by
    /// [`insert`](Self::insert)) and value, in no useful order. Returns where to continue, or `None` at the end.
    ///
    /// Entries do not change their number: those that wait all through a listing are seen exactly once.
    pub fn scan(&self, from: usize, count: usize, mut visit: impl FnMut(u64, T)) -> Option<usize> {
        let end = self.entries.end();
        let stop = from.saturating_add(count).min(end);
        for index in from..stop {
            let entry = &self.entries[index as u32];
            if entry.stamp.is_some() {
                visit(entry.due, entry.value);
            }
        }
        (stop < end).then_some(stop)
    }

    /// [`expire`](Self::expire) with the bound on cascading as a parameter: `work` entries.
    fn turn(&mut self, now: u64, limit: usize, mut work: usize, mut out: impl FnMut(T)) -> bool {
        let target = now.max(self.now);
        let mut left = limit;
        let again = loop {
            if self.cascading > 0 && !self.cascade(&mut work) {
                break true;
            }
            let first = self.slots.first(self.now).map(|slot| (slot, slot.start(self.now)));
            let Some((slot, start)) = first.filter(|(_, start)| *start <= target) else {
                self.now = target;
                break false;
            };
            if slot.level() > 0 {
                if !self.drain_few(slot, target, &mut left, &mut out) {
                    self.now = self.first_due(slot).min(target);
                    self.cascading = slot.level();
                }
            } else {
                self.now = start;
                if left == 0 {
                    break true;
                }
                self.drain(slot, &mut left, &mut out);
            }
        };
        self.release();
        again
    }

    /// A lower bound of the due times in an occupied slot; exact in level 0 and if it is cheap to compute. That spares a
    /// sparse wheel most of its cascades, and its owner the wakes for them.
    fn first_due(&self, slot: Slot) -> u64 {
        match self.slots.head(slot) {
            Some(head) if head.is_last() && slot.level() > 0 => {
                head.iter().map(|(index, _)| self.entries[index].due).min().expect("a chunk has a live link")
            }
            _ => slot.start(self.now),
        }
    }

    /// Spreads the slot of now on the level `cascading` over the levels below. Returns whether that is done.
    fn cascade(&mut self, work: &mut usize) -> bool {
        let slot = Slot::of(self.cascading, self.now);
        while let Some(head) = self.slots.head(slot) {
            if *work == 0 {
                return false;
            }
            *work = work.saturating_sub(head.live());
            // Read all before moving any: these loads do not wait for each other.
            let mut batch = [(0, 0); CHUNK_LINKS];
            let mut count = 0;
            for (index, _) in head.iter() {
                batch[count] = (index, self.entries[index].due);
                count += 1;
            }
            self.slots.pop(slot);
            for (index, due) in &batch[..count] {
                debug_assert!(*due >= self.now, "no entry is due before the wheel's now");
                let to = Slot::of(level_of(self.now, *due), *due);
                self.entries[*index].place = self.slots.append(to, *index);
            }
        }
        self.cascading = 0;
        true
    }

    /// Hands out up to `left` entries of a slot of level 0, all of which are due.
    fn drain(&mut self, slot: Slot, left: &mut usize, out: &mut impl FnMut(T)) {
        while let Some(head) = self.slots.head(slot) {
            let mut batch = [(0, Link::default()); CHUNK_LINKS];
            let mut count = 0;
            for link in head.iter().take(*left) {
                batch[count] = link;
                count += 1;
            }
            if count == 0 {
                return;
            }
            let whole = count == head.live();
            if whole {
                self.slots.pop(slot);
            }
            *left -= count;
            for (index, place) in &batch[..count] {
                debug_assert!(self.entries[*index].due == self.now, "a slot of the lowest level holds one tick");
                if !whole {
                    self.slots.remove(*place);
                }
                let value = self.free(*index);
                out(value);
            }
        }
    }

    /// Hands out a slot of a higher level as it is, if its entries are few and all due. Returns whether it did. In a sparse
    /// wheel most slots are like that, and need no cascade.
    fn drain_few(&mut self, slot: Slot, target: u64, left: &mut usize, out: &mut impl FnMut(T)) -> bool {
        let Some(head) = self.slots.head(slot).filter(|head| head.is_last() && head.live() <= *left) else {
            return false;
        };
        let mut batch = [(0, 0); CHUNK_LINKS];
        let mut count = 0;
        for (index, _) in head.iter() {
            batch[count] = (self.entries[index].due, index);
            count += 1;
        }
        let batch = &mut batch[..count];
        batch.sort_by_key(|(due, _)| *due);
        let last = batch[count - 1].0;
        if last > target {
            return false;
        }
        debug_assert!(batch[0].0 >= self.now, "no entry is due before the wheel's now");
        self.now = last;
        self.slots.pop(slot);
        *left -= count;
        for (_, index) in batch {
            let value = self.free(*index);
            out(value);
        }
        true
    }

    fn free(&mut self, index: u32) -> T {
        let entry = &mut self.entries[index];
        entry.stamp = None;
        let value = entry.value;
        self.entries.remove(index);
        self.len -= 1;
        value
    }

    /// Frees the memory of a burst. Stamps keep counting, so old handles stay stale.
    fn release(&mut self) {
        if self.len == 0 && self.bytes() > KEEP_BYTES_MAX {
            self.entries = Slab::new();
            self.slots = Slots::new();
        }
    }
}
