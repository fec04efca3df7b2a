//! A call of a script, packed so that it can be repeated.

use redis::Cmd;

/// Byte strings, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Text {
    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// A number, as decimal digits.
    pub(super) fn number(&mut self, number: u64) {
        use std::io::Write;
        // Writing into a vector cannot fail.
        let _ = write!(self.bytes, "{number}");
        self.ends.push(self.bytes.len());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.push(if flag { b"1" } else { b"0" });
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

/// Maximum bytes of a call or of a reply, unless one job alone has more: longer ones would delay those of others. They take 1.7 s
/// at 10 Mbit/s.
pub(super) const CALL_BYTES_MAX: usize = 2 << 20;

/// A script with its keys and arguments.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static super::scripts::Script,
    pub(super) keys: Text,
    pub(super) arguments: Text,
}

/// How much a reply may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyBound {
    /// The number of bytes.
    pub(super) bytes: usize,
    /// Whether one job that is larger is sent all the same.
    pub(super) any_job: bool,
}

impl ReplyBound {
    /// As scripts of jobs expect it in the argument of [`BOUNDED_AT`].
    fn text(self) -> String {
        format!("{}{}", if self.any_job { 'y' } else { 'n' }, self.bytes)
    }
}

/// The argument of scripts of jobs that ends with the bound of the reply.
const BOUNDED_AT: usize = 2;

impl Call {
    /// The bytes of its keys and arguments.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.arguments.bytes()
    }

    /// The command that runs it: by the script's hash, or with its source.
    pub(super) fn command(&self, with_source: bool, bound: ReplyBound) -> Cmd {
        let mut command = Cmd::with_capacity(
            3 + self.keys.len() + self.arguments.len(),
            100 + self.keys.bytes() + self.arguments.bytes(),
        );
        if with_source {
            command.arg("EVAL").arg(self.script.source());
        } else {
            command.arg("EVALSHA").arg(self.script.hash());
        }
        command.arg(self.keys.len());
        self.keys.iter().for_each(|key| {
            command.arg(key);
        });
        for (at, argument) in self.arguments.iter().enumerate() {
            if at == BOUNDED_AT && self.script.is_bounded() {
                command.arg([argument, bound.text().as_bytes()].concat());
            } else {
                command.arg(argument);
            }
        }
        command
    }
}
