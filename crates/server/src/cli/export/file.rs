//! Where the lines go: standard output, or a file that has its name only once it is whole and on disk.

use crate::cli::exit::{Failure, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

/// What is gathered before it is written.
const BUFFER_BYTES: usize = 1 << 20;

/// A place for lines.
pub(super) enum Out {
    Standard(BufWriter<Stdout>),
    File { file: BufWriter<File>, part: PathBuf, path: PathBuf },
}

/// Whether this names standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Out {
    /// A new file, beside its later place, or standard output.
    pub(super) fn create(path: &Path) -> Result<Self> {
        if is_stdout(path) {
            return Ok(Self::Standard(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())));
        }
        if path.exists() {
            return Err(Failure::error(format!("{} is there already", path.display())).hint("name a new file"));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&part);
        let file = file.map_err(|error| Failure::error(format!("cannot write {}: {error}", part.display())))?;
        Ok(Self::File { file: BufWriter::with_capacity(BUFFER_BYTES, file), part, path: path.to_owned() })
    }

    /// All has been written.
    pub(super) fn finish(self) -> Result {
        match self {
            Self::Standard(mut out) => Ok(out.flush()?),
            Self::File { file, part, path } => {
                file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
                Ok(std::fs::rename(part, path)?)
            }
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File { file, .. } => file.flush(),
        }
    }
}
