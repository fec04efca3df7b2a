//! Shared text that is read with one allocation (serde's own `Arc<str>` makes three): for what comes with every job that is
//! pushed.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::sync::Arc;

struct Text(Arc<str>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Arc::from(text)))
            }
        }
        deserializer.deserialize_str(Visitor)
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
