//! The slots of all levels, each an ordered list of entry numbers kept in chunks of one cache line.
//!
//! Why chunks: walking a list threaded through the entries waits for one cache miss after another, as each
//! entry names the next. A chunk names thirteen at once, so their misses overlap.
//!
//! Invariant: a slot's bit is set exactly when its list has a chunk, and a chunk has at least one live link.
//! A removed link leaves a hole, so that a list keeps its order; holes go when their chunk's last link does.
//! Nothing here knows about time.

use super::slab::Slab;

const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Levels of 256 slots: eight reach over all of `u64`, so that nothing needs an overflow list.
pub(super) const LEVELS: usize = 8;
/// As many as fit in a cache line of 64 bytes beside the rest of a chunk.
pub(super) const CHUNK_LINKS: usize = 13;
/// A place in a chunk takes four bits of a [`Place`].
const CHUNKS_MAX: u32 = 1 << 28;
/// No link, or no chunk.
const NONE: u32 = u32::MAX;

/// Which slot: the level, and the digit of the due time on that level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u16);

impl Slot {
    /// The slot for `due` on `level`.
    #[inline]
    pub(super) fn of(level: usize, due: u64) -> Self {
        Self((level * DIGITS + digit(level, due)) as u16)
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.0 as usize / DIGITS
    }

    #[inline]
    fn digit(self) -> usize {
        self.0 as usize % DIGITS
    }

    /// The first tick of this slot in the turn that `now` is in.
    #[inline]
    pub(super) fn start(self, now: u64) -> u64 {
        let shift = self.level() as u32 * DIGIT_BITS;
        (now >> shift & !(DIGITS as u64 - 1) | self.digit() as u64) << shift
    }
}

#[inline]
fn digit(level: usize, tick: u64) -> usize {
    (tick >> (level as u32 * DIGIT_BITS)) as usize % DIGITS
}

/// The level that holds `due` as seen from `now`: that of the highest bit in which they differ.
#[inline]
pub(super) fn level_of(now: u64, due: u64) -> usize {
    (((now ^ due) | 1).ilog2() / DIGIT_BITS) as usize
}

/// The location of a link: chunk number and offset in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link(u32);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    links: [u32; CHUNK_LINKS],
    next: u32,
    prev: u32,
    slot: Slot,
    /// Links written, holes included.
    len: u8,
    /// Links that are not holes.
    live: u8,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

#[derive(Clone, Debug)]
struct Level {
    occupied: [u64; DIGITS / 64],
    lists: [List; DIGITS],
}

impl Level {
    fn new() -> Self {
        Self { occupied: [0; _], lists: [List { head: NONE, tail: NONE }; _] }
    }

    /// The first occupied digit from `from` on.
    fn first(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.occupied[word] & (!0 << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// The first chunk of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    chunk: &'a Chunk,
    at: u32,
}

impl Head<'_> {
    /// Whether no other chunk follows.
    pub(super) fn is_last(&self) -> bool {
        self.chunk.next == NONE
    }

    /// How many links are live.
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.chunk.live as usize
    }

    /// The live links, in order.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Link)> {
        let links = self.chunk.links[..self.chunk.len as usize].iter().zip(self.at << 4..);
        links.filter(|(link, _)| **link != NONE).map(|(link, place)| (*link, Link(place)))
    }
}

/// All slots of a wheel. A level takes memory only once it is used.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    levels: [Option<Box<Level>>; LEVELS],
    chunks: Slab<Chunk>,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self { levels: [const { None }; LEVELS], chunks: Slab::new() }
    }

    /// Appends `link` to the list of `slot`.
    #[inline]
    pub(super) fn append(&mut self, slot: Slot, link: u32) -> Link {
        let level = self.levels[slot.level()].get_or_insert_with(|| Box::new(Level::new()));
        let list = &mut level.lists[slot.digit()];
        if list.tail != NONE {
            let chunk = &mut self.chunks[list.tail];
            let offset = chunk.len;
            if let Some(place) = chunk.links.get_mut(offset as usize) {
                *place = link;
                chunk.len += 1;
                chunk.live += 1;
                return Link(list.tail << 4 | offset as u32);
            }
        }
        let prev = list.tail;
        let mut chunk = Chunk { links: [NONE; _], next: NONE, prev, slot, len: 1, live: 1 };
        chunk.links[0] = link;
        let at = self.chunks.insert(chunk, CHUNKS_MAX);
        list.tail = at;
        if prev == NONE {
            list.head = at;
            level.occupied[slot.digit() / 64] |= 1 << (slot.digit() % 64);
        } else {
            self.chunks[prev].next = at;
        }
        Link(at << 4)
    }

    /// Takes out the link at `place`, which must be live.
    #[inline]
    pub(super) fn remove(&mut self, place: Link) {
        let at = place.0 >> 4;
        let chunk = &mut self.chunks[at];
        chunk.links[place.0 as usize % 16] = NONE;
        chunk.live -= 1;
        if chunk.live == 0 {
            self.unlink(at);
        }
    }

    /// The live links of the first chunk of `slot`, in order.
    #[inline]
    pub(super) fn head(&self, slot: Slot) -> Option<Head<'_>> {
        let list = self.levels[slot.level()].as_ref()?.lists[slot.digit()];
        if list.head == NONE {
            return None;
        }
        Some(Head { chunk: &self.chunks[list.head], at: list.head })
    }

    /// Takes out the first chunk of `slot`, which must have one, with all that is in it.
    #[inline]
    pub(super) fn pop(&mut self, slot: Slot) {
        let level = self.levels[slot.level()].as_mut().expect("a chunk's level exists");
        let list = &mut level.lists[slot.digit()];
        let next = self.chunks[list.head].next;
        self.chunks.remove(list.head);
        list.head = next;
        if next == NONE {
            list.tail = NONE;
            level.occupied[slot.digit() / 64] &= !(1 << (slot.digit() % 64));
        } else {
            self.chunks[next].prev = NONE;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Chunk { next, prev, slot, .. } = self.chunks[at];
        self.chunks.remove(at);
        let level = self.levels[slot.level()].as_mut().expect("a chunk's level exists");
        let list = &mut level.lists[slot.digit()];
        match prev {
            NONE => list.head = next,
            _ => self.chunks[prev].next = next,
        }
        match next {
            NONE => list.tail = prev,
            _ => self.chunks[next].prev = prev,
        }
        if list.head == NONE {
            level.occupied[slot.digit() / 64] &= !(1 << (slot.digit() % 64));
        }
    }

    /// The occupied slot that comes first from `now` on.
    ///
    /// A lower level always comes before a higher one: what a higher level holds lies beyond the end of the
    /// lower one's turn.
    #[inline]
    pub(super) fn first(&self, now: u64) -> Option<Slot> {
        self.levels.iter().enumerate().find_map(|(level, slots)| {
            let digit = slots.as_ref()?.first(digit(level, now))?;
            Some(Slot((level * DIGITS + digit) as u16))
        })
    }

    /// Heap memory held.
    pub(super) fn bytes(&self) -> usize {
        self.levels.iter().flatten().count() * size_of::<Level>() + self.chunks.bytes()
    }
}
