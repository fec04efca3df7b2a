//! The log: on standard error, as text or JSON.

use super::Error;
use super::args::{Args, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Begins to log.
pub(super) fn start(args: &Args) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&args.log_level).map_err(|error| Error::LogLevel(error.to_string()))?;
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // Fails only where a log was begun before, which then goes on.
    let _ = match args.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}
