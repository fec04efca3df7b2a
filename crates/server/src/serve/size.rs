//! Sizes as people write them: `512KiB`, `1MiB`.

use duetime_core::limits::PAYLOAD_BYTES_MAX;
use std::str::FromStr;

const UNITS: [(&str, usize); 3] = [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The largest payload in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.iter().find_map(|(unit, bytes)| text.strip_suffix(unit).map(|number| (number, *bytes)));
        let (number, unit) = unit.unwrap_or((text, 1));
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let bytes = is_number.then(|| number.parse::<usize>().ok()?.checked_mul(unit)).flatten();
        bytes
            .filter(|bytes| (1..=PAYLOAD_BYTES_MAX).contains(bytes))
            .map(Self)
            .ok_or_else(|| format!("expected a size such as 512KiB or 1MiB, from 1B to 64MiB, got {text:?}"))
    }
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
    }
}
