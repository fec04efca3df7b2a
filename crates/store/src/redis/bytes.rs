//! Packed values.

/// Appends packed values.
#[derive(Debug)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub(super) fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// An instant, a duration in milliseconds, a version or an epoch: below 2^48.
    pub(super) fn instant(&mut self, number: u64) {
        assert!(number < 1 << 48, "instants and versions lie before the year 10889, not at {number}");
        self.0.extend_from_slice(&number.to_be_bytes()[2..]);
    }

    /// A name of at most 255 bytes.
    pub(super) fn short(&mut self, name: &str) {
        self.u8(u8::try_from(name.len()).expect("names are limited to 255 bytes"));
        self.0.extend_from_slice(name.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn long(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("what is kept is limited to some MiB"));
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn rest(mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        self.0
    }
}

/// Reads packed values; `None` if the input is too short.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.number(1).map(|number| number as u8)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|number| number as u16)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|number| number as u32)
    }

    pub(super) fn instant(&mut self) -> Option<u64> {
        self.number(6)
    }

    pub(super) fn short(&mut self) -> Option<&'a str> {
        let length = self.u8()?;
        std::str::from_utf8(self.take(usize::from(length))?).ok()
    }

    pub(super) fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    pub(super) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.long()?).ok()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }
}
