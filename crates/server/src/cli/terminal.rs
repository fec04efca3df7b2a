//! What a terminal shows.

use std::io::IsTerminal;

/// True if this output may have colours: it is a terminal, and NO_COLOR is not set.
pub(crate) fn is_colourful(out: &impl IsTerminal) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
