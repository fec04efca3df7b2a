//! Where `duetime serve` has its options from: a file, the environment and flags, in this order of rising precedence.
//!
//! What options there are is said once, by clap's definition of `serve`: the file's keys are its flags, and a value of a
//! file is read by the same parser as one of a flag. What was read goes back into clap as defaults, so that a command
//! never sees where a value came from. All that is wrong is found, not only the first.

mod check;
mod entries;
mod example;
mod file;
mod keys;
mod mask;
mod origin;
mod relations;
mod settings;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use example::example;
pub(crate) use mask::mask;
pub(crate) use origin::Origin;
pub(crate) use settings::{Mistake, Setting, Settings};

use clap::builder::{OsStr, Resettable};
use clap::{Arg, ArgMatches, Command, Id};
use std::ffi::OsString;
use std::path::PathBuf;

/// The subcommand whose options are meant.
const SERVE: &str = "serve";
/// The option that names the file; the commands that have it are configured.
const FILE: &str = "config";

/// Which file the options come from.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Read options from this file; by default from duetime.toml in this folder, else in /etc/duetime, where there is
    /// one. A variable comes before the file, and a flag before both
    #[arg(id = FILE, long, value_name = "FILE", env = "DUETIME_CONFIG")]
    pub(crate) file: Option<PathBuf>,
}

/// A command line with all that counts for it.
pub(crate) struct Parsed {
    /// As clap matched it, with values of the file and the environment as defaults.
    pub(crate) matches: ArgMatches,
    /// Where the options of `serve` come from; `None` for commands that have none.
    pub(crate) settings: Option<Settings>,
}

/// What variables and default files are: the process's, or a test's.
pub(crate) struct Surroundings<'a> {
    /// The value of a variable.
    pub(crate) variable: &'a dyn Fn(&std::ffi::OsStr) -> Option<OsString>,
    /// Where a file is looked for, in order.
    pub(crate) files: &'a [&'a str],
}

impl Surroundings<'_> {
    /// The process's own.
    pub(crate) fn own() -> Self {
        Self { variable: &|name| std::env::var_os(name), files: &["duetime.toml", "/etc/duetime/duetime.toml"] }
    }

    /// A variable that is empty is not set.
    fn set(&self, name: &std::ffi::OsStr) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }
}

/// Matches a command line.
///
/// # Errors
/// What clap has to say: that the line is wrong, or the help that was asked for.
pub(crate) fn parse(command: &Command, line: &[OsString], around: &Surroundings<'_>) -> Result<Parsed, clap::Error> {
    let mut command = command.clone();
    command.build();
    let serve = command.find_subcommand(SERVE).expect("the command line has `serve`");
    let relaxed = relax_all(command.clone(), serve);
    // The original shows help in full, with the names of variables.
    let matches = match relaxed.clone().try_get_matches_from(line) {
        Err(error) if !error.use_stderr() => return Err(command.try_get_matches_from(line).err().unwrap_or(error)),
        matches => matches?,
    };
    let (path, chosen) = chosen(&matches);
    if !is_configured(&command, &path) {
        return Ok(Parsed { matches: command.try_get_matches_from(line)?, settings: None });
    }
    let mut settings = Settings::read(serve, chosen, around);
    let fed = feed(relaxed, &path, &settings);
    let matches = fed.try_get_matches_from(line)?;
    settings.finish(serve, self::chosen(&matches).1);
    Ok(Parsed { matches, settings: Some(settings) })
}

/// The names of the subcommands that were chosen, and what was matched in the last.
fn chosen(matches: &ArgMatches) -> (Vec<String>, &ArgMatches) {
    let (mut path, mut last) = (Vec::new(), matches);
    while let Some((name, inner)) = last.subcommand() {
        path.push(name.to_owned());
        last = inner;
    }
    (path, last)
}

fn is_configured(command: &Command, path: &[String]) -> bool {
    let last = path.iter().try_fold(command, |command, name| command.find_subcommand(name));
    last.is_some_and(has_file)
}

fn has_file(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == FILE)
}

/// Commands that are configured, without what is judged here: what excludes or needs what, and the environment.
fn relax_all(command: Command, serve: &Command) -> Command {
    let of_serve = |arg: &Arg| serve.get_arguments().any(|other| other.get_id() == arg.get_id());
    let relaxed = |arg: Arg| if of_serve(&arg) { relaxed(arg) } else { arg };
    let command = if has_file(&command) { command.mut_args(relaxed) } else { command };
    command.mut_subcommands(|inner| relax_all(inner, serve))
}

fn relaxed(arg: Arg) -> Arg {
    arg.requires(Resettable::<Id>::Reset).conflicts_with(Resettable::<Id>::Reset).env(Resettable::<OsStr>::Reset)
}

/// The command with these values as its defaults.
fn feed(command: Command, path: &[String], settings: &Settings) -> Command {
    let Some((name, rest)) = path.split_first() else {
        return command.mut_args(|arg| match settings.default_for(arg.get_id()) {
            Some(values) => arg.default_values(values.iter().map(OsStr::from)),
            None => arg,
        });
    };
    command.mut_subcommand(name, |inner| feed(inner, rest, settings))
}
