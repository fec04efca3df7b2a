//! Text from strangers as people may see it. Each edge chooses what it shows instead of a hidden character; no other code
//! decides which characters are hidden.
//!
//! Hidden are the characters that one cannot see, or that change how other text looks: control characters, separators of
//! lines, marks of direction, characters without width, tags, fillers and selectors of variants. Two names that look the same
//! are then the same, and no text forges a line or moves the cursor. Halves of surrogate pairs cannot occur in a `str`.

use std::fmt::Write;

/// The characters of a text, and whether each is hidden. What joins or colours emoji, and what selects a variant of a Chinese
/// character, is seen and therefore not hidden.
pub fn printable(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut before = None;
    text.char_indices().map(move |(at, character)| {
        let last = before.replace(character);
        let next = || text[at + character.len_utf8()..].chars().next();
        let is_seen = match character {
            '\u{200d}' => last.is_some_and(is_emoji) && next().is_some_and(is_emoji),
            '\u{fe0e}' | '\u{fe0f}' => last.is_some_and(is_emoji) || next() == Some('\u{20e3}'),
            '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}' => last.is_some_and(is_ideograph),
            _ => !is_hidden(character),
        };
        (character, !is_seen)
    })
}

/// Text in which hidden characters, except for the end of a line and tabulators, are shown as their numbers.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    shown(text, |out, character| match character {
        '\n' | '\t' => out.push(character),
        _ => out.extend(character.escape_unicode()),
    })
}

/// Text on one line, in which hidden characters are shown as in the source of a program.
#[must_use]
pub fn printable_line(text: &str) -> String {
    shown(text, |out, character| out.extend(character.escape_default()))
}

/// JSON in which hidden characters are escaped: it still means the same. Strings in JSON contain no raw ends of lines, so those
/// are space between values, and stay.
#[must_use]
pub fn printable_json(json: &str) -> String {
    shown(json, |out, character| match character {
        '\n' | '\t' => out.push(character),
        '\r' => out.push(' '),
        _ => {
            let units = character.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"));
            units.expect("a string takes all");
        }
    })
}

fn shown(text: &str, instead: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len());
    for (character, is_hidden) in printable(text) {
        if is_hidden {
            instead(&mut out, character);
        } else {
            out.push(character);
        }
    }
    out
}

/// Control characters, separators of lines, anchors of notes, and what Unicode calls "default ignorable".
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Symbols that may have a variant in colour, and what may be joined to them.
fn is_emoji(character: char) -> bool {
    matches!(character, '©' | '®' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_in_text_or_turns_it() {
        for (what, range) in [
            ("C0", '\0'..='\u{1f}'),
            ("DEL and C1", '\u{7f}'..='\u{9f}'),
            ("soft hyphen", '\u{ad}'..='\u{ad}'),
            ("joiner of graphemes", '\u{34f}'..='\u{34f}'),
            ("Arabic mark of direction", '\u{61c}'..='\u{61c}'),
            ("fillers of Hangul", '\u{115f}'..='\u{1160}'),
            ("vowels of Khmer without shape", '\u{17b4}'..='\u{17b5}'),
            ("selectors of Mongolian", '\u{180b}'..='\u{180f}'),
            ("zero width, and marks of direction", '\u{200b}'..='\u{200f}'),
            ("separators of lines and paragraphs, and embeddings", '\u{2028}'..='\u{202e}'),
            ("word joiner, invisible operators, isolates", '\u{2060}'..='\u{206f}'),
            ("filler", '\u{3164}'..='\u{3164}'),
            ("selectors of variants", '\u{fe00}'..='\u{fe0f}'),
            ("byte order mark", '\u{feff}'..='\u{feff}'),
            ("half-width filler", '\u{ffa0}'..='\u{ffa0}'),
            ("anchors of notes", '\u{fff9}'..='\u{fffb}'),
            ("shorthand", '\u{1bca0}'..='\u{1bca3}'),
            ("music", '\u{1d173}'..='\u{1d17a}'),
            ("tags", '\u{e0000}'..='\u{e007f}'),
            ("more selectors of variants", '\u{e0100}'..='\u{e01ef}'),
        ] {
            for character in range {
                let text = format!("a{character}b");
                assert!(printable(&text).any(|(one, is_hidden)| one == character && is_hidden), "{what}: {text:?}");
                for shown in [printable_line(&text), printable_lines(&text), printable_json(&text)] {
                    let shown = shown.replace(['\n', '\t'], "");
                    assert!(printable(&shown).all(|(_, is_hidden)| !is_hidden), "{what}: {shown:?}");
                }
            }
        }
    }

    #[test]
    fn what_people_write_stays() {
        for text in [
            "Zażółć gęślą jaźń, 日本語, עברית, العربية, हिन्दी, ไทย",
            "👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} ©\u{fe0f} ☎\u{fe0e}",
            "辻\u{e0100} 神\u{fe00}",
        ] {
            assert_eq!((printable_line(text).as_str(), printable_json(text).as_str()), (text, text));
        }
        for (text, seen) in [
            ("a\u{200d}b", "a\\u{200d}b"),
            ("👩\u{200d}", "👩\\u{200d}"),
            ("\u{200d}👩", "\\u{200d}👩"),
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("辻\u{e0100}\u{e0101}", "辻\u{e0100}\\u{e0101}"),
        ] {
            assert_eq!(printable_line(text), seen);
        }
    }

    #[test]
    fn each_form_shows_what_was_hidden() {
        let text = "a\r\n\t\u{202e}\u{e0001}b";
        assert_eq!(printable_line(text), "a\\r\\n\\t\\u{202e}\\u{e0001}b");
        assert_eq!(printable_lines(text), "a\\u{d}\n\t\\u{202e}\\u{e0001}b");
        let json = "{\"a\":\r\n\t\"\u{202e}\u{e0001}\u{7f}\"}";
        assert_eq!(printable_json(json), "{\"a\": \n\t\"\\u202e\\udb40\\udc01\\u007f\"}");
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(read(json), read(&printable_json(json)));
    }
}
