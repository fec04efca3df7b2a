//! Options that every source has.

use crate::cli::target::Target;

/// Options that every source has.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Take each job once it is due, until stopped; the old code may keep pushing
    #[arg(long, conflicts_with = "drain", requires = "yes")]
    pub(super) follow: bool,
    /// Take all jobs now, then exit; the old code can no longer change them
    #[arg(long, requires = "yes")]
    pub(super) drain: bool,
    /// Confirm the layout that the look recognised
    #[arg(long, value_name = "LAYOUT")]
    pub(super) yes: Option<String>,
    #[command(flatten)]
    pub(super) target: Target,
}
