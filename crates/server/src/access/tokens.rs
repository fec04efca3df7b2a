//! The tokens that a server knows.

use super::file::TokenFile;
use super::secret::hash;
use super::stored_token::Token;
use crate::file_error::FileError;
use crate::watched::Watched;
use duetime_core::Millis;
use duetime_core::ports::GcraLimiter;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most open streams of events of one token: a quarter of those of a server.
pub(crate) const STREAMS_MAX: usize = 1_024;
/// Most concurrent calls of one token that continue without their caller; further ones wait.
const CALLS_MAX: usize = 64;

/// The tokens of a file.
#[derive(Debug)]
pub(crate) struct Tokens {
    known: Watched<Arc<[Arc<Known>]>>,
}

/// A token and its recent usage.
#[derive(Debug)]
pub(crate) struct Known {
    pub(super) token: Token,
    used: Arc<Used>,
}

/// The usage of a token. It is kept when the file is read again.
#[derive(Debug)]
struct Used {
    limiter: Mutex<GcraLimiter>,
    streams: Arc<Semaphore>,
    calls: Arc<Semaphore>,
}

impl Default for Used {
    fn default() -> Self {
        let [streams, calls] = [STREAMS_MAX, CALLS_MAX].map(|max| Arc::new(Semaphore::new(max)));
        Self { limiter: Mutex::default(), streams, calls }
    }
}

impl Known {
    /// Room for one more stream of events; `None` if the token has reached its limit.
    pub(crate) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        self.used.streams.clone().try_acquire_owned().ok()
    }

    /// Waits for room for one more call that continues without its caller.
    pub(crate) async fn call(&self) -> OwnedSemaphorePermit {
        self.used.calls.clone().acquire_owned().await.expect("it is never closed")
    }

    fn counts(&self, now: Millis) -> bool {
        self.token.expires.is_none_or(|expires| now < expires.0)
    }

    /// Lets one request pass, or says from when on one may.
    pub(crate) fn pass(&self, now: Millis) -> Result<(), Millis> {
        let Some(rate) = &self.token.rate else { return Ok(()) };
        let mut limiter = self.used.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        match limiter.room(rate, now) {
            (0, next) => Err(next),
            _ => {
                limiter.pass(1, rate, now);
                Ok(())
            }
        }
    }
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(crate) fn open(file: PathBuf) -> Result<Self, FileError> {
        let known = known(TokenFile::read(&file)?, &[]);
        Ok(Self { known: Watched::new("tokens", [file], known) })
    }

    /// The token that is shown, unless it is over at this instant. All are compared, in a time that says nothing of how
    /// near a guess came.
    pub(crate) fn find(&self, shown: &str, now: Millis) -> Option<Arc<Known>> {
        let hash = hash(shown);
        let known = self.known.get();
        let mut found = None;
        for one in known.iter() {
            if bool::from(one.token.sha256.ct_eq(&hash)) {
                found = Some(one);
            }
        }
        found.filter(|found| found.counts(now)).cloned()
    }

    /// Whether a token still counts at this instant: not revoked since it was found, and not over.
    pub(crate) fn knows(&self, token: &Known, now: Millis) -> bool {
        let known = self.known.get();
        known.iter().any(|one| one.token.sha256 == token.token.sha256 && one.counts(now))
    }

    /// Reads the file again whenever it changes, until the process stops. If it is invalid, the previous tokens stay valid.
    pub(crate) async fn watch(&self) {
        self.known.watch(|files| Ok::<_, FileError>(known(TokenFile::read(&files[0])?, &self.known.get()))).await;
    }
}

/// The tokens of a file. A token that was known before keeps its usage.
fn known(read: TokenFile, former: &[Arc<Known>]) -> Arc<[Arc<Known>]> {
    let known = |token: Token| {
        let same = former.iter().find(|known| known.token.sha256 == token.sha256);
        let used = same.map_or_else(Arc::default, |known| known.used.clone());
        Arc::new(Known { token, used })
    };
    read.tokens.into_iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::*;

    fn tokens(lines: &str) -> (Tokens, Secret) {
        let secret = Secret::new().unwrap();
        let hash: String = secret.hash().iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        std::fs::write(&file, format!("[[token]]\nname = 'shop'\nsha256 = '{hash}'\nallow = ['push']\n{lines}"))
            .unwrap();
        (Tokens::open(file).unwrap(), secret)
    }

    #[test]
    fn a_token_counts_until_it_is_over() {
        let (tokens, secret) = tokens("expires = '1970-01-01T00:00:01.000Z'");
        assert_eq!(tokens.find(secret.reveal(), 999).unwrap().token.name, "shop");
        assert!(tokens.find(secret.reveal(), 1_000).is_none());
        let shorter = &secret.reveal()[..secret.reveal().len() - 1];
        let known = tokens.find(secret.reveal(), 999).unwrap();
        assert!(tokens.knows(&known, 999) && !tokens.knows(&known, 1_000));
        tokens.known.set(Arc::default());
        assert!(!tokens.knows(&known, 999));
        for other in ["", shorter, Secret::new().unwrap().reveal()] {
            assert!(tokens.find(other, 0).is_none());
        }
    }

    #[test]
    fn one_token_has_so_many_streams() {
        let (tokens, secret) = tokens("");
        let known = tokens.find(secret.reveal(), 0).unwrap();
        let mut open: Vec<_> = (0..STREAMS_MAX).map(|_| known.stream().unwrap()).collect();
        assert!(known.stream().is_none());
        let again = super::known(TokenFile { tokens: vec![known.token.clone()] }, &tokens.known.get());
        assert!(again[0].stream().is_none(), "they are counted on when the file is read again");
        open.pop();
        assert!(again[0].stream().is_some());
    }

    #[test]
    fn a_rate_holds_also_when_the_file_is_read_again() {
        let (tokens, secret) = tokens("rate = '2/s,burst=2'");
        let now = 10_000;
        let first = tokens.find(secret.reveal(), now).unwrap();
        assert_eq!((first.pass(now), first.pass(now), first.pass(now)), (Ok(()), Ok(()), Err(now + 500)));
        let read = TokenFile { tokens: vec![first.token.clone()] };
        let again = known(read, &tokens.known.get());
        assert_eq!((again[0].pass(now), again[0].pass(now + 500)), (Err(now + 500), Ok(())));
    }
}
