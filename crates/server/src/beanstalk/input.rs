//! The input of a connection: bytes in pieces of any size become requests. Pure, except for the memory that it holds.

use super::command::{Command, LINE_BYTES_MAX, Put, Refusal, parse};
use bytes::{Buf, BytesMut};
use duetime_core::Payload;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A command without a body, and its word.
    Command(&'static str, Command),
    /// A job with its body.
    Put(Put, Payload),
    /// Input that is answered with one word.
    Refused(Refusal),
}

/// The expected input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Line,
    /// The rest of a line that is too long.
    LongLine,
    Body(Put),
    /// This many bytes of a body that is too large.
    Skip(u64),
}

/// Received bytes that are not parsed yet.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) buffer: BytesMut,
    state: State,
    /// Up to here the buffer has no CRLF.
    searched: usize,
    job_bytes_max: u32,
}

impl Input {
    pub(super) fn new(job_bytes_max: u32) -> Self {
        Self { buffer: BytesMut::new(), state: State::Line, searched: 0, job_bytes_max }
    }

    /// Bytes that the buffer must have room for: these few, or what came of a large body and its next part, at most this step or as
    /// much as came.
    pub(super) fn room(&self, free: usize, step: usize) -> usize {
        let (held, capacity) = (self.buffer.len(), self.buffer.capacity());
        match self.state {
            State::Body(put) if put.bytes as usize + 2 > free && held >= free / 2 => {
                let wanted = put.bytes as usize + 2 - held;
                // A part that has not come whole has its room already.
                if capacity > free.max(held) { capacity } else { held + wanted.min(step.max(held)) }
            }
            State::Body(_) | State::Line | State::LongLine | State::Skip(_) => free.max(held),
        }
    }

    /// Makes the buffer one of so many bytes.
    pub(super) fn make_room(&mut self, bytes: usize) {
        if self.buffer.capacity() != bytes {
            let mut buffer = BytesMut::with_capacity(bytes);
            buffer.extend_from_slice(&self.buffer);
            self.buffer = buffer;
        }
    }

    /// The next complete request.
    pub(super) fn next(&mut self) -> Option<Request> {
        loop {
            match self.state {
                State::Line => match self.line_end() {
                    Some(end) => {
                        let line = self.buffer.split_to(end);
                        self.buffer.advance(2);
                        self.searched = 0;
                        match parse(&line) {
                            Ok((_, Command::Put(put))) if put.bytes > self.job_bytes_max => {
                                self.state = State::Skip(u64::from(put.bytes) + 2);
                            }
                            Ok((_, Command::Put(put))) => self.state = State::Body(put),
                            Ok((word, command)) => return Some(Request::Command(word, command)),
                            Err(refusal) => return Some(Request::Refused(refusal)),
                        }
                    }
                    None if self.buffer.len() >= LINE_BYTES_MAX => self.state = State::LongLine,
                    None => return None,
                },
                State::LongLine => {
                    let Some(end) = self.line_end() else {
                        // A CR that comes last may be half of the end.
                        let keeps = usize::from(self.buffer.last() == Some(&b'\r'));
                        self.buffer.advance(self.buffer.len() - keeps);
                        self.searched = 0;
                        return None;
                    };
                    self.buffer.advance(end + 2);
                    (self.state, self.searched) = (State::Line, 0);
                    return Some(Request::Refused(Refusal::BadFormat));
                }
                State::Body(put) => {
                    let bytes = put.bytes as usize;
                    if self.buffer.len() < bytes + 2 {
                        return None;
                    }
                    let body = self.buffer.split_to(bytes);
                    let ends = self.buffer.starts_with(b"\r\n");
                    self.buffer.advance(2);
                    self.state = State::Line;
                    if !ends {
                        return Some(Request::Refused(Refusal::ExpectedCrlf));
                    }
                    return Some(Request::Put(put, Payload::from(&*body)));
                }
                State::Skip(left) => {
                    let skipped = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.buffer.advance(skipped);
                    let left = left - skipped as u64;
                    if left > 0 {
                        self.state = State::Skip(left);
                        return None;
                    }
                    self.state = State::Line;
                    return Some(Request::Refused(Refusal::JobTooBig));
                }
            }
        }
    }

    /// The offset of the line's CRLF.
    fn line_end(&mut self) -> Option<usize> {
        let found = self.buffer[self.searched..].windows(2).position(|pair| pair == b"\r\n");
        let end = found.map(|at| self.searched + at);
        self.searched = self.buffer.len().saturating_sub(1);
        end
    }
}
