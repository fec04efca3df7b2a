//! Statistics of beanstalkd, its tubes and jobs: YAML with one number or word in each line.

use super::wire::Reply;

/// The statistics of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobStats {
    pub(super) id: u64,
    pub(super) tube: String,
    pub(super) state: String,
    pub(super) priority: u32,
    pub(super) ttr_s: u32,
    /// Seconds since it was put.
    pub(super) age_s: u64,
    /// Its last delay, in seconds.
    pub(super) delay_s: u64,
    /// Seconds until it is due, rounded down.
    pub(super) left_s: u64,
    pub(super) reserves: u64,
    pub(super) releases: u64,
}

impl JobStats {
    /// Parses an answer to `stats-job`; `None` if there is no such job.
    pub(super) fn read(reply: &Reply) -> Option<Self> {
        let text = reply.text()?;
        let number = |key| value(text, key)?.parse::<u64>().ok();
        Some(Self {
            id: number("id")?,
            tube: value(text, "tube")?.to_owned(),
            state: value(text, "state")?.to_owned(),
            priority: u32::try_from(number("pri")?).ok()?,
            ttr_s: u32::try_from(number("ttr")?).ok()?,
            age_s: number("age")?,
            delay_s: number("delay")?,
            left_s: number("time-left")?,
            reserves: number("reserves")?,
            releases: number("releases")?,
        })
    }
}

/// The value of a key.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).map(bare)
}

/// The entries of a list.
pub(super) fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("- ")).map(bare)
}

/// Without the quotes that 1.13 puts around texts.
fn bare(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_quotes_and_without() {
        let text = "---\nname: \"a:b\"\ncurrent-jobs-ready: 3\npause: 0\npause-time-left: 7\n";
        assert_eq!(value(text, "name"), Some("a:b"));
        assert_eq!(value(text, "pause"), Some("0"));
        assert_eq!(value(text, "ready"), None);
        assert_eq!(entries("---\n- default\n- \"mail\"\n").collect::<Vec<_>>(), ["default", "mail"]);
    }
}
