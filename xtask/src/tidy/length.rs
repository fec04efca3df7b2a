//! A file holds one concept, and can be read in one sitting.

use super::{Finding, is_rust};
use crate::repo::Source;

/// No file is longer.
const LINES_MAX: usize = 800;

/// Files that are too long.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let lines = |source: &Source| source.text.lines().count();
    let long = sources.iter().filter(|source| is_rust(source) && lines(source) > LINES_MAX);
    let finding = |source: &Source| {
        let advice =
            format!("expected at most {LINES_MAX} lines, got {}: cut it where its state can be cut", lines(source));
        Finding { path: source.path.clone(), line: 0, advice }
    };
    long.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_file_is_read_in_one_sitting() {
        let findings = |lines: usize| check(&[source("a.rs", &"x\n".repeat(lines))]).len();
        assert_eq!((findings(800), findings(801)), (0, 1));
    }
}
