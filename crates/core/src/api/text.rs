//! Shared text, read with one allocation (serde's own `Arc<str>` makes three).

use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::sync::Arc;

/// A name, key, tag or message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text(pub Arc<str>);

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

/// Takes texts apart.
pub(super) fn shared(texts: Vec<Text>) -> Vec<Arc<str>> {
    texts.into_iter().map(|text| text.0).collect()
}
