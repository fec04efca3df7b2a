//! Ids of jobs and receipts of leases.
//!
//! A [`JobId`] is `sequence << 8 | partition`, below 2^53. The ledger allots sequences in blocks. A block starts no lower
//! than 2^14 sequences for each second since 2026, until the year 2094. So ids are unique, roughly ordered by time, and a
//! store that was emptied or restored does not issue an id again, unless it had outrun 16,384 jobs a second for long.

use crate::clock::Millis;
use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::fmt;
use std::str::FromStr;

/// Bits of an id below its sequence: the partition of the broker that holds the job; 0 in memory.
const PARTITION_BITS: u32 = 8;
/// Most partitions that a broker may have.
pub const PARTITIONS_MAX: u16 = 1 << PARTITION_BITS;
/// Ids stay below this: JavaScript and many JSON readers lose larger integers.
const ID_END: u64 = 1 << 53;
/// Sequences stay below this.
pub const SEQUENCE_END: u64 = ID_END >> PARTITION_BITS;
/// 2026-01-01T00:00:00Z, from which sequences count.
pub const FIRST_MS: Millis = 1_767_225_600_000;
/// Bits of the sequences that the clock gives a second.
pub const SECOND_BITS: u32 = 14;

/// A job's id: a positive integer below 2^53. In JSON a decimal string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct JobId(u64);

impl JobId {
    /// The least id.
    pub const MIN: Self = Self(1);

    /// The id with this number, if it is positive and below 2^53.
    pub fn new(number: u64) -> Option<Self> {
        (1..ID_END).contains(&number).then_some(Self(number))
    }

    /// The id of a sequence, in partition 0.
    ///
    /// # Panics
    /// For 0, and from [`SEQUENCE_END`] on.
    #[doc(hidden)]
    pub fn from_sequence(sequence: u64) -> Self {
        Self::new(sequence << PARTITION_BITS).expect("a sequence is positive and below 2^45")
    }

    /// The id of a sequence, in this partition.
    ///
    /// # Panics
    /// As [`from_sequence`](Self::from_sequence), and for a partition from 256 on.
    #[doc(hidden)]
    pub fn in_partition(sequence: u64, partition: u16) -> Self {
        assert!(partition < PARTITIONS_MAX, "a partition is below {PARTITIONS_MAX}, not {partition}");
        Self(Self::from_sequence(sequence).0 | u64::from(partition))
    }

    /// The partition of the broker that holds the job.
    #[doc(hidden)]
    pub fn partition(self) -> u16 {
        (self.0 % u64::from(PARTITIONS_MAX)) as u16
    }

    /// The sequence, which no other job of the same store has.
    #[doc(hidden)]
    pub fn sequence(self) -> u64 {
        self.0 >> PARTITION_BITS
    }

    /// About when its sequence was allotted, or later.
    #[doc(hidden)]
    pub fn allotted_at(self) -> Millis {
        FIRST_MS + ((self.sequence() * 1_000) >> SECOND_BITS)
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
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        decimal(text)
            .and_then(Self::new)
            .ok_or_else(|| Invalid::new("id", "a job id: a decimal number from 1 to 2^53 - 1", text))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct Receipt {
    /// The leased job.
    pub id: JobId,
    /// The number of the job's lease; grows with each lease, and never repeats.
    pub epoch: u64,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.epoch)
    }
}

impl FromStr for Receipt {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = text
            .split_once('.')
            .and_then(|(id, epoch)| Some(Self { id: decimal(id).and_then(JobId::new)?, epoch: decimal(epoch)? }));
        parsed.ok_or_else(|| {
            Invalid::new("receipt", "a receipt such as 117111681613568.1795168800251, as `reserve` returned it", text)
        })
    }
}

/// Digits only: `u64::from_str` would take a sign.
fn decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// The first sequence of a block that is allotted now, if earlier blocks end before `last_end`.
pub fn block_start(last_end: u64, now: Millis) -> u64 {
    last_end.max(sequence_at(now)).max(1)
}

/// The sequence of the clock: above all that were allotted before, unless the store outran it.
pub fn sequence_at(now: Millis) -> u64 {
    (now.saturating_sub(FIRST_MS) << SECOND_BITS).div_ceil(1_000)
}

/// The next fence after `last`, if a clock keeps fences growing over a loss of memory.
pub fn next_fence(last: u64, now: Millis) -> u64 {
    now.max(last + 1)
}

/// Bits of a number below its generation.
const GENERATION_BITS: u32 = 24;
/// Imported versions and epochs stay below this: brokers keep 48 bits, and later generations need the rest.
pub const NUMBER_END: u64 = 3 << 46;
/// At most one generation is begun in this time, on average: so they stay in step with the clock.
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
        let id = JobId::new(117_111_681_613_568).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"117111681613568\"");
        assert_eq!(serde_json::from_str::<JobId>("\"117111681613568\"").unwrap(), id);
        assert_eq!("9007199254740991".parse::<JobId>().unwrap().get(), ID_END - 1);
        for wrong in ["0", "-1", "+1", "01", "", " 1", "9007199254740992", "9223372036854775808", "1.0"] {
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
        assert_eq!(block_start(0, 5), 1, "a clock from before 2026");
        assert_eq!(block_start(0, FIRST_MS + 5_000), 5 << 14);
        assert_eq!(block_start(90_000, FIRST_MS + 5_000), 90_000);
        for sequence in [1, 16, 17, 16_384, 16_385, 123_456_789_012] {
            let at = JobId::from_sequence(sequence).allotted_at();
            assert!(sequence_at(at) <= sequence && sequence < sequence_at(at + 1), "{sequence}");
        }
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
