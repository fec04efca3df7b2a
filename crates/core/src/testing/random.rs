//! A small seeded source of random numbers: SplitMix64 (Steele, Lea and Flood, 2014).

use std::ops::Range;

/// Random numbers that a seed repeats.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The random numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of a range that is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.any() % (range.end - range.start)
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// One of these.
    pub fn of<'a, T>(&mut self, these: &'a [T]) -> &'a T {
        &these[self.within(0..these.len() as u64) as usize]
    }
}
