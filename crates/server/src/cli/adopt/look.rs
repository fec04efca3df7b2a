//! The result of a look.

use super::source::Look;
use crate::cli::exit::{ERROR, Failure, Result};
use crate::cli::output;
use crate::cli::time::{now, relative};
use duetime_core::printable::printable_line;

/// Characters of the name of a key, tube or table.
const NAME_CHARS: usize = 72;

/// A name from a source, on one line. Of a long one, the middle is left out: many names differ at their ends.
pub(super) fn name(text: &str) -> String {
    let letters: Vec<char> = printable_line(text).chars().collect();
    if letters.len() <= NAME_CHARS {
        return letters.into_iter().collect();
    }
    let half = NAME_CHARS / 2;
    letters[..half].iter().chain(&['…']).chain(&letters[letters.len() + 1 - half..]).collect()
}

/// Prints it. It fails if something that was named is not there: the name may have a typo.
pub(super) fn show(look: &Look, json: bool) -> Result {
    if json {
        output::json(look)?;
    } else {
        say(look)?;
    }
    if look.is_missing { Err(Failure::quiet(ERROR)) } else { Ok(()) }
}

fn say(look: &Look) -> Result {
    let Look { layout, why, parts, samples, unread, notes, first, is_missing: _, only_drains } = look;
    output::say(format_args!("recognised: {layout} ({})\n", why.replace('\n', " ")))?;
    let mut columns = vec!["PART", "DUE", "LATER", "NOT TAKEN"];
    let has_unchecked = parts.iter().any(|part| part.unchecked > 0);
    columns.extend(has_unchecked.then_some("NOT CHECKED"));
    let row = |part: &super::source::Part| {
        let left = match &part.why_left {
            Some(why) if part.left > 0 => format!("{} ({why})", part.left),
            _ => part.left.to_string(),
        };
        let mut row = vec![name(&part.name), part.due.to_string(), part.later.to_string(), left];
        row.extend(has_unchecked.then(|| part.unchecked.to_string()));
        row
    };
    output::rows(&columns, parts.iter().map(row), "no jobs")?;
    if !samples.is_empty() {
        output::say("")?;
        let row = |sample: &super::source::Sample| {
            let due = sample.due_at_ms.map_or_else(|| "now".to_owned(), |at| relative(at, now()));
            [name(&sample.part), due, sample.due_as.clone(), sample.payload.clone()]
        };
        output::rows(&["PART", "DUE", "READ FROM", "PAYLOAD"], samples.iter().map(row), "")?;
    }
    output::say("")?;
    if *unread > 0 {
        output::say(format_args!("{unread} of the jobs that were looked at cannot be read"))?;
    }
    for note in notes {
        output::say(note)?;
    }
    if let Some(first) = first {
        return output::say(format_args!("Nothing was changed. {first}"));
    }
    let follow = format!("To take each job once it is due, add --follow --yes {layout}. ");
    let follow = if *only_drains { "" } else { &*follow };
    output::say(format_args!("Nothing was changed. {follow}To take all jobs now, add --drain --yes {layout}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_source_hide_nothing() {
        assert_eq!(name("mail\u{202e}gpj\n\u{1b}[2J"), "mail\\u{202e}gpj\\n\\u{1b}[2J");
        let long = name(&format!("{}\u{200b}", "x".repeat(10 * NAME_CHARS)));
        assert!(long.ends_with("x\\u{200b}") && long.chars().count() == NAME_CHARS, "{long}");
    }
}
