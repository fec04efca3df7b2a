//! The commands as the help groups them by purpose.

use clap::Command;
use std::fmt::Write;

/// Every command is in one of these groups.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Jobs", &["push", "list", "get", "why", "events", "update", "reschedule", "run", "cancel", "retry", "delete"]),
    ("Queues, schedules and locks", &["queues", "peek", "schedules", "lock", "locks"]),
    (
        "Work",
        &["work", "workers", "take", "reserve", "complete", "fail", "release", "park", "extend", "progress", "settle"],
    ),
    ("The server", &["serve", "beanstalk", "config", "token", "status", "top", "health", "metrics", "doctor"]),
    ("The store", &["backup", "export", "import", "migrate", "adopt"]),
    ("Try out and install", &["demo", "bench", "completions", "man", "help"]),
];

/// The command with a help that shows its subcommands in groups; one without a group comes last.
pub(super) fn grouped(command: Command) -> Command {
    let shown = |name: &str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        about.unwrap_or_else(|| "Print this help, or that of a command".to_owned())
    };
    let mut text = String::new();
    for (heading, names) in GROUPS {
        writeln!(text, "{heading}:").expect("a string takes all");
        names.iter().for_each(|name| writeln!(text, "  {name:<12} {}", shown(name)).expect("a string takes all"));
        text.push('\n');
    }
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<_> = command.get_subcommands().filter(|command| !is_grouped(command.get_name())).collect();
    if !others.is_empty() {
        text.push_str("More:\n");
        for other in others {
            let about = other.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(text, "  {:<12} {about}", other.get_name()).expect("a string takes all");
        }
        text.push('\n');
    }
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}");
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group() {
        let command = crate::cli::command();
        let names: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        for command in command.get_subcommands() {
            let count = names.iter().filter(|name| command.get_name() == ***name).count();
            assert_eq!(count, 1, "{}", command.get_name());
        }
        for name in names {
            assert!(*name == "help" || command.find_subcommand(name).is_some(), "{name}");
        }
    }
}
