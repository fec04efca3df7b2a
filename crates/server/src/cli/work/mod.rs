//! Being written.
use super::exit::Result;
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) async fn run(_: Args) -> Result {
    Ok(())
}
