//! Keys that deliveries are signed with, from a file that is read again when it changes. Under one name may stand
//! several: all of them sign, so that a receiver can change from one to the other in its own time.
//!
//! A key signs only jobs of the queues listed with it. So a valid signature tells a receiver from which queues a request
//! may come, regardless of who may set targets of queues or of single jobs.
//!
//! A key is never shown: not in a log, an error or an answer.

use crate::access::Names;
use crate::file_error::FileError;
use crate::file_watch::FileWatch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duetime_core::api::DegradedCode;
use ring::hmac;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the key if a target names none.
const NAME_DEFAULT: &str = "default";
/// The prefix of a key.
const PREFIX: &str = "whsec_";
/// Lengths of a key that the Standard Webhooks allow, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Most keys under one name.
const KEYS_MAX: usize = 4;

/// The keys that sign one delivery.
pub(super) type Ring = Vec<hmac::Key>;
type ByName = HashMap<String, Vec<Bound>>;

/// A key, and the queues whose jobs it signs.
#[derive(Debug)]
struct Bound {
    key: hmac::Key,
    queues: Vec<Names>,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Keys {
    known: FileWatch<Arc<ByName>>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { known: FileWatch::fixed(Arc::default()) }
    }
}

impl Keys {
    /// Reads a file; without one nothing is signed.
    pub(super) fn open(file: Option<PathBuf>) -> Result<Self, FileError> {
        let Some(file) = file else { return Ok(Self::default()) };
        Ok(Self { known: FileWatch::open(DegradedCode::WebhookKeys, [file], read)? })
    }

    /// The keys for jobs of a queue whose target names these, or none.
    ///
    /// # Errors
    /// If it names keys that do not exist for this queue.
    pub(crate) fn of(&self, name: Option<&str>, queue: &str) -> Result<Option<Ring>, String> {
        let known = self.known.get();
        let named = known.get(name.unwrap_or(NAME_DEFAULT)).into_iter().flatten();
        let ring: Ring = named
            .filter(|bound| bound.queues.iter().any(|names| names.has(queue)))
            .map(|bound| bound.key.clone())
            .collect();
        match name {
            _ if !ring.is_empty() => Ok(Some(ring)),
            None => Ok(None),
            Some(name) => Err(format!("the file of --webhook-keys has no key {name:?} for the queue {queue:?}")),
        }
    }

    /// Reads the file again whenever it changes, until the process stops. If it is invalid, the previous keys stay in use.
    pub(crate) async fn watch(&self, report: impl Fn(DegradedCode, Option<&str>)) {
        self.known.watch(report).await;
    }
}

/// Reads the file, if there is one.
fn read(files: &[PathBuf], _: Option<&Arc<ByName>>) -> Result<Arc<ByName>, FileError> {
    let file = &files[0];
    let wrong = |why: String| FileError::new("cannot use the webhook keys in", file, why);
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map(Arc::new).map_err(wrong)
}

/// Reads lines `NAME whsec_BASE64 QUEUES`; lines that begin with `#` are comments.
fn parse(text: &str) -> Result<ByName, String> {
    let mut known = ByName::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, key, queues] = words[..] else {
            let expected = "a name, a key and the queues whose jobs it signs, such as `orders.*,mail` or `*`";
            return Err(format!("line {number}: expected {expected}, got {} words", words.len()));
        };
        let bytes = key.strip_prefix(PREFIX).and_then(|key| STANDARD.decode(key).ok());
        let Some(bytes) = bytes.filter(|bytes| KEY_BYTES.contains(&bytes.len())) else {
            return Err(format!("line {number}: a key must be whsec_ and 24 to 64 bytes in base64"));
        };
        let queues = queues.split(',').map(str::parse).collect::<Result<_, String>>();
        let queues =
            queues.map_err(|_| format!("line {number}: the queues must be names such as `orders.*,mail` or `*`"))?;
        let ring = known.entry(name.to_owned()).or_default();
        if ring.len() == KEYS_MAX {
            return Err(format!("line {number}: there are more than {KEYS_MAX} keys with this name"));
        }
        ring.push(Bound { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes), queues });
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> String {
        format!("{PREFIX}{}", STANDARD.encode([byte; 32]))
    }

    fn keys(text: &str) -> Keys {
        Keys { known: FileWatch::fixed(Arc::new(parse(text).unwrap())) }
    }

    #[test]
    fn several_lines_of_one_name_all_sign() {
        let keys = keys(&format!("# comment\n\ndefault {} *\nshop\t{} *\ndefault {} *\n", key(1), key(2), key(3)));
        let count = |name| keys.of(name, "q").unwrap().map(|ring| ring.len());
        assert_eq!((count(None), count(Some("shop"))), (Some(2), Some(1)));
    }

    #[test]
    fn a_key_signs_for_its_queues_only() {
        let keys = keys(&format!("default {} orders.*,mail\nshop {} orders.eu", key(1), key(2)));
        let signs = |name, queue| keys.of(name, queue).is_ok_and(|ring| ring.is_some());
        for (queue, by_default, by_shop) in
            [("orders.eu", true, true), ("orders.us", true, false), ("mail", true, false), ("mails", false, false)]
        {
            assert_eq!((signs(None, queue), signs(Some("shop"), queue)), (by_default, by_shop), "{queue}");
        }
        // A missing key and a key of another queue give the same error.
        let refused = |name| keys.of(Some(name), "mails").unwrap_err().replace(name, "NAME");
        assert_eq!(refused("shop"), refused("none"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_key() {
        let short = format!("{PREFIX}{}", STANDARD.encode([7; 23]));
        let five = format!("a {} *\n", key(5)).repeat(5);
        for text in [
            "a secret *",
            "a",
            "a whsec_secret! *",
            &format!("a {short} *"),
            &format!("a {}", key(1)),
            &format!("a {} * more", key(1)),
            &format!("a {} b,", key(1)),
            &five,
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("line "), "{error}");
            assert!(!error.contains("secret") && !error.contains(&short), "{error}");
        }
    }

    #[test]
    fn only_a_name_must_be_there() {
        let keys = keys(&format!("shop {} *", key(1)));
        assert!(keys.of(None, "q").unwrap().is_none());
        assert!(keys.of(Some("other"), "q").unwrap_err().contains("\"other\""));
        assert!(!format!("{keys:?}").contains("AQEB"));
    }

    #[test]
    fn whatever_a_file_holds_is_keys_or_refused() {
        duetime_core::testing::fuzz("webhook-keys", |text| parse(text).ok().map(|_| text.to_owned()));
    }
}
