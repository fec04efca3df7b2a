//! The log: on standard error, as text or JSON.
//!
//! Nobody who logs waits or fails: lines go through [`Lines`], which has its own thread, and what that cannot write
//! is lost and counted. A panic is a line like any other.

mod json;
mod lines;
mod text;

use crate::cli::terminal::is_colourful;
use clap::ValueEnum;
use lines::Lines;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;

/// How long the process waits for lines to be written when it ends.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Lines that wait to be written to standard error.
static LINES: OnceLock<Lines> = OnceLock::new();

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Logs what a server does, with its name in each line.
pub(crate) fn of_server(filter: EnvFilter, format: Format, instance: &str) {
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines()).log_internal_errors(false);
    // Fails only if logging was set up before; that log stays in use.
    let _ = match format {
        Format::Text => log
            .with_ansi(is_colourful(&std::io::stderr()))
            .with_timer(text::Named(instance.to_owned()))
            .fmt_fields(text::fields())
            .try_init(),
        Format::Json => log.fmt_fields(JsonFields::new()).event_format(json::Json(instance.to_owned())).try_init(),
    };
    std::panic::set_hook(Box::new(panicked));
}

/// Logs the library's warnings to the user of a command, such as that a worker waits for its server. Warnings about the
/// setup of a Redis are left to servers, so that not every command of a crontab repeats them.
pub(crate) fn of_command() {
    let filter = EnvFilter::new("warn,duetime::client::redis=error");
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines()).log_internal_errors(false);
    let log = log.with_ansi(is_colourful(&std::io::stderr())).with_target(false).fmt_fields(text::fields());
    let _ = log.try_init();
}

/// The number of lines that standard error did not accept.
pub(crate) fn lines_lost() -> u64 {
    LINES.get().map_or(0, Lines::lost)
}

/// Waits until all lines are written, but not for long. For the end of the process.
pub(crate) fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(LEAVE_MAX);
    }
}

/// Writes to standard error, but gives up after a while; never panics. For the last words of a process.
pub(crate) fn last_words(text: &str) {
    let lines = Lines::start(std::io::stderr());
    lines.add(text.as_bytes());
    lines.flush(LEAVE_MAX);
}

fn lines() -> Lines {
    LINES.get_or_init(|| Lines::start(std::io::stderr())).clone()
}

fn panicked(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let place = panic.location().map(ToString::to_string);
    let payload = panic.payload();
    let message = payload.downcast_ref().copied().or_else(|| payload.downcast_ref().map(String::as_str));
    let message = message.unwrap_or("a panic without a message");
    // If RUST_BACKTRACE asks for one.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread, place, backtrace, "panicked: {message}");
}
