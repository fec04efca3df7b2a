//! Bodies as they come, plain or in gzip, within a limit of what they become.

use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

/// Bytes decoded at once. The size of the output is checked in between.
const PIECE_BYTES: usize = 64;
/// Most bytes that one piece decodes to, with the output that the decoder held back. Deflate expands at most 1,032 times.
const PIECE_DECODED_MAX: usize = PIECE_BYTES * 1_032 + (64 << 10);
/// The size of a decoder.
const DECODER_BYTES: usize = 64 << 10;

/// The body received so far.
pub(crate) enum Intake {
    /// As it was sent.
    Plain(Within),
    /// Decoded.
    Gzip(Box<MultiGzDecoder<Within>>),
}

/// Why a body is no good.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// There is more of it than may be.
    TooLarge,
    /// It is not in gzip, or cut off.
    NoGzip,
}

/// Bytes within a limit.
pub(crate) struct Within {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Intake {
    /// Nothing yet of a body of at most so many bytes once it is decoded.
    pub(crate) fn new(is_gzip: bool, bytes_max: usize) -> Self {
        let within = Within { bytes: Vec::new(), bytes_max };
        if is_gzip { Self::Gzip(Box::new(MultiGzDecoder::new(within))) } else { Self::Plain(within) }
    }

    /// How many bytes to hold before it takes this part: doubled each time, up to the announced length.
    pub(crate) fn wanted(&self, part: &[u8], announced: Option<usize>) -> usize {
        let (within, more, own) = match self {
            Self::Plain(within) => (within, part.len(), 0),
            Self::Gzip(decoder) => (decoder.get_ref(), PIECE_DECODED_MAX, DECODER_BYTES),
        };
        // Output beyond the limit is refused before memory is taken for it.
        let (needed, now) = ((within.bytes.len() + more).min(within.bytes_max), within.bytes.capacity());
        if needed <= now {
            return now + own;
        }
        let announced = announced.filter(|_| matches!(self, Self::Plain(_))).unwrap_or(within.bytes_max);
        needed.max((2 * now).min(announced)) + own
    }

    /// Makes room for so many bytes in all.
    pub(crate) fn hold(&mut self, bytes: usize) {
        let (within, bytes) = match self {
            Self::Plain(within) => (within, bytes),
            Self::Gzip(decoder) => (decoder.get_mut(), bytes.saturating_sub(DECODER_BYTES)),
        };
        within.bytes.reserve_exact(bytes.saturating_sub(within.bytes.len()));
    }

    /// The parts in which a piece of the body is to be taken.
    pub(crate) fn parts<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
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
    pub(crate) fn take(&mut self, part: &[u8]) -> Result<(), Flaw> {
        match self {
            Self::Plain(within) => within.write_all(part),
            Self::Gzip(decoder) => decoder.write_all(part),
        }
        .map_err(Flaw::from)
    }

    /// All of it.
    ///
    /// # Errors
    /// [`Flaw`].
    pub(crate) fn finish(self) -> Result<Vec<u8>, Flaw> {
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
        if error.kind() == io::ErrorKind::FileTooLarge { Self::TooLarge } else { Self::NoGzip }
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
        let flawed = intake.parts(&bomb).find_map(|part| {
            let wanted = intake.wanted(part, None);
            intake.hold(wanted);
            let taken = intake.take(part);
            let Intake::Gzip(decoder) = &intake else { unreachable!("it is in gzip") };
            assert!(decoder.get_ref().bytes.capacity() + DECODER_BYTES <= wanted, "no more is held than was wanted");
            taken.err()
        });
        assert!(matches!(flawed, Some(Flaw::TooLarge)));
    }

    #[test]
    fn what_is_cut_off_or_no_gzip_is_told() {
        let whole = packed(b"{\"payload\":1}");
        assert_eq!(read(&whole, 100).unwrap(), b"{\"payload\":1}");
        assert_eq!(read(&[whole.clone(), packed(b" ")].concat(), 100).unwrap(), b"{\"payload\":1} ");
        for wrong in [&whole[..whole.len() - 1], b"{}", b"\x1f\x8b\x08nonsense"] {
            assert!(matches!(read(wrong, 100), Err(Flaw::NoGzip)), "{wrong:?}");
        }
    }
}
