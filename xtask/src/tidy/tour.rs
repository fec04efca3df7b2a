//! Every step of the tour (`docs/internals/tour.md`) names a function and the file that it is in.

use super::Finding;
use crate::repo::Source;

const TOUR: &str = "docs/internals/tour.md";

/// Steps that name no function, and those that name one that is elsewhere.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let finding = |line: usize, advice: String| Finding { path: TOUR.into(), line, advice };
    let Some(tour) = sources.iter().find(|source| source.path == TOUR) else {
        return vec![finding(0, "expected a tour of the code, found no such file".to_owned())];
    };
    let wrong = |(line, step): (usize, String)| Some(finding(line, judge(&step, sources).err()?));
    steps(&tour.text).into_iter().filter_map(wrong).collect()
}

/// The line on which each step begins, and its text on one line.
fn steps(text: &str) -> Vec<(usize, String)> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    let mut is_step = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            steps.push((index + 1, line.to_owned()));
            is_step = true;
        } else if let Some((_, step)) = steps.last_mut().filter(|_| is_step && line.starts_with(' ')) {
            step.push(' ');
            step.push_str(line.trim());
        } else {
            is_step = false;
        }
    }
    steps
}

fn judge(step: &str, sources: &[Source]) -> Result<(), String> {
    let named = step.rsplit_once("` in `").and_then(|(before, after)| {
        let (_, function) = before.rsplit_once('`')?;
        let (path, _) = after.split_once('`')?;
        Some((function, path))
    });
    let Some((function, path)) = named else {
        return Err("expected a step to end with a function and its file, as in: `push` in `src/push.rs`".to_owned());
    };
    let file = sources.iter().find(|source| source.path == path);
    let file = file.ok_or_else(|| format!("{path} is gone: name the file that has `{function}` now"))?;
    let is_there = ["(", "<"].iter().any(|next| file.text.contains(&format!("fn {function}{next}")));
    if is_there { Ok(()) } else { Err(format!("{path} has no function `{function}`: name the one that does this now")) }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn findings(tour: &str) -> usize {
        check(&[source(TOUR, tour), source("a.rs", "fn push(x: u8) {}\nfn map<T>() {}\n")]).len()
    }

    #[test]
    fn a_step_names_a_function_that_is_there() {
        assert_eq!(
            findings("# Tour\n\n1. It is pushed: `push` in `a.rs`\n2. Mapped, by `T`: `map` in\n   `a.rs`\n"),
            0
        );
        assert_eq!(findings("1. It is pushed: `pull` in `a.rs`\n"), 1);
        assert_eq!(findings("1. It is pushed: `push` in `b.rs`\n"), 1);
        assert_eq!(findings("1. It is pushed\n\n2. And mapped: `map` in `a.rs`\n"), 1);
    }

    #[test]
    fn there_is_a_tour() {
        assert_eq!(check(&[]).len(), 1);
    }
}
