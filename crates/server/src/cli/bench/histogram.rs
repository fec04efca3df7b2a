//! Durations counted to three digits, in microseconds.

use serde::Serialize;
use std::time::Duration;

/// The upper bound of recorded durations: an hour.
const MICROS_MAX: u64 = 3_600_000_000;
/// Digits that are kept.
const DIGITS: u8 = 3;
/// Blocks of a whole bar.
const BAR_CHARS: usize = 30;
/// Fractions of a block, by eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Counts durations.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    early: u64,
}

/// A summary, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Percentiles {
    count: u64,
    /// Handed out before they were due: never, by promise.
    #[serde(skip_serializing_if = "is_zero")]
    early: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).expect("the bounds are sound");
        Self { counts, early: 0 }
    }

    pub(super) fn record(&mut self, duration: Duration) {
        self.counts.saturating_record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts how late something was; `None` says that it was early.
    pub(super) fn record_late(&mut self, late: Option<Duration>) {
        match late {
            Some(late) => self.record(late),
            None => self.early += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("both have the same bounds");
        self.early += other.early;
    }

    pub(super) fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.counts.len(),
            early: self.early,
            p50_us: self.counts.value_at_quantile(0.5),
            p90_us: self.counts.value_at_quantile(0.9),
            p99_us: self.counts.value_at_quantile(0.99),
            p999_us: self.counts.value_at_quantile(0.999),
            max_us: self.counts.max(),
        }
    }

    /// A bar for each doubling, from the first that counts to the last.
    pub(super) fn bars(&self) -> Vec<String> {
        let mut counts: Vec<(u64, u64)> = Vec::new();
        let mut low = 0;
        for exponent in 4.. {
            let high = (1_u64 << exponent) - 1;
            counts.push((high + 1, self.counts.count_between(low, high)));
            low = high + 1;
            if high >= self.counts.max() {
                break;
            }
        }
        let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        let shown = counts.into_iter().skip_while(|(_, count)| *count == 0);
        shown
            .map(|(below, count)| format!("  < {:>9}  {:<BAR_CHARS$} {count}", micros(below), bar(count, most)))
            .collect()
    }
}

impl Percentiles {
    pub(super) fn line(&self) -> String {
        let Self { early, p50_us, p99_us, p999_us, max_us, .. } = *self;
        let early = if early == 0 { String::new() } else { format!("   EARLY {early}") };
        format!(
            "p50 {}   p99 {}   p99.9 {}   max {}{early}",
            micros(p50_us),
            micros(p99_us),
            micros(p999_us),
            micros(max_us)
        )
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn micros(micros: u64) -> String {
    crate::cli::time::short(Duration::from_micros(micros))
}

fn bar(count: u64, most: u64) -> String {
    let eighths = (count * BAR_CHARS as u64 * 8).div_ceil(most) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_bars() {
        let mut histogram = Histogram::new();
        (1..=1_000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let percentiles = histogram.percentiles();
        assert_eq!((percentiles.count, percentiles.p50_us, percentiles.max_us), (1_000, 500, 1_000));
        let bars = histogram.bars();
        assert_eq!(bars.len(), 7);
        assert!(bars[6].ends_with("489") && bars[6].contains('█'), "{bars:?}");
        assert!(Histogram::new().bars().is_empty());
    }
}
