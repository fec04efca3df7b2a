//! Whether every common decoder reads a JSON document. RFC 8259 (section 9) lets decoders set limits. A decoder that meets
//! something it does not read refuses the whole body, with all other jobs in it.

/// The maximum depth of nested arrays and objects. Ruby refuses 100 levels, serde_json 128, PHP 512, Python about 1,000, and
/// a payload is nested in some itself.
const DEPTH_MAX: usize = 64;
/// A number with more characters may be beyond what a double holds, also without an exponent.
const NUMBER_CHARS_PLAIN: usize = 300;

/// Whether this document is nested within [`DEPTH_MAX`], its strings are Unicode (no lone surrogate) and do not begin with
/// NUL, which PHP refuses in names, and its numbers are within the range of a double.
pub(super) fn is_plain(json: &str) -> bool {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => match behind_string(bytes, at + 1) {
                Some(behind) => {
                    at = behind;
                    continue;
                }
                None => return false,
            },
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let number = &json[at..at + bytes[at..].iter().take_while(|byte| is_part(byte)).count()];
                if !is_finite(number) {
                    return false;
                }
                at += number.len();
                continue;
            }
            _ => {}
        }
        if depth > DEPTH_MAX {
            return false;
        }
        at += 1;
    }
    true
}

fn is_finite(number: &str) -> bool {
    let is_short = number.len() <= NUMBER_CHARS_PLAIN && !number.contains(['e', 'E']);
    is_short || number.parse().is_ok_and(f64::is_finite)
}

/// The position after a string; `None` if the string is not plain.
fn behind_string(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match unit(bytes, at) {
                None => at += 2,
                Some(0) if at == begin => return None,
                Some(0xd800..0xdc00) if matches!(unit(bytes, at + 6), Some(0xdc00..0xe000)) => at += 12,
                Some(0xd800..0xe000) => return None,
                Some(_) => at += 6,
            },
            _ => at += 1,
        }
    }
}

/// The unit of UTF-16 that is escaped here, as in `\ud83d`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_decoder_reads_is_plain() {
        let (begin, end) = ("[{\"a\":".repeat(DEPTH_MAX / 2), "}]".repeat(DEPTH_MAX / 2));
        let deep = format!("{begin}1{end}");
        let wide = format!("[{}1]", "[],{},".repeat(1_000));
        let brackets = format!("\"{}\\\"{}\"", "[".repeat(1_000), "{".repeat(1_000));
        let digits = "9".repeat(308);
        for json in [
            &*deep,
            &wide,
            &brackets,
            &digits,
            "null",
            "-1.7976931348623157e308",
            "1e-400",
            r#""\ud83d\ude00 \u00e9 \\ud800 a\u0000""#,
            r#"{"\\": "\"", "b": "\u0041"}"#,
        ] {
            serde_json::from_str::<serde_json::Value>(json).unwrap();
            assert!(is_plain(json), "{json}");
        }
    }

    #[test]
    fn what_some_refuse_is_not() {
        let (begin, end) = ("[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        let (deep, very_deep) = (format!("{begin}{end}"), format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)));
        let digits = "9".repeat(5_000);
        for json in [
            &*deep,
            &very_deep,
            &digits,
            "[1, 1e400]",
            "-1E+309",
            r#""\ud800""#,
            r#"["a\udc00"]"#,
            r#""\ud83d\u0041""#,
            r#""\ud83d\\ude00""#,
            r#""\ud83d\ud83d""#,
            r#"{"\u0000a": 1}"#,
        ] {
            assert!(!is_plain(json), "{json}");
        }
    }
}
