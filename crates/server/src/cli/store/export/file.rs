//! The output of an export: standard output, or a file that gets its name once it is complete and on disk.

use crate::cli::exit::{Failure, Result};
use duetime_store::private::Draft;
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};

/// The size of the write buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// A place for lines.
pub(super) enum Out {
    Standard(BufWriter<Stdout>),
    File { file: BufWriter<Draft>, path: PathBuf },
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
            return Err(is_there(path));
        }
        let file = Draft::of(path);
        let file = file.map_err(|error| Failure::error(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self::File { file: BufWriter::with_capacity(BUFFER_BYTES, file), path: path.to_owned() })
    }

    /// All has been written.
    pub(super) fn finish(self) -> Result {
        match self {
            Self::Standard(mut out) => Ok(out.flush()?),
            Self::File { file, path } => {
                let kept = file.into_inner().map_err(io::IntoInnerError::into_error)?.keep();
                kept.map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => is_there(&path),
                    _ => error.into(),
                })
            }
        }
    }
}

fn is_there(path: &Path) -> Failure {
    Failure::error(format!("{} exists already", path.display())).hint("name a new file")
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
