//! Parses all textual JSON values in one function.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::sync::Arc;

/// Parses text. Other JSON values are refused with a message that says the accepted values.
pub(super) fn parsed<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Visitor<T> {
        expected: &'static str,
        parse: fn(&str) -> Result<T, String>,
    }
    impl<T> de::Visitor<'_> for Visitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            (self.parse)(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Visitor { expected, parse })
}

/// Shared text that is read with one allocation (serde's own `Arc<str>` makes three): for texts that every pushed job has.
struct Text(Arc<str>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, "a string", |text| Ok(Self(Arc::from(text))))
    }
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
}

/// The same of several.
pub(crate) fn all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<str>>, D::Error> {
    Ok(Vec::<Text>::deserialize(deserializer)?.into_iter().map(|text| text.0).collect())
}
