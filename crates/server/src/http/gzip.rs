//! Bodies as they come, plain or in gzip, within a limit of what they become.

use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

/// How much is decoded at once: what it becomes is looked at in between, and gzip makes at most a thousand times as much.
const PIECE_BYTES: usize = 4 << 10;

/// What came of a body so far.
pub(super) enum Intake {
    /// As it was sent.
    Plain(Within),
    /// Decoded.
    Gzip(Box<MultiGzDecoder<Within>>),
}

/// Why a body is no good.
#[derive(Debug)]
pub(super) enum Flaw {
    /// There is more of it than may be.
    TooLarge,
    /// It is not in gzip, or cut off.
    NoGzip(io::Error),
}

/// Bytes within a limit.
pub(super) struct Within {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Intake {
    /// Nothing yet of a body of at most so many bytes once it is decoded.
    pub(super) fn new(is_gzip: bool, bytes_max: usize) -> Self {
        let within = Within { bytes: Vec::new(), bytes_max };
        if is_gzip { Self::Gzip(Box::new(MultiGzDecoder::new(within))) } else { Self::Plain(within) }
    }

    /// Makes room for what was announced.
    pub(super) fn reserve(&mut self, bytes: usize) {
        if let Self::Plain(within) = self {
            within.bytes.reserve_exact(bytes);
        }
    }

    /// The parts in which a piece of the body is to be taken.
    pub(super) fn parts<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let size = match self {
            Self::Plain(_) => data.len().max(1),
            Self::Gzip(_) => PIECE_BYTES,
        };
        data.chunks(size)
    }

    /// Takes one part.
    ///
    /// # Errors
    /// [`Flaw`].
    pub(super) fn take(&mut self, part: &[u8]) -> Result<(), Flaw> {
        match self {
            Self::Plain(within) => within.write_all(part),
            Self::Gzip(decoder) => decoder.write_all(part),
        }
        .map_err(Flaw::from)
    }

    /// How many bytes there are, decoded.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(within) => within.bytes.len(),
            Self::Gzip(decoder) => decoder.get_ref().bytes.len(),
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// [`Flaw`].
    pub(super) fn finish(self) -> Result<Vec<u8>, Flaw> {
        match self {
            Self::Plain(within) => Ok(within.bytes),
            Self::Gzip(decoder) => Ok(decoder.finish()?.bytes),
        }
    }
}

impl Write for Within {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::FileTooLarge { Self::TooLarge } else { Self::NoGzip(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, Flaw> {
        let mut intake = Intake::new(true, bytes_max);
        for part in intake.parts(bytes) {
            intake.take(part)?;
        }
        intake.finish()
    }

    #[test]
    fn a_bomb_is_defused() {
        let bomb = packed(&vec![b' '; 10 << 20]);
        assert!(bomb.len() < 20_000, "{}", bomb.len());
        assert!(matches!(read(&bomb, (10 << 20) - 1), Err(Flaw::TooLarge)));
        assert_eq!(read(&bomb, 10 << 20).unwrap().len(), 10 << 20);
        let mut intake = Intake::new(true, 1 << 20);
        let flawed =
            intake.parts(&bomb).map(|part| (intake.take(part), intake.len())).find(|(taken, _)| taken.is_err());
        assert!(flawed.is_some_and(|(_, len)| len <= 1 << 20));
    }

    #[test]
    fn what_is_cut_off_or_no_gzip_is_told() {
        let whole = packed(b"{\"payload\":1}");
        assert_eq!(read(&whole, 100).unwrap(), b"{\"payload\":1}");
        assert_eq!(read(&[whole.clone(), packed(b" ")].concat(), 100).unwrap(), b"{\"payload\":1} ");
        for wrong in [&whole[..whole.len() - 1], b"{}", b"\x1f\x8b\x08nonsense"] {
            assert!(matches!(read(wrong, 100), Err(Flaw::NoGzip(_))), "{wrong:?}");
        }
    }
}
