//! Sizes as people write them: `512KiB`, `1MiB`, `2GiB`.

use crate::account;
use duetime_core::limits::PAYLOAD_BYTES_MAX;
use std::str::FromStr;

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
/// The least memory for jobs: less would be all but none.
const MEMORY_BYTES_MIN: u64 = 1 << 10;

/// The largest payload in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize);

/// Memory for jobs in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemorySize(pub(super) u64);

/// Memory for requests and answers in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestsSize(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = bytes(text).and_then(|bytes| usize::try_from(bytes).ok());
        let fit = bytes.filter(|bytes| (1..=PAYLOAD_BYTES_MAX).contains(bytes)).map(Self);
        fit.ok_or_else(|| format!("expected a size such as 512KiB or 1MiB, from 1B to 64MiB, got {text:?}"))
    }
}

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fit = bytes(text).filter(|&bytes| bytes >= MEMORY_BYTES_MIN).map(Self);
        fit.ok_or_else(|| format!("expected a size such as 512MiB or 2GiB, from 1KiB on, got {text:?}"))
    }
}

impl FromStr for RequestsSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fit = bytes(text).filter(|bytes| (account::BYTES_MIN..=account::BYTES_MAX).contains(bytes)).map(Self);
        fit.ok_or_else(|| format!("expected a size such as 128MiB, from 16MiB to 4GiB, got {text:?}"))
    }
}

fn bytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| text.strip_suffix(unit).map(|number| (number, *bytes)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| number.parse::<u64>().ok()?.checked_mul(unit)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read() {
        for (text, bytes) in [("1MiB", 1 << 20), ("512KiB", 512 << 10), ("64MiB", 64 << 20), ("7B", 7), ("7", 7)] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for wrong in ["", "MiB", "0", "65MiB", "1MB", "-1", "+1", "1 MiB", "1.5MiB", "99999999999999999999"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        assert_eq!(("16MiB".parse(), "4GiB".parse()), (Ok(RequestsSize(16 << 20)), Ok(RequestsSize(4 << 30))));
        assert!(["16383KiB", "5GiB"].iter().all(|wrong| wrong.parse::<RequestsSize>().is_err()));
        for (text, bytes) in [("512MiB", 512 << 20), ("2GiB", 2 << 30), ("1024", 1_024)] {
            assert_eq!(text.parse(), Ok(MemorySize(bytes)));
        }
        for wrong in ["", "0", "1023B", "1GB", "half", "99999999999GiB"] {
            assert!(wrong.parse::<MemorySize>().is_err(), "{wrong}");
        }
    }
}
