//! Untrusted text: characters that are invisible, or change how other text looks, are shown as their numbers.

use maud::{Markup, html};
use std::fmt::Write;

/// Deepest indentation, so that nested values stay short.
const INDENT_MAX: usize = 32;

/// Whether a character is not seen, or changes how other text is seen.
fn is_hidden(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\n' | '\t');
    is_control
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The same in a text. What joins two emoji to one is seen.
fn hidden(text: &str) -> impl Iterator<Item = (char, bool)> {
    let is_emoji =
        |character: char| matches!(character, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}');
    let mut before = None;
    text.char_indices().map(move |(at, character)| {
        let joins =
            character == '\u{200d}' && before.is_some_and(is_emoji) && text[at..].chars().nth(1).is_some_and(is_emoji);
        before = Some(character);
        (character, is_hidden(character) && !joins)
    })
}

/// Text from strangers, with hidden characters as their numbers.
pub(super) fn shown(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// The same as plain text.
pub(super) fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for (character, is_hidden) in hidden(text) {
        if is_hidden {
            let _ = write!(seen, "\\u{{{:x}}}", u32::from(character));
        } else {
            seen.push(character);
        }
    }
    seen
}

/// JSON from strangers, with hidden characters escaped: it still means the same.
pub(super) fn json(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    // Strings contain no raw control characters, so this is space between values.
    for (character, is_hidden) in hidden(text).filter(|(character, _)| *character != '\r') {
        if is_hidden {
            let _ = write!(seen, "\\u{:04x}", u32::from(character));
        } else {
            seen.push(character);
        }
    }
    seen
}

/// JSON with a line for each value. Nothing else changes: numbers keep all their digits.
pub(super) fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' => {
                while characters.next_if(|next| matches!(next, ' ' | '\t' | '\r' | '\n')).is_some() {}
                text.push(character);
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(character);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                in_string = character == '"';
                text.push(character);
            }
        }
    }
    text
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth.min(INDENT_MAX)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_in_text_or_turns_it() {
        let text = shown("<b onclick='x'>\u{202e}\u{0}\u{7f}\u{200b}&\n").into_string();
        assert_eq!(json("{\"a\": \"\u{202e}\u{7f}\"\r\n}\n"), "{\"a\": \"\\u202e\\u007f\"\n}\n");
        assert_eq!(text, "<bdi>&lt;b onclick='x'&gt;\\u{202e}\\u{0}\\u{7f}\\u{200b}&amp;\n</bdi>");
    }

    #[test]
    fn emoji_stay_joined() {
        let family = "👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥";
        assert_eq!(visible(family), family);
        assert_eq!(json(family), family);
        for (text, seen) in
            [("a\u{200d}b", "a\\u{200d}b"), ("👩\u{200d}", "👩\\u{200d}"), ("\u{200d}👩", "\\u{200d}👩")]
        {
            assert_eq!(visible(text), seen);
        }
    }

    #[test]
    fn json_is_indented_and_else_unchanged() {
        let text = r#"{ "a":[1.0000000000000000001,{"b" : "x,{\"[\\"}],"c":{},"d":[ ],"e":"\u00e9"}"#;
        let lines = [
            "{",
            "  \"a\": [",
            "    1.0000000000000000001,",
            "    {",
            r#"      "b": "x,{\"[\\""#,
            "    }",
            "  ],",
            "  \"c\": {},",
            "  \"d\": [],",
            "  \"e\": \"\\u00e9\"",
            "}",
        ];
        assert_eq!(indented(text), lines.join("\n"));
        for bare in ["7", "\"[,]\"", "null", "[]"] {
            assert_eq!(indented(bare), bare);
        }
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(indented(&deep).len() < 2_000_000);
    }
}
