//! Durations as in the HTTP API, such as `1h30m`.

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The milliseconds of a duration.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let mut units = UNITS.iter();
    let (mut rest, mut total) = (text, 0_u64);
    loop {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        // From long to short, each once.
        let (_, unit_ms) = units.by_ref().find(|(name, _)| *name == unit)?;
        total = digits.parse::<u64>().ok()?.checked_mul(*unit_ms)?.checked_add(total)?;
        if after.is_empty() {
            return Some(total);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn durations_read() {
        for (text, ms) in [("0s", 0), ("250ms", 250), ("1h30m", 5_400_000), ("1d2h3m4s5ms", 93_784_005)] {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
        for wrong in ["", "5", "s", "-5s", "1.5h", "5 s", " 5s", "5w", "5s1h", "5s5s", "99999999999999999999s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
