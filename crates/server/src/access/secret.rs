//! The secret of a token, which its holder presents, and the hash that is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::{self, Write};

/// The prefix of every token, so that a leaked token can be recognized.
const PREFIX: &str = "duetime_";
/// Random bytes of a token.
const BYTES: usize = 32;

/// A token as its holder has it; shown once, when it is made.
pub(crate) struct Secret(String);

/// The stored hash: SHA-256.
pub(crate) type Hash = [u8; SHA256_OUTPUT_LEN];

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        let mut bytes = [0; BYTES];
        SystemRandom::new().fill(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The secret, to be shown once.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Its hash.
    pub(crate) fn hash(&self) -> Hash {
        hash(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The hash of the secret that a caller presents.
pub(crate) fn hash(shown: &str) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest(&SHA256, shown.as_bytes()).as_ref());
    hash
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_hide() {
        let (one, two) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert!(one.reveal().starts_with(PREFIX) && one.reveal().len() == PREFIX.len() + 43);
        assert_ne!(one.reveal(), two.reveal());
        assert_ne!(one.hash(), two.hash());
        assert_eq!(one.hash(), hash(one.reveal()));
        assert_eq!(format!("{one:?}"), "Secret");
    }
}
