//! A token as stored in the file.

use super::grant::Grant;
use super::secret::{Hash, hex};
use crate::rate::{parse_rate, show_rate};
use duetime_core::api::Timestamp;
use duetime_core::model::name::check_lock;
use duetime_core::ports::Rate;
use duetime_core::printable::printable;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A token: its holder, its rights, and the hash of its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[token]]")]
pub(crate) struct Token {
    /// The name; no two tokens share one.
    pub(crate) name: String,
    /// The hash of its secret.
    #[serde(serialize_with = "show_hash", deserialize_with = "read_hash")]
    pub(crate) sha256: Hash,
    /// The granted rights.
    pub(crate) allow: Vec<Grant>,
    /// The maximum number of requests per second; `None`: no limit.
    #[serde(default, serialize_with = "show_limit", deserialize_with = "read_limit")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<Rate>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
    /// The instant from which it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Timestamp>,
}

impl Token {
    /// Whether it makes sense.
    pub(crate) fn check(&self) -> Result<(), String> {
        // A token's name follows the rules for a lock's name: not empty, and of limited length.
        check_lock(&self.name)
            .map_err(|_| format!("the name of a token must have 1 to 255 bytes, got {:?}", self.name))?;
        if printable(&self.name).any(|(_, is_hidden)| is_hidden) {
            return Err(format!(
                "the name of a token must have no control or invisible characters, got {:?}",
                self.name
            ));
        }
        if self.allow.is_empty() {
            return Err(format!("the token {:?} needs at least one right in `allow`", self.name));
        }
        Ok(())
    }
}

fn show_hash<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(hash))
}

fn read_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
    let text = String::deserialize(deserializer)?;
    let byte = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let hash = bytes.and_then(|bytes| Hash::try_from(bytes).ok());
    hash.ok_or_else(|| de::Error::custom("`sha256` must be 64 hexadecimal digits"))
}

fn show_limit<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    rate.as_ref().map(show_rate).serialize(serializer)
}

fn read_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_rate(&text).map(Some).map_err(de::Error::custom)
}
