//! Metadata that callers give a job for their own purposes, such as a tenant or a user. The core stores and shows it, and neither
//! reads nor searches it.

use crate::invalid::Invalid;
use crate::limits::{META_BYTES_MAX, META_ENTRIES_MAX, META_NAME_BYTES_MAX, META_VALUE_BYTES_MAX};
use crate::printable::printable;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Metadata of a job: text by name, in the order of the names. At most 16 entries and 2 KiB of names and values; names of 1 to
/// 64 characters `a-z 0-9 _ . -`; values of at most 256 bytes, without hidden characters such as ends of lines. A push checks these limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Meta(BTreeMap<Arc<str>, Arc<str>>);

/// That of a job without any.
pub(super) static NONE: Meta = Meta(BTreeMap::new());

impl Meta {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| &**value)
    }

    /// Sets the value of a name. One that it had is replaced.
    pub fn set(&mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) {
        self.0.insert(name.into(), value.into());
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it keeps its limits.
    ///
    /// # Errors
    /// [`Invalid`].
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let invalid = |expected: String, got: String| Err(Invalid::new("meta", expected, got));
        if self.0.len() > META_ENTRIES_MAX {
            return invalid(format!("at most {META_ENTRIES_MAX} entries"), self.0.len().to_string());
        }
        for (name, value) in self.iter() {
            let is_plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-');
            if !(1..=META_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
                let expected = format!("names of 1 to {META_NAME_BYTES_MAX} characters a-z, 0-9, _, . and -");
                return invalid(expected, format!("{name:?}"));
            }
            if value.len() > META_VALUE_BYTES_MAX {
                let expected = format!("values of at most {META_VALUE_BYTES_MAX} bytes");
                return invalid(expected, format!("{} bytes in {name:?}", value.len()));
            }
            if printable(value).any(|(_, is_hidden)| is_hidden) {
                return invalid(
                    "values without hidden characters, such as ends of lines".to_owned(),
                    format!("{value:?} in {name:?}"),
                );
            }
        }
        let bytes = self.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if bytes > META_BYTES_MAX {
            return invalid(format!("at most {META_BYTES_MAX} bytes of names and values"), bytes.to_string());
        }
        Ok(())
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let of_entry = |(name, value): (&str, &str)| size_of::<(Arc<str>, Arc<str>)>() + name.len() + value.len();
        self.iter().map(of_entry).sum::<usize>() + size_of::<Self>()
    }
}

impl<N: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(N, V)> for Meta {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Refuses a name that is given twice, where a map would keep the last value.
impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Meta;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<Arc<str>, Arc<str>>()? {
                    if entries.insert(name.clone(), value).is_some() {
                        return Err(de::Error::custom(format_args!(
                            "expected an object with different names, got {name:?} twice"
                        )));
                    }
                }
                Ok(Meta(entries))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    #[test]
    fn entries_are_few_and_short() {
        let (name, value) = ("n".repeat(META_NAME_BYTES_MAX), "é".repeat(META_VALUE_BYTES_MAX / 2));
        let most: Meta = [("tenant", "7"), ("a_b.c-0", ""), (&*name, &*value)].into_iter().collect();
        assert_eq!(most.check(), Ok(()));
        assert_eq!((most.get("tenant"), most.get("a_b.c-0"), most.get("user")), (Some("7"), Some(""), None));
        let (long_name, long_value) = (format!("{name}n"), format!("{value}v"));
        for (name, value, expected) in [
            ("", "1", r#"names of 1 to 64 characters a-z, 0-9, _, . and -, got """#),
            ("Tenant", "1", r#"got "Tenant""#),
            ("a b", "1", r#"got "a b""#),
            (&*long_name, "1", "names of 1 to 64 characters"),
            ("a", &*long_value, r#"values of at most 256 bytes, got 257 bytes in "a""#),
            ("a", "1\n2", r#"values without hidden characters, such as ends of lines, got "1\n2" in "a""#),
        ] {
            let error = Meta::from_iter([(name, value)]).check().unwrap_err().to_string();
            assert!(error.starts_with("`meta` must be ") && error.contains(expected), "{error}");
        }
        let many = (0..=META_ENTRIES_MAX).map(|n| (format!("n{n}"), "")).collect::<Meta>();
        assert!(many.check().unwrap_err().to_string().contains("at most 16 entries, got 17"));
        let large = |rest: usize| {
            let value = "v".repeat(META_VALUE_BYTES_MAX);
            let of = |n: usize| (format!("n{n}"), if n < 7 { value.clone() } else { "v".repeat(rest) });
            (0..8).map(of).collect::<Meta>()
        };
        let rest = META_BYTES_MAX - 7 * META_VALUE_BYTES_MAX - 8 * 2;
        assert_eq!(large(rest).check(), Ok(()));
        assert!(
            large(rest + 1)
                .check()
                .unwrap_err()
                .to_string()
                .contains("at most 2048 bytes of names and values, got 2049")
        );
    }

    #[test]
    fn it_is_an_object_of_texts_by_different_names() {
        let meta: Meta = read(r#"{"user":"9","tenant":"7"}"#).unwrap();
        assert_eq!(meta.iter().collect::<Vec<_>>(), [("tenant", "7"), ("user", "9")]);
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"tenant":"7","user":"9"}"#);
        #[derive(Debug, Deserialize)]
        struct Of {
            #[expect(dead_code, reason = "only the error is read")]
            meta: Meta,
        }
        for (text, expected) in [
            (r#"{"meta":{"a":"1","a":"2"}}"#, r#"`meta` must be an object with different names, got "a" twice"#),
            (r#"{"meta":{"a":1}}"#, "`meta.a` must be a string, got the number 1"),
            (
                r#"{"meta":["a"]}"#,
                r#"`meta` must be an object whose values are texts, such as {"tenant": "7"}, got an array"#,
            ),
            (r#"{"meta":7}"#, r#"an object whose values are texts, such as {"tenant": "7"}, got the number 7"#),
            (r#"{"meta":{"a":null}}"#, "`meta.a` must be a string, got null"),
        ] {
            let error = read::<Of>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
