//! The tokens that a server knows.

use super::file::TokenFile;
use super::secret::{Hash, hash};
use super::stored_token::Token;
use crate::file_error::FileError;
use crate::file_watch::FileWatch;
use duetime_core::Millis;
use duetime_core::api::DegradedCode;
use duetime_core::ports::GcraLimiter;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Most open streams of events of one token: a quarter of those of a server.
pub(crate) const STREAMS_MAX: usize = 1_024;
/// Most concurrent calls of one token that continue without their caller; further ones wait.
const CALLS_MAX: usize = 64;

/// The clock by which tokens expire.
pub(crate) type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The tokens of a file, by their hashes.
type ByHash = HashMap<Hash, Arc<TokenEntry>>;

/// The tokens of a file.
#[derive(Debug)]
pub(crate) struct Tokens {
    known: FileWatch<Arc<ByHash>>,
}

/// A token and its recent usage.
#[derive(Debug)]
pub(crate) struct TokenEntry {
    pub(super) token: Token,
    used: Arc<Usage>,
}

/// The usage of a token. It is kept when the file is read again.
#[derive(Debug)]
struct Usage {
    limiter: Mutex<GcraLimiter>,
    streams: Arc<Semaphore>,
    calls: Arc<Semaphore>,
}

impl Default for Usage {
    fn default() -> Self {
        let [streams, calls] = [STREAMS_MAX, CALLS_MAX].map(|max| Arc::new(Semaphore::new(max)));
        Self { limiter: Mutex::default(), streams, calls }
    }
}

impl TokenEntry {
    /// Room for one more stream of events; `None` if the token has reached its limit.
    pub(super) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        self.used.streams.clone().try_acquire_owned().ok()
    }

    /// Waits for room for one more call that continues without its caller.
    pub(super) async fn call(&self) -> OwnedSemaphorePermit {
        self.used.calls.clone().acquire_owned().await.expect("it is never closed")
    }

    fn counts(&self, now: Millis) -> bool {
        self.token.expires.is_none_or(|expires| now < expires.0)
    }

    /// Lets one request pass, or says in how many milliseconds one may.
    pub(super) fn pass(&self, clock: &Clock) -> Result<(), u64> {
        let Some(rate) = &self.token.rate else { return Ok(()) };
        let mut limiter = self.used.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: an earlier reading would look like a clock that was set back.
        let now = clock();
        match limiter.room(rate, now) {
            (0, next) => Err(next.saturating_sub(now)),
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
        let read: fn(&[PathBuf], Option<&Arc<ByHash>>) -> _ =
            |files, former| Ok(known(TokenFile::read(&files[0])?, former.map_or(&ByHash::new(), |former| former)));
        Ok(Self { known: FileWatch::open(DegradedCode::Tokens, [file], read)? })
    }

    /// The token that is shown, unless it has expired. All are compared, in a time that says nothing of how near a guess
    /// came.
    pub(super) fn find(&self, shown: &str, now: Millis) -> Option<Arc<TokenEntry>> {
        let hash = hash(shown);
        let known = self.known.get();
        let mut found = None;
        for one in known.values() {
            if bool::from(one.token.sha256.ct_eq(&hash)) {
                found = Some(one);
            }
        }
        found.filter(|found| found.counts(now)).cloned()
    }

    /// The token with this hash as it is now; `None` if it was revoked or has expired.
    pub(super) fn today(&self, hash: &Hash, now: Millis) -> Option<Arc<TokenEntry>> {
        self.known.get().get(hash).filter(|known| known.counts(now)).cloned()
    }

    /// Tells when the file has been read again.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<ByHash>> {
        self.known.changes()
    }

    /// Reads the file again whenever it changes, until the process stops. If it is invalid, the previous tokens stay valid.
    pub(crate) async fn watch(&self, report: impl Fn(DegradedCode, Option<&str>)) {
        self.known.watch(report).await;
    }
}

/// The tokens of a file. A token that was known before keeps its usage.
fn known(read: TokenFile, former: &ByHash) -> Arc<ByHash> {
    let known = |token: Token| {
        let used = former.get(&token.sha256).map_or_else(Arc::default, |known| known.used.clone());
        (token.sha256, Arc::new(TokenEntry { token, used }))
    };
    Arc::new(read.tokens.into_iter().map(known).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Caller, Refused, Scope, Secret};
    use super::*;
    use futures_util::FutureExt;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tempfile::TempDir;

    /// A file with one token, and a clock.
    struct Bench {
        tokens: Arc<Tokens>,
        secret: Secret,
        now: Arc<AtomicU64>,
        folder: TempDir,
    }

    impl Bench {
        fn new(lines: &str) -> Self {
            let (secret, folder) = (Secret::new().unwrap(), tempfile::tempdir().unwrap());
            write(&folder, &secret, lines);
            let tokens = Arc::new(Tokens::open(folder.path().join("tokens.toml")).unwrap());
            Self { tokens, secret, now: Arc::default(), folder }
        }

        fn find(&self, shown: &str) -> Option<Caller> {
            let now = self.now.clone();
            Caller::of_token(&self.tokens, shown, &(Arc::new(move || now.load(Ordering::Relaxed)) as Clock))
        }

        fn caller(&self) -> Caller {
            self.find(self.secret.reveal()).unwrap()
        }

        /// Gives the token other lines; without lines it is revoked.
        fn rewrite(&self, lines: &str) {
            write(&self.folder, &self.secret, lines);
            self.tokens.known.look();
        }
    }

    fn write(folder: &TempDir, secret: &Secret, lines: &str) {
        let hash: String = secret.hash().iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("[[token]]\nname = 'shop'\nsha256 = '{hash}'\n{lines}");
        std::fs::write(folder.path().join("tokens.toml"), if lines.is_empty() { "" } else { &token }).unwrap();
    }

    #[test]
    fn no_name_of_a_token_hides_anything() {
        let file =
            |name: &str| format!("[[token]]\nname = \"{name}\"\nsha256 = '{}'\nallow = ['push']\n", "0".repeat(64));
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            std::fs::write(folder.path().join("tokens.toml"), file(name)).unwrap();
            Tokens::open(folder.path().join("tokens.toml")).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(open("shop"), Ok(()));
        for hidden in ["\\n", "\\u001B[2J", "\\u202E", "\\u200B", "\\U000E0041"] {
            let refused = open(&format!("shop{hidden}")).unwrap_err();
            assert!(refused.contains("invisible characters"), "{hidden}: {refused}");
        }
    }

    #[test]
    fn a_token_counts_until_it_is_over() {
        let bench = Bench::new("allow = ['push']\nexpires = '1970-01-01T00:00:01.000Z'");
        let caller = bench.caller();
        let shorter = &bench.secret.reveal()[..bench.secret.reveal().len() - 1];
        for other in ["", shorter, Secret::new().unwrap().reveal()] {
            assert!(bench.find(other).is_none());
        }
        bench.now.store(999, Ordering::Relaxed);
        assert!(caller.counts() && caller.has(Scope::Push));
        bench.now.store(1_000, Ordering::Relaxed);
        assert!(!caller.counts() && !caller.has(Scope::Push) && bench.find(bench.secret.reveal()).is_none());
        assert_eq!(caller.pass(), Err(Refused::Unknown));
    }

    /// A caller that was found before is held by connections, streams and requests that wait.
    #[tokio::test]
    async fn each_question_is_answered_by_the_file_as_it_is_now() {
        let bench = Bench::new("allow = ['push', 'work:orders.*']");
        let caller = bench.caller();
        let mut lost =
            Box::pin(caller.until_lost(|| if caller.may(Scope::Work, "orders.a") { Ok(()) } else { Err("lost") }));
        assert!(caller.may(Scope::Work, "orders.a") && (&mut lost).now_or_never().is_none());
        bench.rewrite("allow = ['push', 'work:orders.a']");
        assert!(caller.may(Scope::Work, "orders.a") && !caller.may(Scope::Work, "orders.b"));
        assert!((&mut lost).now_or_never().is_none());
        bench.rewrite("allow = ['push', 'read:mail.*']\nrate = '1/s,burst=1'");
        assert_eq!(lost.now_or_never(), Some("lost"));
        assert!(caller.may(Scope::Read, "mail.a") && !caller.has(Scope::Work));
        assert_eq!((caller.pass(), caller.pass()), (Ok(()), Err(Refused::TooMany(1_000))));
        bench.rewrite("");
        assert!(!caller.counts() && caller.rights() == "none");
        bench.rewrite("allow = ['admin']");
        assert!(caller.may_all(Scope::Admin));
    }

    #[test]
    fn one_token_has_so_many_streams() {
        let bench = Bench::new("allow = ['push']");
        let stream = |caller: &Caller| match caller {
            Caller::Token(holder) => holder.stream(),
            _ => None,
        };
        let mut open: Vec<_> = (0..STREAMS_MAX).map(|_| stream(&bench.caller()).unwrap()).collect();
        assert!(stream(&bench.caller()).is_none());
        bench.rewrite("allow = ['read']");
        assert!(stream(&bench.caller()).is_none(), "they are counted on when the file is read again");
        open.pop();
        assert!(stream(&bench.caller()).is_some());
    }

    #[test]
    fn a_rate_holds_also_when_the_file_is_read_again() {
        let bench = Bench::new("allow = ['push']\nrate = '2/s,burst=2'");
        bench.now.store(10_000, Ordering::Relaxed);
        let caller = bench.caller();
        assert_eq!((caller.pass(), caller.pass(), caller.pass()), (Ok(()), Ok(()), Err(Refused::TooMany(500))));
        bench.rewrite("allow = ['read']\nrate = '2/s,burst=2'");
        assert_eq!(bench.caller().pass(), Err(Refused::TooMany(500)));
        bench.now.store(10_500, Ordering::Relaxed);
        assert_eq!(bench.caller().pass(), Ok(()));
        bench.now.store(500, Ordering::Relaxed);
        assert_eq!(bench.caller().pass(), Err(Refused::TooMany(500)), "the clock was set back");
        bench.now.store(1_000, Ordering::Relaxed);
        assert_eq!(bench.caller().pass(), Ok(()));
    }
}
