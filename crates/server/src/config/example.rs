//! A file with all keys, as comments.

use super::keys::{key, options};
use super::value::{is_number, is_switch, takes_many};
use clap::{Arg, Command};
use std::fmt::Write;

/// Characters of a line.
const WIDTH: usize = 100;

const HEAD: &str = "# The configuration of `duetime serve`: the file that --config or DUETIME_CONFIG names, else ./duetime.toml, else
# /etc/duetime/duetime.toml. Variables override this file, and flags override both.
#
# A key is the long flag with _ instead of -. A table is a prefix: allow_private under [webhook] is webhook_allow_private,
# and url under [ledger] is ledger. Check it with `duetime config check`; `duetime config show` prints the values in use.
#
# Values below are the defaults, or placeholders for options without one.
";

/// The text of such a file, for this definition of `serve`.
pub(crate) fn example(serve: &Command) -> String {
    let mut text = HEAD.to_owned();
    let mut heading = None;
    for arg in options(serve) {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            heading.iter().for_each(|heading| write!(text, "\n## {heading}\n").expect("a string takes all"));
        }
        text.push('\n');
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        for line in wrap(&help) {
            text.push_str(format!("# {line}").trim_end());
            text.push('\n');
        }
        if let Some(name) = arg.get_env() {
            writeln!(text, "# Variable: {}", name.to_string_lossy()).expect("a string takes all");
        }
        let words: Vec<_> = arg.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
        if !is_switch(arg) && !words.is_empty() {
            writeln!(text, "# One of: {}", words.join(", ")).expect("a string takes all");
        }
        writeln!(text, "#{} = {}", key(arg), value(arg)).expect("a string takes all");
    }
    text
}

/// The default, or an example value.
fn value(arg: &Arg) -> String {
    if is_switch(arg) {
        return "false".to_owned();
    }
    let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let name =
        || arg.get_value_names().and_then(|names| names.first()).map_or("VALUE", |name| name.as_str()).to_owned();
    match default {
        Some(number) if is_number(arg) => number,
        Some(text) => quoted(&text),
        None if takes_many(arg) => format!("[{}]", quoted(&name())),
        None => quoted(&name()),
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn wrap(help: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in help.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}
