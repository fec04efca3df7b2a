//! The log: on standard error, as text or JSON, with the instance in each line.

use super::Error;
use super::args::{Args, LogFormat};
use super::instance::Instance;
use super::line::Json;
use crate::cli::is_colourful;
use std::fmt;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Begins to log.
pub(super) fn start(args: &Args) -> Result<(), Error> {
    let instance = args.instance.clone().unwrap_or_else(Instance::of_process);
    let log = tracing_subscriber::fmt().with_env_filter(filter(args)?).with_writer(std::io::stderr);
    // Fails only where a log was begun before, which then goes on.
    let _ = match args.log_format {
        LogFormat::Text => log.with_ansi(is_colourful(&std::io::stderr())).with_timer(Named(instance)).try_init(),
        LogFormat::Json => log.fmt_fields(JsonFields::new()).event_format(Json(instance)).try_init(),
    };
    Ok(())
}

/// What is logged.
pub(super) fn filter(args: &Args) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(&args.log_level).map_err(|error| Error::LogLevel(error.to_string()))
}

/// The time, and the instance behind it.
struct Named(Instance);

impl FormatTime for Named {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        SystemTime.format_time(w)?;
        write!(w, " {}", self.0.name())
    }
}
