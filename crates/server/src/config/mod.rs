//! The configuration of `duetime serve`: a file, the environment and flags, in rising precedence.
//!
//! The options are defined once, by clap's definition of `serve`: the file's keys are its flags, and the parser of a flag
//! also reads the value in a file. Values from the file and the environment are passed to clap as flags, so a command never
//! sees where a value came from. All mistakes are reported, not only the first.

mod check;
mod example;
mod file;
mod keys;
mod option_values;
mod settings;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use example::example;
pub(crate) use option_values::Mistake;
#[cfg(test)]
pub(crate) use option_values::Origin;
pub(crate) use settings::{Setting, Settings};

use clap::builder::{OsStr, Resettable};
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;
use std::path::PathBuf;

/// The subcommand whose options are used.
const SERVE: &str = "serve";
/// The option of `serve` with which neither a file nor the environment is read. It is no key of a file.
const TEST: &str = "test";
/// The option that names the file; the commands that have it are configured.
const FILE: &str = "config";

/// The file that the options come from.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Configuration file [default: duetime.toml in the current folder, else /etc/duetime/duetime.toml, if one exists].
    /// Variables override the file, flags override both
    #[arg(id = FILE, long, value_name = "FILE", env = "DUETIME_CONFIG")]
    pub(crate) file: Option<PathBuf>,
}

/// A command line with all values from the file and the environment.
pub(crate) struct Parsed {
    /// As matched by clap, with values of the file and the environment as defaults.
    pub(crate) matches: ArgMatches,
    /// The sources of the options of `serve`; `None` for commands that have none.
    pub(crate) settings: Option<Settings>,
}

/// The environment variables and default files of the process, or of a test.
pub(crate) struct Surroundings<'a> {
    /// The value of a variable.
    pub(crate) variable: &'a dyn Fn(&std::ffi::OsStr) -> Option<OsString>,
    /// The paths that are searched for a file, in order.
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
/// clap's error for an invalid line, or the requested help.
pub(crate) fn parse(command: &Command, line: &[OsString], around: &Surroundings<'_>) -> Result<Parsed, clap::Error> {
    let mut command = command.clone();
    command.build();
    let serve = command.find_subcommand(SERVE).expect("the command line has `serve`");
    let bare = without_variables(command.clone(), serve);
    // The original shows help in full, with the names of variables.
    let matches = match bare.clone().try_get_matches_from(line) {
        Err(error) if !error.use_stderr() => return Err(command.try_get_matches_from(line).err().unwrap_or(error)),
        matches => matches?,
    };
    if !is_configured(&command, &matches) {
        return Ok(Parsed { matches, settings: None });
    }
    let nothing = Surroundings { variable: &|_| None, files: &[] };
    let around = if is_test(chosen(&matches)) { &nothing } else { around };
    let mut settings = Settings::read(serve, chosen(&matches), around);
    let matches = bare.try_get_matches_from(line.iter().cloned().chain(settings.flags(serve)))?;
    settings.finish(serve, chosen(&matches));
    Ok(Parsed { matches, settings: Some(settings) })
}

/// The matches of the innermost subcommand.
fn chosen(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| chosen(inner))
}

fn is_test(matches: &ArgMatches) -> bool {
    matches!(matches.try_get_one(TEST), Ok(Some(true)))
}

/// Whether the last of the subcommands is configured. Matches do not tell: outside of debug builds they know no names of options.
fn is_configured(command: &Command, matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((name, inner)) => command.find_subcommand(name).is_some_and(|command| is_configured(command, inner)),
        None => command.get_arguments().any(|arg| arg.get_id() == FILE),
    }
}

/// Commands that are configured, without the environment, which is read here.
fn without_variables(command: Command, serve: &Command) -> Command {
    let is_of_serve = |arg: &Arg| serve.get_arguments().any(|other| other.get_id() == arg.get_id());
    let bare = |arg: Arg| if is_of_serve(&arg) { arg.env(Resettable::<OsStr>::Reset) } else { arg };
    let is_configured = command.get_arguments().any(|arg| arg.get_id() == FILE);
    let command = if is_configured { command.mut_args(bare) } else { command };
    command.mut_subcommands(|inner| without_variables(inner, serve))
}
