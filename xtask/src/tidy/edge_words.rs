//! Words of one edge: core and stores know general verbs and layouts, so that another protocol or framework needs nothing of them.

use super::Finding;
use crate::repo::Source;

const FOLDERS: [&str; 2] = ["crates/core/src/", "crates/store/src/"];
/// Also as parts of longer words.
const WORDS: [&str; 7] = ["beanstalk", "bury", "buri", "kick", "laravel", "sidekiq", "bullmq"];

/// Every mention in these folders, in files of any kind.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let sources = sources.iter().filter(|source| FOLDERS.iter().any(|folder| source.path.starts_with(folder)));
    sources.flat_map(mentions).collect()
}

fn mentions(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().enumerate().map(|(index, line)| (index + 1, line.to_lowercase()));
    let found = lines.filter_map(|(line, text)| Some((line, WORDS.iter().find(|word| text.contains(**word))?)));
    let finding = |(line, word): (usize, &&str)| Finding {
        path: source.path.clone(),
        line,
        advice: format!("`{word}` is a word of one edge: say it in general, or in the server"),
    };
    found.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_word_is_found_in_code_and_comments_of_core_and_store() {
        let text = "fn park() {}\nChange::Kick,\n// As beanstalkd does.\n-- buried\n";
        let lines = |path| -> Vec<usize> { check(&[source(path, text)]).iter().map(|found| found.line).collect() };
        assert_eq!(lines("crates/core/src/model/edit.rs"), [2, 3, 4]);
        assert_eq!(lines("crates/store/src/redis/lua/put.lua"), [2, 3, 4]);
        assert_eq!(lines("crates/server/src/beanstalk/kicks.rs"), [0; 0]);
    }
}
