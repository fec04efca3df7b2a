//! What a terminal shows.

use std::io::IsTerminal;

/// True if this output may have colours: it is a terminal, and NO_COLOR is not set.
pub(crate) fn is_colourful(out: &impl IsTerminal) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Makes a text safe to show on a terminal. Characters that would move the cursor, change colours or reorder letters are
/// replaced.
pub(crate) fn safe(text: &str) -> String {
    text.chars().map(|letter| if is_shown(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Whether a terminal just shows this: no control character but the end of a line and a tabulator, and no other that one cannot
/// see: of the direction of writing, of lines, marks and tags.
pub(super) fn is_shown(letter: char) -> bool {
    match letter {
        '\n' | '\t' => true,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => false,
        letter => !letter.is_control(),
    }
}
