//! The end of what a command writes, in bounded memory.

use std::collections::VecDeque;

/// The last bytes of a stream.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    /// Bytes that are no longer there.
    lost: u64,
}

impl Tail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max, lost: 0 }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        let kept = &chunk[chunk.len().saturating_sub(self.bytes_max)..];
        let over = (self.bytes.len() + kept.len()).saturating_sub(self.bytes_max);
        self.bytes.drain(..over);
        self.bytes.extend(kept);
        self.lost += (over + chunk.len() - kept.len()) as u64;
    }

    /// All that came, unless it was more than is kept.
    pub(super) fn whole(self) -> Option<Vec<u8>> {
        (self.lost == 0).then(|| self.bytes.into())
    }

    /// The end as text, from the start of a character, saying where something is missing.
    pub(super) fn text(&self) -> String {
        let is_within = |&&byte: &&u8| byte & 0b1100_0000 == 0b1000_0000;
        let cut = if self.lost > 0 { self.bytes.iter().take(3).take_while(is_within).count() } else { 0 };
        let bytes: Vec<u8> = self.bytes.iter().skip(cut).copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        match self.lost {
            0 => text.to_owned(),
            lost => format!("({} bytes omitted) … {text}", lost + cut as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_end() {
        let mut tail = Tail::new(8);
        tail.push(b"hello ");
        assert_eq!(tail.text(), "hello");
        assert_eq!(Tail::new(8).whole(), Some(Vec::new()));
        tail.push(b"world\n");
        assert_eq!(tail.text(), "(4 bytes omitted) … o world");
        tail.push(&[b'x'; 100]);
        assert_eq!(tail.text(), format!("(104 bytes omitted) … {}", "x".repeat(8)));
        assert_eq!(tail.whole(), None);
    }

    #[test]
    fn it_cuts_at_characters() {
        let mut tail = Tail::new(5);
        tail.push("äöü".as_bytes());
        assert_eq!(tail.text(), "(2 bytes omitted) … öü");
        tail.push(b"\xff");
        assert_eq!(tail.text(), "(2 bytes omitted) … öü\u{fffd}");
    }
}
