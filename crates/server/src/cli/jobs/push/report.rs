//! The results of pushing the lines of a file.

use crate::cli::exit::{DATA, ERROR, Failure, Result, TRY_LATER};
use crate::cli::output::{self, note};
use duetime_core::engine::PushOutcome;
use duetime_store::private;
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Counts. Refused lines are reported at once, on standard error.
#[derive(Default, Serialize)]
pub(super) struct Report {
    /// Jobs that are new.
    pushed: u64,
    /// Jobs whose key was held: the holder stays as it is.
    kept: u64,
    /// Jobs whose key was held: the holder was given their values.
    replaced: u64,
    repeated: u64,
    /// Jobs that a full queue dropped.
    dropped: u64,
    /// Lines that were refused.
    refused: u64,
    /// The file for refused lines.
    #[serde(skip)]
    rejects: Option<BufWriter<File>>,
}

impl Report {
    /// With a new file for refused lines, if one is wanted.
    pub(super) fn new(rejects: Option<&Path>) -> Result<Self> {
        let made = |path: &Path| {
            // Never overwrites a file: it may be the one that is being read.
            private::create(path).map(BufWriter::new).map_err(|error| {
                Failure::error(format!("cannot create {}: {error}", path.display()))
                    .hint("name a file that does not exist")
            })
        };
        Ok(Self { rejects: rejects.map(made).transpose()?, ..Self::default() })
    }

    /// Whether refused lines are wanted.
    pub(super) fn keeps_rejects(&self) -> bool {
        self.rejects.is_some()
    }

    /// A line is a job.
    pub(super) fn taken(&mut self, outcome: PushOutcome) {
        *match outcome {
            PushOutcome::Created => &mut self.pushed,
            PushOutcome::Kept => &mut self.kept,
            PushOutcome::Replaced => &mut self.replaced,
            PushOutcome::Repeated => &mut self.repeated,
            PushOutcome::Dropped => &mut self.dropped,
        } += 1;
    }

    /// A line is no good.
    pub(super) fn refuse(&mut self, number: u64, line: &[u8], code: &str, why: impl Display) -> Result {
        self.refused += 1;
        note!("line {number}: {code}: {why}");
        if let Some(rejects) = &mut self.rejects {
            rejects.write_all(line)?;
            rejects.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Tells it; the exit code says whether all lines, some or none are jobs.
    pub(super) fn end(mut self, json: bool, has_origins: bool) -> Result {
        self.flush()?;
        self.say(json)?;
        if has_origins && self.repeated > 0 && self.repeated == self.taken_in_all() {
            note!("every line is a job already: to push them once more, name an --origin that is new");
        }
        match (self.taken_in_all(), self.refused) {
            (_, 0) => Ok(()),
            (0, _) => Err(Failure::quiet(ERROR)),
            _ => Err(Failure::quiet(DATA)),
        }
    }

    /// Tells how far it got before the answers ceased.
    pub(super) fn broken(mut self, json: bool, gap: &Gap, has_origins: bool) -> Failure {
        let told = self.flush().and_then(|()| self.say(json));
        let mut hint = String::new();
        let (lines, may) =
            (ranges(&gap.unanswered), if gap.is_unknown { "may or may not have been" } else { "were not" });
        // Text takes all.
        let _ = write!(hint, "lines {lines} {may} pushed: ");
        hint.push_str(if has_origins {
            "repeat the command; lines that are jobs already are not pushed again"
        } else {
            "jobs from standard input without a key or origin may be pushed twice; use a file, or name an --origin"
        });
        match told {
            Ok(()) => Failure::new(if gap.passes { TRY_LATER } else { ERROR }, gap.why.clone()).hint(hint),
            Err(failure) => failure,
        }
    }

    fn taken_in_all(&self) -> u64 {
        self.pushed + self.kept + self.replaced + self.repeated + self.dropped
    }

    fn flush(&mut self) -> Result {
        Ok(self.rejects.as_mut().map_or(Ok(()), Write::flush)?)
    }

    fn say(&self, json: bool) -> Result {
        if json {
            return output::json(self);
        }
        let Self { pushed, kept, replaced, repeated, dropped, refused, .. } = self;
        let dropped = if *dropped > 0 { format!("{dropped} dropped by a full queue, ") } else { String::new() };
        output::say(format_args!(
            "{} pushed, {kept} kept and {replaced} replaced because of their key, {repeated} already pushed, {dropped}{} refused",
            output::count(*pushed, "job"),
            output::count(*refused, "line")
        ))
    }
}

/// Lines that were not answered.
pub(super) struct Gap {
    /// Their numbers, in order; there is one at least.
    pub(super) unanswered: Vec<u64>,
    /// Why.
    pub(super) why: String,
    /// Whether some of them may be jobs.
    pub(super) is_unknown: bool,
    /// Whether it may work later.
    pub(super) passes: bool,
}

/// Numbers in order, in a few words.
fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown =
        ranges.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_ranges() {
        assert_eq!(ranges(&[1]), "1");
        assert_eq!(ranges(&[1, 2, 3, 5, 7, 8]), "1-3, 5, 7-8");
    }

    #[test]
    fn a_gap_says_where_to_go_on() {
        let told = |is_unknown, has_origins| {
            let gap = Gap { unanswered: vec![4, 6, 7], why: "gone".into(), is_unknown, passes: true };
            format!("{:?}", Report::default().broken(true, &gap, has_origins))
        };
        let repeat = "lines 4, 6-7 were not pushed: repeat the command";
        assert!(told(false, true).contains(repeat), "{}", told(false, true));
        let twice = "lines 4, 6-7 may or may not have been pushed: jobs from standard input";
        assert!(told(true, false).contains(twice), "{}", told(true, false));
    }
}
