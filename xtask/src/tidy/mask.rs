//! Rust text with its comments, strings and characters blanked, so that a search finds code only.
//!
//! Every byte keeps its place and every line its number. Text that does not end what it opens is blanked to its end.

/// Blanked text.
pub(crate) struct Masked {
    text: String,
}

impl Masked {
    pub(crate) fn new(source: &str) -> Self {
        Self::blanked(source, |_| true)
    }

    /// Only comments are blanked.
    pub(crate) fn without_comments(source: &str) -> Self {
        Self::blanked(source, |first| first == b'/')
    }

    /// Blanks the text that begins with such a byte.
    fn blanked(source: &str, is_blanked: impl Fn(u8) -> bool) -> Self {
        let mut text = source.as_bytes().to_vec();
        let mut at = 0;
        while at < text.len() {
            let end = at + opaque_length(&source.as_bytes()[at..], previous(&text, at));
            let blanks = is_blanked(text[at]);
            for byte in &mut text[at..end] {
                if blanks && *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end.max(at + 1);
        }
        // Blanking starts and ends between characters, so nothing is lost here.
        Self { text: String::from_utf8_lossy(&text).into_owned() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The number, from 1, of the line that contains the byte.
    pub(crate) fn line(&self, offset: usize) -> usize {
        1 + self.text[..offset].matches('\n').count()
    }

    /// The positions of `word` as a whole word.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| is_word_byte(*byte));
        let bytes = self.text.as_bytes();
        let stands_alone = move |at: &usize| {
            !is_word(at.checked_sub(1).and_then(|i| bytes.get(i))) && !is_word(bytes.get(at + word.len()))
        };
        self.text.match_indices(word).map(|(at, _)| at).filter(stands_alone)
    }

    /// The end of the bracketed text whose opening bracket is at `open`.
    pub(crate) fn end_of_brackets(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, byte) in self.text.bytes().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        }
        self.text.len()
    }
}

pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn previous(text: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).and_then(|at| text.get(at)).copied()
}

/// The length of the comment, string or character that begins here; 0 if none does.
fn opaque_length(rest: &[u8], previous: Option<u8>) -> usize {
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => 1 + until_quote(&rest[1..], b'"'),
        [b'\'', ..] => character(rest),
        [b'r', b'"' | b'#', ..] if !is_prefix_taken(previous) => raw_string(&rest[1..]).map_or(0, |length| 1 + length),
        [b'b' | b'c', b'r', b'"' | b'#', ..] => raw_string(&rest[2..]).map_or(0, |length| 2 + length),
        _ => 0,
    }
}

/// Whether an `r` here is the end of a name.
fn is_prefix_taken(previous: Option<u8>) -> bool {
    previous.is_some_and(is_word_byte)
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        match rest[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Up to and with the quote that is not escaped.
fn until_quote(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character, unless the quote begins a lifetime or label.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return 1 + until_quote(&rest[1..], b'\'');
    }
    // One character of up to four bytes, then the closing quote.
    let is_end = |at: &usize| rest.get(*at) == Some(&b'\'');
    let Some(end) = (2..=5).find(is_end) else { return 0 };
    let is_one = std::str::from_utf8(&rest[1..end]).is_ok_and(|text| text.chars().count() == 1);
    if is_one { end + 1 } else { 0 }
}

/// From the `#`s or the quote of a raw string to its end; none if this is a raw name.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = &rest[hashes + 1..];
    let length = body.windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| hashes + 1 + length + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y") + g"#, "f(      ) + g"),
            ("r\"a\\\" + b", "      + b"),
            ("r#\"a\"b\"# + c", "         + c"),
            ("br\"a\" + c", "      + c"),
            ("'x' + '\\'' + '\\u{1F600}'", "    +      +            "),
            ("&'a str", "&'a str"),
            ("'é' + b", "     + b"),
            ("r#type + s", "r#type + s"),
            ("\"open", "     "),
            ("\"ends with \\", "             "),
        ];
        for (source, expected) in cases {
            assert_eq!(Masked::new(source).text().trim_end(), expected.trim_end(), "{source}");
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let masked = Masked::new("\"a\nb\"\n/*\n*/ here");
        let at = masked.words("here").next().unwrap();
        assert_eq!(masked.line(at), 4);
    }

    #[test]
    fn words_stand_alone() {
        let masked = Masked::new("sleep sleepy asleep x.sleep(");
        assert_eq!(masked.words("sleep").collect::<Vec<_>>(), [0, 22]);
    }

    #[test]
    fn brackets_end_where_they_close() {
        let masked = Masked::new("mod a { fn b() {} } fn c() {}");
        assert_eq!(masked.end_of_brackets(6), 19);
        assert_eq!(masked.end_of_brackets(26), 29);
    }
}
