//! Addresses as people may see them: in messages, in the log, and in answers to callers without the right to set them. No
//! other code hides parts of an address.

use std::fmt::{self, Write};

/// Replaces what may be a secret.
pub const MASK: &str = "***";
/// The longest part of an address that is shown.
pub(crate) const SHOWN_BYTES_MAX: usize = 2_048;
/// Parameters that hold no secret. Others may.
const PLAIN: [&str; 2] = ["namespace=", "partitions="];

/// Shows an address without its user, its password, its fragment, and the parameters that are not ours. What is unclear is
/// hidden: a password may contain any character, also `/`, `?`, `#` and `@`.
///
/// ```
/// # use duetime_core::Redacted;
/// let shown = Redacted("redis://me:hush@db:7000/3?namespace=shop&token=hush").to_string();
/// assert_eq!(shown, "redis://***@db:7000/3?namespace=shop&***");
/// ```
#[derive(Clone, Copy)]
pub struct Redacted<'a>(pub &'a str);

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // This could be anything, including a password.
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str("a text without `://`") };
        if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
            return write!(f, "{MASK}://{MASK}");
        }
        let (place, rest) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        write!(f, "{scheme}://")?;
        if rest.contains('@') {
            // Either a parameter, or the end of a password.
            return f.write_str(MASK);
        }
        match place.rsplit_once('@') {
            Some((_, place)) => write!(f, "{MASK}@{}", start(place))?,
            None => f.write_str(start(place))?,
        }
        let (query, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
        for (at, pair) in query.split(['?', '&']).filter(|pair| !pair.is_empty()).enumerate() {
            let is_plain = PLAIN.iter().any(|name| pair.starts_with(name));
            f.write_char(if at == 0 { '?' } else { '&' })?;
            f.write_str(if is_plain { start(pair) } else { MASK })?;
            if !is_plain {
                break;
            }
        }
        if fragment.is_empty() { Ok(()) } else { write!(f, "#{MASK}") }
    }
}

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn start(text: &str) -> &str {
    let end = (0..=SHOWN_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (address, shown) in [
            ("redis://127.0.0.1:6379/0?namespace=a", "redis://127.0.0.1:6379/0?namespace=a"),
            ("https://a.example/x", "https://a.example/x"),
            ("https://[::1]:7300/", "https://[::1]:7300/"),
            // Users, passwords, and tokens that stand for a user.
            ("redis://:hush@host/1", "redis://***@host/1"),
            ("redis://hush@host", "redis://***@host"),
            ("https://hush:@host/x", "https://***@host/x"),
            ("mysql://me:hush@a:1,b:2/jobs", "mysql://***@a:1,b:2/jobs"),
            // Passwords of any characters.
            ("mysql://me:hu/s@h:x@host:3306/jobs", "mysql://***@host:3306/jobs"),
            ("mysql://me:hu?sh@host/jobs", "mysql://***"),
            ("mysql://me:hu#sh@host/jobs", "mysql://***"),
            ("redis://me:hu?s@h@db/3", "redis://***"),
            ("redis://me:hu://sh@db/3", "redis://***@db/3"),
            // Parameters.
            ("https://a.example/x?token=hush", "https://a.example/x?***"),
            ("https://a.example/x?hush", "https://a.example/x?***"),
            ("https://a.example/x?aHVzaA==", "https://a.example/x?***"),
            ("https://a.example/x?a=hush&namespace=hush&b=hush", "https://a.example/x?***"),
            ("https://a.example/x?a=hush@hush", "https://***"),
            ("https://a.example/x#hush", "https://a.example/x#***"),
            ("redis://db?namespace=shop#hush", "redis://db?namespace=shop#***"),
            ("redis://db?namespace=shop?token=hush", "redis://db?namespace=shop&***"),
            ("redis://db?namespace=a@hush", "redis://***"),
            ("postgres://db/jobs?sslmode=require&password=hush", "postgres://db/jobs?***"),
            // No addresses.
            ("hush", "a text without `://`"),
            ("me:hush@host:6379", "a text without `://`"),
            ("host?token=hush", "a text without `://`"),
            ("", "a text without `://`"),
            ("me:hush@host://", "***://***"),
            ("{\"token\":\"hush\",\"url\":\"redis://db\"}", "***://***"),
            ("://hush", "***://***"),
        ] {
            assert_eq!(Redacted(address).to_string(), shown, "{address}");
            assert_eq!(format!("{:?}", Redacted(address)), shown);
        }
    }

    #[test]
    fn a_long_address_is_cut() {
        let long = format!("https://{}", "ä".repeat(SHOWN_BYTES_MAX));
        assert_eq!(Redacted(&long).to_string().len(), "https://".len() + SHOWN_BYTES_MAX);
    }
}
