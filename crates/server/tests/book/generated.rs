//! Pages generated from the program. The text above the marker is written by hand.
//!
//! `cargo xtask book` regenerates the text below it, as does `GOLDEN=write`.

use super::{root, text};
use std::process::Command;

const MARKER: &str = "<!-- What follows is written by `cargo xtask book`. -->\n";
/// The options that most commands have. They are shown once.
const SHARED: &str = "Where the jobs are:";

#[test]
fn the_command_line_is_up_to_date() {
    let mut page = format!("\n## Connection options\n\n{}", fenced("text", &shared(&help(&["list"]))));
    let mut group = String::new();
    for (heading, command) in commands(&help(&[])) {
        if command == "help" {
            continue;
        }
        if heading != group {
            page += &format!("\n## {heading}\n");
            group = heading;
        }
        page += &section(&[&command]);
        for (_, inner) in commands(&help(&[&command])) {
            if inner != "help" {
                page += &section(&[&command, &inner]);
            }
        }
    }
    compare("docs/reference/command-line.md", &page);
}

#[test]
fn the_configuration_is_up_to_date() {
    let page = format!("\n{}", fenced("toml", &duetime(&["config", "example"])));
    compare("docs/reference/configuration.md", &page);
}

/// Compares the generated text with the page, or writes it.
#[track_caller]
fn compare(page: &str, generated: &str) {
    let old = text(page);
    let (by_hand, old_generated) = old.split_once(MARKER).expect("the marker");
    if std::env::var_os("GOLDEN").is_some_and(|what| what == "write") {
        return std::fs::write(root().join(page), format!("{by_hand}{MARKER}{generated}")).unwrap();
    }
    assert!(old_generated == generated, "{page} is out of date: run `cargo xtask book` and read the diff");
}

/// A command with its help, except for the options that most have.
fn section(command: &[&str]) -> String {
    let help = help(command);
    let shown = help.replace(&shared(&help), "");
    let shown = shown.replace("\n\n\n", "\n\n");
    format!("\n### duetime {}\n\n{}", command.join(" "), fenced("text", &shown))
}

/// The paragraph of the options that most commands have, with its heading; empty if there is none.
fn shared(help: &str) -> String {
    let Some(at) = help.find(SHARED) else { return String::new() };
    // Options are indented, also after a blank line.
    let lines = help[at..].split_inclusive('\n').enumerate();
    lines.take_while(|(index, line)| *index == 0 || line.starts_with([' ', '\n'])).map(|(_, line)| line).collect()
}

/// The commands that a help lists, each with the heading that it is under.
fn commands(help: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut heading = "";
    for line in help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1) {
        if let Some(group) = line.strip_suffix(':').filter(|_| line.starts_with(char::is_alphabetic)) {
            heading = group;
        } else if let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_once("  ")) {
            if heading == "Options" || heading == "Arguments" {
                break;
            }
            if name.0.starts_with(|c: char| c.is_ascii_lowercase()) {
                found.push((heading.to_owned(), name.0.to_owned()));
            }
        }
    }
    found
}

fn help(command: &[&str]) -> String {
    duetime(&[command, &["--help"]].concat())
}

/// The program's output, without spaces at ends of lines.
fn duetime(arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_duetime")).args(arguments).env_clear().output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout).unwrap();
    printed.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn fenced(language: &str, text: &str) -> String {
    format!("```{language}\n{}\n```\n", text.trim_end())
}
