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

/// A script with its keys and arguments.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static super::scripts::Script,
    pub(super) keys: Text,
    pub(super) arguments: Text,
}

impl Call {
    /// The command that runs it: by the script's hash, or with its source.
    pub(super) fn command(&self, with_source: bool) -> Cmd {
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
        self.keys.iter().chain(self.arguments.iter()).for_each(|text| {
            command.arg(text);
        });
        command
    }
}
