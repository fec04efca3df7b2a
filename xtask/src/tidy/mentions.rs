//! Folders beside the repository are private: no file refers to them.

use super::Finding;
use super::mask::is_word_byte;
use crate::repo::Source;

/// Written in halves, so that this file does not match.
const PRIVATE: &[&str] = &[concat!("../", "shared"), concat!(".lib", "rary")];

/// Every mention, in files of any kind.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(mentions).collect()
}

fn mentions(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().enumerate();
    let found =
        lines.filter_map(|(index, line)| Some((index + 1, PRIVATE.iter().find(|name| mentions_name(line, name))?)));
    let finding = |(line, name): (usize, &&str)| Finding {
        path: source.path.clone(),
        line,
        advice: format!("`{name}` is not part of the repository: say here what is to be known"),
    };
    found.map(finding).collect()
}

/// Whether the line has the name, and not as part of a longer one: methods and other folders may be called nearly so.
fn mentions_name(line: &str, name: &str) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| is_word_byte(*byte));
    let bytes = line.as_bytes();
    line.match_indices(name)
        .any(|(at, _)| !is_word(at.checked_sub(1).and_then(|at| bytes.get(at))) && !is_word(bytes.get(at + name.len())))
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_private_folder_is_found_in_any_file() {
        let text =
            format!("see {}/design\na{}()\n{}_path\n/work/{}/x\n", PRIVATE[0], PRIVATE[1], PRIVATE[1], PRIVATE[1]);
        let lines: Vec<_> = check(&[source("README.md", &text)]).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 4]);
    }
}
