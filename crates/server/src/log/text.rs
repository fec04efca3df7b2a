//! Lines of the log for people. A value cannot forge a line, nor change how the terminal shows it: hidden characters are
//! shown escaped.

use duetime_core::printable::printable_line;
use std::fmt::{self, Write};
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// The time, followed by the name of the server.
pub(super) struct Named(pub(super) String);

impl FormatTime for Named {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        SystemTime.format_time(w)?;
        write!(w, " {}", self.0)
    }
}

/// The message, and `name=value` for each field.
pub(super) fn fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        // Records from the `log` crate have their source location in fields.
        name if name.starts_with("log.") => Ok(()),
        name => write!(Escaped(writer), "{name}={value:?}"),
    };
    debug_fn(write).delimited(" ")
}

/// Writes what only shows.
struct Escaped<'a, 'b>(&'a mut Writer<'b>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&printable_line(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::lines::Lines;
    use duetime_core::printable::printable;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_value_forges_a_line() {
        let out = Out::default();
        let lines = Lines::start(out.clone());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_timer(Named("shop-1".to_owned()))
            .fmt_fields(fields())
            .with_writer(lines.clone())
            .finish();
        let hostile = "a\nFORGED \r\u{1b}[2J\u{202e}\u{2028}\u{85}\tb";
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("request", id = %hostile, other = hostile).entered();
            tracing::warn!(shown = %hostile, quoted = hostile, debug = ?hostile, number = 7, "it says {hostile}");
        });
        lines.flush(Duration::from_secs(60));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.ends_with('\n') && printable(text.trim_end()).all(|(_, is_hidden)| !is_hidden), "{text:?}");
        let shown = r"a\nFORGED \r\u{1b}[2J\u{202e}\u{2028}\u{85}\tb";
        assert!(text.contains(&format!("it says {shown} shown={shown} quoted=\"a\\n")), "{text}");
        assert!(text.contains(&format!("id={shown}")) && text.contains("number=7"), "{text}");
    }
}
