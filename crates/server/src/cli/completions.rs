//! `duetime completions` and `duetime man`: files for packagers and shells.

use super::exit::{Failure, Result};
use clap::Command;
use clap_complete::{Shell, generate};
use std::io::Write;
use std::path::PathBuf;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime completions bash > ~/.local/share/bash-completion/completions/duetime
  duetime completions zsh > ~/.zfunc/_duetime
  duetime completions fish > ~/.config/fish/completions/duetime.fish")]
pub(crate) struct Args {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write a manual page for every command into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Folder, created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `completions`.
pub(crate) fn run(args: &Args, command: &mut Command) -> Result {
    let mut script = Vec::new();
    generate(args.shell, command, "duetime", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Runs `man`.
pub(crate) fn man(args: &Man, command: Command) -> Result {
    std::fs::create_dir_all(&args.folder)
        .map_err(|error| Failure::error(format!("cannot create the folder {}: {error}", args.folder.display())))?;
    Ok(clap_mangen::generate_to(command, &args.folder)?)
}
