//! Lines of a file or of standard input, one at a time.

use crate::cli::exit::{Failure, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line: a payload of 64 MiB in base64, a result, and the errors.
const LINE_BYTES_MAX: usize = 128 << 20;

/// Reads lines from a file or standard input.
pub(crate) struct Lines {
    from: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let from: Box<dyn BufRead + Send> = if path.as_os_str() == "-" {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let file = File::open(path);
            Box::new(BufReader::new(
                file.map_err(|error| Failure::error(format!("cannot read {}: {error}", path.display())))?,
            ))
        };
        Ok(Self { from, line: Vec::new(), number: 0 })
    }

    /// The next line and its number, from 1; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        self.line.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        if (&mut self.from).take(limit).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.len() > LINE_BYTES_MAX {
            let text = format!("line {}: expected at most {LINE_BYTES_MAX} bytes, got more", self.number);
            return Err(Failure::error(text).hint("the file must have one JSON object per line"));
        }
        Ok(Some((self.number, self.line.trim_ascii_end())))
    }
}
