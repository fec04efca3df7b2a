//! Files that are read again when they change. They are checked every second. Replacing a file by a rename, as tools and
//! mounted secrets do, is noticed like any other change. As long as they cannot be read, what was read before stays in use.

use crate::file_error::FileError;
use duetime_core::Engine;
use duetime_core::api::DegradedCode;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// How often the files are checked.
const LOOK: Duration = Duration::from_secs(1);
/// A check that takes longer is reported: a file on a network does not answer.
const SLOW: Duration = Duration::from_secs(5);

/// The state by which a change of a file, or of its owner or rights, is noticed; `None` if it cannot be read.
type Mark = Option<(SystemTime, u64, u64, i64, i64)>;

/// Reads files. Gets the value that was read before, if there is one.
type Read<T> = fn(&[PathBuf], Option<&T>) -> Result<T, FileError>;

/// Files, and the value that was read from them.
#[derive(Debug)]
pub(crate) struct FileWatch<T>(Arc<Watched<T>>);

#[derive(Debug)]
struct Watched<T> {
    what: DegradedCode,
    files: Vec<PathBuf>,
    read: Read<T>,
    current: watch::Sender<T>,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    /// The marks that the files had before the current value was read.
    marks: Vec<Mark>,
    /// Why they could not be read since.
    error: Option<String>,
}

impl<T: Clone + Send + Sync + 'static> FileWatch<T> {
    /// Reads the files. `what` is reported while they cannot be read again.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn open(what: DegradedCode, files: impl Into<Vec<PathBuf>>, read: Read<T>) -> Result<Self, FileError> {
        let files = files.into();
        // Before the files are read: what is written from now on counts as a change, however long it takes to start.
        let last = Mutex::new(Last { marks: marks(&files), error: None });
        let current = watch::Sender::new(read(&files, None)?);
        Ok(Self(Arc::new(Watched { what, files, read, current, last })))
    }

    /// A value that no file has.
    pub(crate) fn fixed(value: T) -> Self {
        let last = Mutex::new(Last { marks: Vec::new(), error: None });
        let read = |_: &[PathBuf], _: Option<&T>| unreachable!("there is nothing to read");
        Self(Arc::new(Watched {
            what: DegradedCode::Unknown,
            files: Vec::new(),
            read,
            current: watch::Sender::new(value),
            last,
        }))
    }

    /// The value that was last read.
    pub(crate) fn get(&self) -> T {
        self.0.current.borrow().clone()
    }

    /// Tells of each value that is read from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<T> {
        self.0.current.subscribe()
    }

    /// Reads the files again whenever they change, until the process stops. Reports why they cannot be read, and `None`
    /// once they can.
    pub(crate) async fn watch(&self, report: impl Fn(DegradedCode, Option<&str>)) {
        if self.0.files.is_empty() {
            return std::future::pending().await;
        }
        let mut reported = None;
        let mut tell = |error: Option<String>| {
            if error != reported {
                report(self.0.what, error.as_deref());
                reported = error;
            }
        };
        loop {
            let watched = self.0.clone();
            let mut looking = tokio::task::spawn_blocking(move || watched.look());
            if tokio::time::timeout(SLOW, &mut looking).await.is_err() {
                tell(Some(format!("{} does not answer", self.0.files[0].display())));
                drop(looking.await);
            }
            tell(self.0.last.lock().unwrap_or_else(PoisonError::into_inner).error.clone());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads the files again if they have changed, or could not be read.
    #[cfg(test)]
    pub(crate) fn look(&self) {
        self.0.look();
    }
}

impl<T> Watched<T> {
    fn look(&self) {
        let now = marks(&self.files);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.marks == now && last.error.is_none() {
            return;
        }
        let read = (self.read)(&self.files, Some(&self.current.borrow()));
        let error = match read {
            Ok(new) => {
                tracing::info!("read again: {}", self.files[0].display());
                self.current.send_replace(new);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        *last = Last { marks: now, error };
    }
}

/// Reports to the engine's health, which logs it.
pub(crate) fn to_health(engine: &Engine) -> impl Fn(DegradedCode, Option<&str>) + use<> {
    let engine = engine.clone();
    move |what, error| engine.set_degraded(what, error)
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    let mark = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len(), found.ino(), found.ctime(), found.ctime_nsec()))
    };
    files.iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[PathBuf], _: Option<&String>) -> Result<String, FileError> {
        std::fs::read_to_string(&files[0]).map_err(|error| FileError::new("words", &files[0], error.to_string()))
    }

    /// Certificates, tokens and keys of webhooks are all read here.
    #[test]
    fn a_file_that_changes_while_the_server_starts_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "one").unwrap();
        let watched = FileWatch::open(DegradedCode::Tokens, [file], |files, former| {
            let before = read(files, former);
            std::fs::write(&files[0], "the second").unwrap();
            before
        })
        .unwrap();
        assert_eq!(watched.get(), "one");
        let watched = FileWatch(Arc::new(Watched { read, ..Arc::into_inner(watched.0).unwrap() }));
        watched.look();
        assert_eq!(watched.get(), "the second");
    }

    /// It may have been put there by a user who then corrects its owner.
    #[test]
    fn a_file_that_could_not_be_read_is_read_once_it_can_be() {
        fn unlocked(files: &[PathBuf], former: Option<&String>) -> Result<String, FileError> {
            let lock = files[0].with_extension("locked");
            if lock.exists() { Err(FileError::new("words", &lock, "locked")) } else { read(files, former) }
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, lock) = (folder.path().join("a"), folder.path().join("a.locked"));
        std::fs::write(&file, "one").unwrap();
        let watched = FileWatch::open(DegradedCode::Tokens, [file.clone()], unlocked).unwrap();
        std::fs::write(&file, "the second").unwrap();
        std::fs::write(&lock, "").unwrap();
        watched.look();
        assert_eq!(watched.get(), "one");
        std::fs::remove_file(&lock).unwrap();
        watched.look();
        assert_eq!(watched.get(), "the second");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_is_reported_and_so_is_its_mend() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "one").unwrap();
        let watched = FileWatch::open(DegradedCode::Tokens, [file.clone()], read).unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let report = move |what, error: Option<&str>| tell.send((what, error.map(str::to_owned))).unwrap();
        let steps = async {
            std::fs::remove_file(&file).unwrap();
            let (what, error) = told.recv().await.unwrap();
            assert!(what == DegradedCode::Tokens && error.is_some_and(|error| error.contains("No such file")));
            std::fs::write(&file, "two").unwrap();
            assert_eq!(told.recv().await, Some((DegradedCode::Tokens, None)));
            assert_eq!(watched.get(), "two");
        };
        tokio::select! {
            () = watched.watch(report) => unreachable!("the watch never ends"),
            () = steps => {}
        }
    }

    /// On a network that is away, for one.
    #[tokio::test]
    async fn a_file_that_does_not_answer_holds_up_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "one").unwrap();
        let watched = FileWatch::open(DegradedCode::Tokens, [file.clone()], read).unwrap();
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let watching = watched.watch(|_, _| {});
        tokio::pin!(watching);
        // The reading waits for a writer meanwhile.
        for _ in 0..100 {
            tokio::select! {
                biased;
                () = &mut watching => unreachable!("the watch never ends"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(watched.get(), "one");
        let (into, mut changes) = (file.clone(), watched.changes());
        let written = std::thread::spawn(move || std::fs::write(into, "two"));
        tokio::select! {
            changed = changes.changed() => changed.unwrap(),
            () = &mut watching => unreachable!("the watch never ends"),
        }
        assert_eq!(watched.get(), "two");
        written.join().unwrap().unwrap();
        // The next reading may wait already, and the runtime waits for it.
        let pipe = folder.path().join("pipe");
        std::fs::rename(&file, &pipe).unwrap();
        std::fs::write(&file, "three").unwrap();
        drop(std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
    }
}
