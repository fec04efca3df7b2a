//! Payloads and results: JSON as it is, byte for byte, or base64 for other bytes, and for JSON that a common decoder may
//! refuse (see [`plain`]), because such a decoder would refuse the whole body.

use super::plain::is_plain;
use super::text;
use crate::invalid::Invalid;
use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes shown in standard base64 with padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64<'a>(pub Cow<'a, [u8]>);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| "expected standard base64 with padding".to_owned());
        text::parsed(deserializer, "base64 text", decode).map(|bytes| Self(Cow::Owned(bytes)))
    }
}

/// A JSON value, kept as the text that it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// The text.
    pub fn get(&self) -> &str {
        &self.0
    }
}

impl From<&RawValue> for RawJson {
    fn from(value: &RawValue) -> Self {
        Self(Arc::from(value.get()))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0)
            .map_err(<S::Error as serde::ser::Error>::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|value| Self::from(&*value))
    }
}

/// How bytes are shown: as JSON if they are exactly that and every decoder reads it, else in base64.
pub fn show_bytes(bytes: &[u8]) -> (Option<&RawValue>, Option<Base64<'_>>) {
    // A raw value leaves out white space around it, which would not come back.
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(json) if json.get().len() == bytes.len() && is_plain(json.get()) => (Some(json), None),
        _ => (None, Some(Base64(Cow::Borrowed(bytes)))),
    }
}

/// The bytes in the two fields; `None` if both are missing. `what` is the name of the first.
///
/// # Errors
/// [`Invalid`] if both are present.
pub fn bytes_of(
    what: &'static str,
    json: Option<&RawValue>,
    base64: Option<Base64<'_>>,
) -> Result<Option<Arc<[u8]>>, Invalid> {
    match (json, base64) {
        (None, None) => Ok(None),
        (Some(json), None) => Ok(Some(Arc::from(json.get().as_bytes()))),
        (None, Some(base64)) => Ok(Some(Arc::from(base64.0))),
        (Some(_), Some(_)) => {
            Err(Invalid::new(what, format!("given either as `{what}` or as `{what}_base64`"), "both"))
        }
    }
}

/// Reads an optional field for which `null` is a JSON value like any other.
pub(crate) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_shown_as_it_is_and_the_rest_in_base64() {
        for json in
            ["null", "1.0", "123456789012345678901234567890", "{\"a\" : [ 1e300 ]}", "\"\\ud83d\\ude00\"", "\"ü\""]
        {
            let (shown, base64) = show_bytes(json.as_bytes());
            assert_eq!(shown.map(RawValue::get), Some(json));
            assert_eq!(base64, None);
        }
        let others: [&[u8]; 8] = [b"", b" 1", b"1\n", b"{\"a\":}", b"\xff", b"\"\xff\"", b"\"\\ud800\"", b"[1e400]"];
        for other in others {
            let (shown, base64) = show_bytes(other);
            assert!(shown.is_none());
            let text = serde_json::to_string(&base64).unwrap();
            let back: Base64<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(bytes_of("payload", None, Some(back)).unwrap().unwrap()[..], *other);
        }
    }

    #[test]
    fn wrong_base64_is_refused() {
        for text in ["\"a\"", "\"YQ\"", "\"Y Q==\"", "1"] {
            let error = serde_json::from_str::<Base64<'_>>(text).unwrap_err().to_string();
            assert!(error.contains("base64"), "{error}");
        }
    }
}
