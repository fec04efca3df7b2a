//! The metrics of an engine as text for Prometheus, in the format OpenMetrics. An edge adds its own families.
//!
//! Counters are those of this process since its start, but the totals of a queue (`duetime_queue_pushed` …), which the store keeps. These and
//! gauges are read from the stores each time, so processes that share a store all show the same.

mod families;

use super::metrics::{BOUNDS_US, Histogram};
use std::fmt::{self, Write};

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A label, if a sample has one: its name and its value.
pub type Label<'a> = Option<(&'static str, &'a str)>;

/// A text of metrics that is being written, family by family.
///
/// A family has a name without the endings that samples have (`_total`, `_bucket`), a help text of one line, and samples that a
/// label tells apart.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Adds a family of counters.
    pub fn counters<'a>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (Label<'a>, u64)>) {
        self.head(name, help, "counter");
        for (label, count) in samples {
            self.sample(name, "_total", &[label], count);
        }
    }

    /// Adds a family of gauges.
    pub fn gauges<'a>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (Label<'a>, f64)>) {
        self.head(name, help, "gauge");
        for (label, value) in samples {
            self.sample(name, "", &[label], Float(value));
        }
    }

    /// Adds a family of histograms of durations, in seconds.
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Label<'a>, &'a Histogram)>,
    ) {
        self.head(name, help, "histogram");
        for (label, histogram) in samples {
            let counts = histogram.counts();
            self.sample(name, "_sum", &[label], Float(seconds(histogram.sum_us())));
            self.sample(name, "_count", &[label], counts.iter().sum::<u64>());
            let bounds = BOUNDS_US.iter().map(|&us| Float(seconds(us))).chain([Float(f64::INFINITY)]);
            let mut sum = 0;
            for (bound, count) in bounds.zip(counts) {
                sum += count;
                self.sample(name, "_bucket", &[Some(("le", &bound.to_string())), label], sum);
            }
        }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, ending: &str, labels: &[Label<'_>], value: impl fmt::Display) {
        self.write(format_args!("{name}{ending}"));
        let mut before = '{';
        for (label, text) in labels.iter().flatten() {
            self.write(format_args!("{before}{label}=\"{}\"", Escaped(text)));
            before = ',';
        }
        let end = if before == ',' { "}" } else { "" };
        self.write(format_args!("{end} {value}\n"));
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes any text");
    }
}

/// The value of a label.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' | '"' => write!(f, "\\{character}"),
            '\n' => f.write_str("\\n"),
            other => f.write_char(other),
        })
    }
}

/// A number that shows that it is none of the integers: with a point or an exponent.
struct Float(f64);

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == f64::INFINITY { f.write_str("+Inf") } else { write!(f, "{:?}", self.0) }
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_families_and_an_end() {
        let mut exposition = Exposition::default();
        let odd = "a\\b\"c\nd";
        exposition.counters("jobs", "All jobs", [(Some(("queue", "q")), 7), (Some(("queue", odd)), u64::MAX)]);
        exposition.gauges("ready", "Whether it is", [(None, 1.0)]);
        let expected = r#"# HELP jobs All jobs
# TYPE jobs counter
jobs_total{queue="q"} 7
jobs_total{queue="a\\b\"c\nd"} 18446744073709551615
# HELP ready Whether it is
# TYPE ready gauge
ready 1.0
# EOF
"#;
        assert_eq!(exposition.finish(), expected);
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative() {
        let histogram = Histogram::default();
        [400, 500, 700, 4_000_000_000].into_iter().for_each(|us| histogram.add(us));
        let mut exposition = Exposition::default();
        exposition.histograms("late", "How late", [(Some(("queue", "q")), &histogram)]);
        let text = exposition.finish();
        for line in [
            r#"late_sum{queue="q"} 4000.0016"#,
            r#"late_count{queue="q"} 4"#,
            r#"late_bucket{le="0.0005",queue="q"} 2"#,
            r#"late_bucket{le="0.001",queue="q"} 3"#,
            r#"late_bucket{le="3600.0",queue="q"} 3"#,
            r#"late_bucket{le="+Inf",queue="q"} 4"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
