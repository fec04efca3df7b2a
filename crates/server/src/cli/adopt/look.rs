//! The result of a look.

use super::source::Look;
use crate::cli::exit::Result;
use crate::cli::output;
use crate::cli::time::{now, relative};

pub(super) fn show(look: &Look, json: bool) -> Result {
    if json {
        return output::json(look);
    }
    let Look { layout, why, parts, samples, unread, notes } = look;
    output::say(format_args!("recognised: {layout} ({why})\n"))?;
    let row = |part: &super::source::Part| {
        let left = match &part.why_left {
            Some(why) if part.left > 0 => format!("{} ({why})", part.left),
            _ => part.left.to_string(),
        };
        [part.name.clone(), part.due.to_string(), part.later.to_string(), left]
    };
    output::rows(&["PART", "DUE", "LATER", "NOT TAKEN"], parts.iter().map(row), "no jobs")?;
    if !samples.is_empty() {
        output::say("")?;
        let row = |sample: &super::source::Sample| {
            let due = sample.due_at_ms.map_or_else(|| "now".to_owned(), |at| relative(at, now()));
            [sample.part.clone(), due, sample.due_as.clone(), sample.payload.clone()]
        };
        output::rows(&["PART", "DUE", "READ FROM", "PAYLOAD"], samples.iter().map(row), "")?;
    }
    output::say(format_args!("\n{unread} of the sampled jobs cannot be read"))?;
    for note in notes {
        output::say(note)?;
    }
    output::say(format_args!(
        "Nothing was changed. To take each job once it is due, add --follow --yes {layout}. To take all jobs now, add \
         --drain --yes {layout}"
    ))
}
