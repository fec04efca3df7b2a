//! Ids of jobs and receipts of leases.
//!
//! A [`JobId`] is `sequence << 10 | partition`; sequences are allotted by the ledger in blocks that start no lower
//! than `now_ms << 10`, so ids are unique, and ordered by time to within a block.

use crate::clock::Millis;
use crate::error::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Bits of an id below its sequence: the partition of the broker that holds the job; 0 in memory.
const PARTITION_BITS: u32 = 10;
/// Most partitions that a broker may have.
pub const PARTITIONS_MAX: u16 = 1 << PARTITION_BITS;

/// A job's id: a positive 63-bit integer. In JSON a decimal string, since many readers lose integers above 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The least id.
    pub const MIN: Self = Self(1);

    /// The id with this number, where that is positive and below 2^63.
    pub fn new(number: u64) -> Option<Self> {
        (number > 0 && i64::try_from(number).is_ok()).then_some(Self(number))
    }

    /// The id of a sequence, in partition 0.
    ///
    /// # Panics
    /// Beyond the year 2255, where sequences leave 53 bits.
    pub fn from_sequence(sequence: u64) -> Self {
        Self::new(sequence << PARTITION_BITS).expect("a sequence is positive and below 2^53")
    }

    /// The id of a sequence, in this partition.
    ///
    /// # Panics
    /// As [`from_sequence`](Self::from_sequence), and for a partition from 1024 on.
    pub fn in_partition(sequence: u64, partition: u16) -> Self {
        assert!(partition < PARTITIONS_MAX, "a partition is below {PARTITIONS_MAX}, not {partition}");
        Self(Self::from_sequence(sequence).0 | u64::from(partition))
    }

    /// The partition of the broker that holds the job.
    pub fn partition(self) -> u16 {
        (self.0 % u64::from(PARTITIONS_MAX)) as u16
    }

    /// The sequence, which no other job of the same store has.
    pub fn sequence(self) -> u64 {
        self.0 >> PARTITION_BITS
    }

    /// The wall clock below which its sequence was allotted, about.
    pub fn allotted_at(self) -> Millis {
        self.sequence() >> PARTITION_BITS
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        decimal(text)
            .and_then(Self::new)
            .ok_or_else(|| Error::invalid("id", "a decimal number from 1 to 2^63 - 1", text))
    }
}

/// A job, and optionally the version that it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRef {
    /// Which job.
    pub id: JobId,
    /// Only in this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl From<JobId> for JobRef {
    fn from(id: JobId) -> Self {
        Self { id, version: None }
    }
}

/// Proof of a lease: `<id>.<epoch>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt {
    /// The leased job.
    pub id: JobId,
    /// Which of the job's leases; grows with each, and never repeats.
    pub epoch: u64,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.epoch)
    }
}

impl FromStr for Receipt {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text
            .split_once('.')
            .and_then(|(id, epoch)| Some(Self { id: decimal(id).and_then(JobId::new)?, epoch: decimal(epoch)? }));
        parsed.ok_or_else(|| Error::invalid("receipt", "<id>.<epoch>, as a reserve answered it", text))
    }
}

/// Digits only: `u64::from_str` would take a sign.
fn decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(JobId);
serde_as_text!(Receipt);

/// The first sequence of a block that is allotted now, where earlier blocks end before `last_end`.
pub fn block_start(last_end: u64, now: Millis) -> u64 {
    last_end.max(now << PARTITION_BITS)
}

/// The next fence after `last`, where a clock keeps fences growing over a loss of memory.
pub fn next_fence(last: u64, now: Millis) -> u64 {
    now.max(last + 1)
}

/// Bits of a number below its generation.
const GENERATION_BITS: u32 = 24;
/// Imported versions and epochs stay below this: brokers keep 48 bits, and later generations need the rest.
pub const NUMBER_END: u64 = 3 << 46;
/// At most one generation is begun in such a time, on average: then they are in step with the clock.
const GENERATION_MS: u64 = 256_000;

/// The least version, epoch or fence of a generation.
pub fn floor(generation: u64) -> u64 {
    generation << GENERATION_BITS
}

/// The first generation whose numbers are all above this one.
pub fn generation_above(number: u64) -> u64 {
    (number >> GENERATION_BITS) + 1
}

/// The least generation for a store that starts now. A store that was restored from a backup knows only the generations from
/// before that; those that it begun since are passed over by the clock.
pub fn generation_at(now: Millis) -> u64 {
    now / GENERATION_MS + 1
}

/// Assigns the next version of a job. No version is used for two states, even if a broker has lost the versions that
/// it assigned: brokers beside a ledger give even numbers, and ledgers odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A broker beside a ledger, whose memory has this generation.
    Generation(u64),
    /// A broker that is its own ledger: from its clock on.
    Clock(Millis),
    /// A ledger, for a job that its broker does not hold.
    Ledger,
}

impl Numbers {
    /// The number after this one.
    pub fn after(self, last: u64) -> u64 {
        match self {
            Self::Generation(generation) => floor(generation).max((last + 2) & !1),
            Self::Clock(now) => now.max(last + 1),
            Self::Ledger => (last + 1) | 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_decimal_string_in_json() {
        let id = JobId::new(1_834_902_384_928_391_168).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"1834902384928391168\"");
        assert_eq!(serde_json::from_str::<JobId>("\"1834902384928391168\"").unwrap(), id);
        for wrong in ["0", "-1", "+1", "01", "", " 1", "9223372036854775808", "1.0"] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_receipt_reads_back() {
        let receipt = Receipt { id: JobId::new(7).unwrap(), epoch: 9 };
        assert_eq!(receipt.to_string().parse::<Receipt>().unwrap(), receipt);
        for wrong in ["7", "7.", ".9", "7.9.1", "7.-9", "0.9"] {
            assert!(wrong.parse::<Receipt>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn blocks_and_numbers_only_grow() {
        assert_eq!(block_start(0, 5), 5 << 10);
        assert_eq!(block_start(9_000, 5), 9_000);
        assert_eq!(next_fence(3, 10), 10);
        assert_eq!(next_fence(10, 3), 11);
    }

    #[test]
    fn a_ledger_gives_no_number_that_a_lost_memory_gave() {
        let memory = |generation| Numbers::Generation(generation);
        assert_eq!(memory(1).after(1), 1 << 24);
        assert_eq!(memory(1).after(1 << 24), (1 << 24) + 2);
        assert_eq!(memory(2).after((1 << 24) + 2), 2 << 24, "whatever else the first one gave");
        assert_eq!(Numbers::Ledger.after(1 << 24), (1 << 24) + 1);
        assert_eq!(Numbers::Ledger.after((1 << 24) + 1), (1 << 24) + 3);
        assert_eq!(memory(1).after((1 << 24) + 3), (1 << 24) + 4);
        assert_eq!(Numbers::Clock(10).after(3), 10);
        assert!(floor(generation_above(5 << 24)) > 5 << 24);
    }
}
