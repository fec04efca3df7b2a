//! Keys that deliveries are signed with, from a file that is read again when it changes. Under one name may stand
//! several: all of them sign, so that a receiver can change from one to the other in its own time.
//!
//! A key is never shown: not in a log, an error or an answer.

use crate::watched::Watched;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The name where a target names none.
const NAME_DEFAULT: &str = "default";
/// What a key begins with.
const PREFIX: &str = "whsec_";
/// Lengths of a key that the Standard Webhooks allow, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Most keys under one name.
const KEYS_MAX: usize = 4;

/// The keys of one name.
pub(super) type Ring = Arc<[hmac::Key]>;
type ByName = HashMap<String, Ring>;

/// All keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    file: Option<PathBuf>,
    known: RwLock<ByName>,
}

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the webhook keys {}: {why}", file.display())]
pub(crate) struct Error {
    file: PathBuf,
    why: String,
}

impl Keys {
    /// Reads a file; without one nothing is signed.
    pub(super) fn open(file: Option<PathBuf>) -> Result<Self, Error> {
        let known = file.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(Self { file, known: RwLock::new(known) })
    }

    /// The keys of a target that names these, or none.
    ///
    /// # Errors
    /// Where it names keys that there are not.
    pub(super) fn of(&self, name: Option<&str>) -> Result<Option<Ring>, String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match (known.get(name.unwrap_or(NAME_DEFAULT)), name) {
            (Some(ring), _) => Ok(Some(ring.clone())),
            (None, None) => Ok(None),
            (None, Some(name)) => Err(format!("there is no key {name:?} to sign with in the file of --webhook-keys")),
        }
    }

    /// Reads the file whenever it has changed, for ever. Where it is wrong, the former keys go on to sign.
    pub(super) async fn watch(&self) {
        let Some(file) = &self.file else { return std::future::pending().await };
        let mut watched = Watched::new([file.clone()]);
        loop {
            watched.changed().await;
            match read(file) {
                Ok(known) => {
                    tracing::info!(file = %file.display(), names = known.len(), "the webhook keys were read again");
                    *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
                }
                Err(error) => tracing::error!(%error, "the former keys go on to sign"),
            }
        }
    }
}

fn read(file: &Path) -> Result<ByName, Error> {
    let wrong = |why: String| Error { file: file.to_owned(), why };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

/// Reads lines `NAME whsec_BASE64`; what begins with `#` is a comment.
fn parse(text: &str) -> Result<ByName, String> {
    let mut known: HashMap<String, Vec<hmac::Key>> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, key] = words[..] else {
            return Err(format!("expected a name and a key in line {number}, got {} words", words.len()));
        };
        let bytes = key.strip_prefix(PREFIX).and_then(|key| STANDARD.decode(key).ok());
        let Some(bytes) = bytes.filter(|bytes| KEY_BYTES.contains(&bytes.len())) else {
            return Err(format!("expected whsec_ and 24 to 64 bytes in base64 in line {number}, got something else"));
        };
        let ring = known.entry(name.to_owned()).or_default();
        if ring.len() == KEYS_MAX {
            return Err(format!("expected at most {KEYS_MAX} keys of one name, got one more in line {number}"));
        }
        ring.push(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
    }
    Ok(known.into_iter().map(|(name, ring)| (name, Arc::from(ring))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> String {
        format!("{PREFIX}{}", STANDARD.encode([byte; 32]))
    }

    #[test]
    fn several_lines_of_one_name_all_sign() {
        let text = format!("# comment\n\ndefault {}\nshop\t{}\ndefault {}\n", key(1), key(2), key(3));
        let known = parse(&text).unwrap();
        assert_eq!((known["default"].len(), known["shop"].len()), (2, 1));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_key() {
        let short = format!("{PREFIX}{}", STANDARD.encode([7; 23]));
        let five = format!("a {}\n", key(5)).repeat(5);
        for text in ["a secret", "a", "a whsec_secret!", &format!("a {short}"), &format!("a {} more", key(1)), &five] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("line "), "{error}");
            assert!(!error.contains("secret") && !error.contains(&short), "{error}");
        }
    }

    #[test]
    fn only_a_name_must_be_there() {
        let keys = Keys { file: None, known: RwLock::new(parse(&format!("shop {}", key(1))).unwrap()) };
        assert!(keys.of(None).unwrap().is_none());
        assert!(keys.of(Some("shop")).unwrap().is_some());
        assert!(keys.of(Some("other")).unwrap_err().contains("\"other\""));
        assert!(!format!("{keys:?}").contains("AQEB"));
    }

    #[test]
    fn whatever_a_file_holds_is_keys_or_refused() {
        duetime_core::testing::fuzz("webhook-keys", |text| parse(text).ok().map(|_| text.to_owned()));
    }
}
