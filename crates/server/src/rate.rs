//! Rates as people write them: `100/s`, `100/s,burst=20`.

use duetime_core::ports::Rate;

/// Reads a rate.
pub(crate) fn parse_rate(text: &str) -> Result<Rate, String> {
    const EXPECTED: &str = "expected a rate such as `100/s`, `0.5/s` or `100/s,burst=20`";
    let (rate, burst) = text.split_once(",burst=").map_or((text, None), |(rate, burst)| (rate, Some(burst)));
    let per_second = rate.strip_suffix("/s").and_then(|number| number.parse().ok()).ok_or(EXPECTED)?;
    let burst = burst.map(|burst| burst.parse().map_err(|_| EXPECTED)).transpose()?;
    let rate = Rate { per_second, burst };
    rate.check().map_err(|error| error.to_string())?;
    Ok(rate)
}

/// Writes one.
pub(crate) fn show_rate(rate: &Rate) -> String {
    let burst = rate.burst.map_or_else(String::new, |burst| format!(",burst={burst}"));
    format!("{}/s{burst}", rate.per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_and_print() {
        for text in ["100/s", "0.5/s", "100/s,burst=20"] {
            assert_eq!(show_rate(&parse_rate(text).unwrap()), text);
        }
        for wrong in ["100", "x/s", "0/s", "-1/s", "100/s,burst=0", "100/s,burst=x", "1e9/s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn whatever_is_written_is_a_rate_or_refused() {
        duetime_core::testing::fuzz("rate", |text| parse_rate(text).ok().map(|rate| show_rate(&rate)));
    }
}
