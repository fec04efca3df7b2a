//! Running programs: each call is shown as a line that can be copied into a shell, and its failure becomes a message.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::repo;

/// The cargo that runs us, called in the repository's root.
pub(crate) fn cargo<I>(arguments: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(repo::root());
    command
}

/// The same command in a separate network namespace, if this machine allows one. A killed server restarts on its port, which another
/// run in the same network may have taken.
pub(crate) fn in_own_network(command: Command) -> Command {
    let script = "ip link set lo up && exec \"$0\" \"$@\"";
    let alone = |program: &OsStr| {
        let mut alone = Command::new("unshare");
        alone.args(["--net", "sh", "-c", script]).arg(program);
        alone
    };
    if !succeeds(alone("true".as_ref())) {
        println!("cannot create a network namespace: run nothing else that starts servers at the same time");
        return command;
    }
    let mut alone = alone(command.get_program());
    alone.args(command.get_args()).current_dir(repo::root());
    for (name, value) in command.get_envs() {
        value.map(|value| alone.env(name, value));
    }
    alone
}

/// Runs `command` with our own input and output, and fails unless it exits with 0.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    announce(&command);
    let status = command.status().map_err(|error| unstarted(&command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", shell_line(&command))) }
}

/// Like [`run`], and passes each line of standard output to `look` once it has been shown.
pub(crate) fn run_watched(mut command: Command, mut look: impl FnMut(&str)) -> Result<(), String> {
    announce(&command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| unstarted(&command, &error))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("{line}");
            look(&line);
        }
    }
    let status = child.wait().map_err(|error| unstarted(&command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", shell_line(&command))) }
}

/// Runs `command` silently and returns its standard output.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| unstarted(&command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", shell_line(&command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|error| format!("`{}` printed what is not UTF-8: {error}", shell_line(&command)))
}

/// Whether `command` can be started and exits with 0; its output is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn announce(command: &Command) {
    println!("$ {}", shell_line(command));
}

fn unstarted(command: &Command, error: &std::io::Error) -> String {
    format!("`{}` could not be run: {error}", shell_line(command))
}

/// The command as one would type it: our environment settings, the program without its folder, the arguments.
fn shell_line(command: &Command) -> String {
    let settings = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.to_string_lossy(), quoted(&value?.to_string_lossy()))));
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args()).map(|word| quoted(&word.to_string_lossy()));
    settings.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/usr/bin/env");
        command.args(["-a", "b c"]).env("FLAGS", "-D warnings");
        assert_eq!(shell_line(&command), "FLAGS='-D warnings' env -a 'b c'");
    }

    #[test]
    fn a_failed_command_is_an_error_and_its_output_was_seen() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; exit 3"]);
        let mut seen = Vec::new();
        let error = run_watched(command, |line| seen.push(line.to_owned())).unwrap_err();
        assert!(error.contains("exit status: 3"), "{error}");
        assert_eq!(seen, ["one"]);
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!succeeds(Command::new("/nonexistent/program")));
    }
}
