//! Untrusted text: characters that are invisible, or change how other text looks, are shown as their numbers.

use duetime_core::printable::printable_lines;
pub(super) use duetime_core::printable::{printable_json as json, printable_lines as visible};
use maud::{Markup, html};

/// Deepest indentation, so that nested values stay short.
const INDENT_MAX: usize = 32;

/// Text from strangers, with hidden characters as their numbers.
pub(super) fn shown(text: &str) -> Markup {
    html! { bdi { (printable_lines(text)) } }
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
        assert_eq!(text, "<bdi>&lt;b onclick='x'&gt;\\u{202e}\\u{0}\\u{7f}\\u{200b}&amp;\n</bdi>");
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
