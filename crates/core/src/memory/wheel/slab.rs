//! Numbered storage in pages.
//!
//! Items keep their number until they are removed, and never move once their page is full-grown. Growing by a page copies
//! nothing, whereas a doubling vector of ten million entries would stop its caller for tens of milliseconds. The caller must
//! know which numbers are live.

use std::ops::{Index, IndexMut};

const PAGE_BITS: u32 = 10;
const PAGE_ITEMS: usize = 1 << PAGE_BITS;

/// Items of one type, numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct Slab<E> {
    /// All full but the last. The first grows by doubling, so that a small slab stays small.
    pages: Vec<Vec<E>>,
    /// Numbers to use again, the latest first: those are the ones most likely still cached. Kept apart from
    /// the items because a list threaded through them would make each insert wait for the cache miss of the
    /// one before.
    free: Vec<u32>,
}

impl<E> Slab<E> {
    pub(super) const fn new() -> Self {
        Self { pages: Vec::new(), free: Vec::new() }
    }

    /// One more than the highest number in use since the slab was new.
    pub(super) fn end(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE_ITEMS + last.len())
    }

    pub(super) fn get(&self, at: u32) -> Option<&E> {
        self.pages.get(at as usize >> PAGE_BITS)?.get(at as usize % PAGE_ITEMS)
    }

    /// Stores `item` and returns its number. `end_max` is the number it must stay below.
    pub(super) fn insert(&mut self, item: E, end_max: u32) -> u32 {
        if let Some(at) = self.free.pop() {
            self[at] = item;
            return at;
        }
        let at = self.end();
        assert!(at < end_max as usize, "expected fewer than {end_max} items in a wheel's slab");
        if at.is_multiple_of(PAGE_ITEMS) {
            self.pages.push(if at == 0 { Vec::new() } else { Vec::with_capacity(PAGE_ITEMS) });
        }
        let last = self.pages.len() - 1;
        self.pages[last].push(item);
        at as u32
    }

    /// Marks the number `at`, which must be in use, as free.
    pub(super) fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    /// Heap memory held.
    pub(super) fn bytes(&self) -> usize {
        let items: usize = self.pages.iter().map(Vec::capacity).sum();
        items * size_of::<E>() + self.pages.capacity() * size_of::<Vec<E>>() + self.free.capacity() * size_of::<u32>()
    }
}

impl<E> Index<u32> for Slab<E> {
    type Output = E;

    #[inline]
    fn index(&self, at: u32) -> &E {
        &self.pages[at as usize >> PAGE_BITS][at as usize % PAGE_ITEMS]
    }
}

impl<E> IndexMut<u32> for Slab<E> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut E {
        &mut self.pages[at as usize >> PAGE_BITS][at as usize % PAGE_ITEMS]
    }
}
