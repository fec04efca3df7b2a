//! Random faults, from a seed, for each command on its way through a [proxy](super::Proxy).

use super::{Command, End, Fate, TooLong};
use duetime_core::testing::Random;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How much of a command is logged, in bytes.
const SHOWN: usize = 150;

/// The faults of one proxy.
#[derive(Debug)]
pub struct Fates {
    seed: u64,
    is_calm: AtomicBool,
    /// Of ten thousand commands, how many lose their connection, and how many are delayed.
    cut: u64,
    held: u64,
    /// Longer replies are lost.
    reply_max: Option<usize>,
    /// One for each connection, so that its decisions do not depend on others.
    randoms: Mutex<BTreeMap<u64, Random>>,
    log: Mutex<Vec<String>>,
}

impl Fates {
    /// The faults of this seed, disabled at first.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (cut, held) = (*random.of(&[20, 100, 300]), *random.of(&[200, 1_000, 2_500]));
        let is_calm = AtomicBool::new(true);
        Self { seed, is_calm, cut, held, reply_max: None, randoms: Mutex::default(), log: Mutex::default() }
    }

    /// Longer replies are always lost, with their connections: also while all other faults are disabled.
    #[must_use]
    pub fn losing_replies_over(self, bytes: usize) -> Self {
        Self { reply_max: Some(bytes), ..self }
    }

    /// Enables or disables faults from now on.
    pub fn set_calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::SeqCst);
    }

    /// The faults so far, without commands that passed unchanged.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().expect("no panic under this lock").clone()
    }

    /// Decides, at this instant.
    pub fn judge(&self, command: &Command<'_>, at_ms: u64) -> Fate {
        let usual = Fate { reply_max: self.reply_max.map(|bytes| (bytes, TooLong::Breaks)), ..Fate::default() };
        if self.is_calm.load(Ordering::SeqCst) {
            return usual;
        }
        let mut randoms = self.randoms.lock().expect("no panic under this lock");
        let begin = || Random::new(self.seed ^ (command.connection + 1).wrapping_mul(0x5851_f42d_4c95_7f2d));
        let random = randoms.entry(command.connection).or_insert_with(begin);
        let fate = Fate { reply_max: usual.reply_max, ..self.decide(random) };
        if fate != usual {
            let (seed, connection) = (self.seed, command.connection);
            let line = format!("{at_ms:>8} ms, {seed:x}, connection {connection}: {fate:?}: {}", shown(command.bytes));
            self.log.lock().expect("no panic under this lock").push(line);
        }
        fate
    }

    fn decide(&self, random: &mut Random) -> Fate {
        let hold = |random: &mut Random| {
            if random.within(0..10_000) >= self.held {
                return Duration::ZERO;
            }
            Duration::from_millis(match random.within(0..1_000) {
                0..900 => random.within(0..10),
                900..997 => random.within(10..150),
                // Longer than the time limit of a call.
                _ => random.within(150..4_000),
            })
        };
        let (held, reply_held) = (hold(random), hold(random));
        let end = if random.within(0..10_000) < self.cut {
            let late = Duration::from_millis(random.within(0..2_000));
            *random.of(&[End::Dropped, End::ReplyLost, End::ReplyLost, End::Late(late), End::Late(late)])
        } else {
            End::Answered
        };
        Fate { held, end, reply_held, ..Fate::default() }
    }
}

/// The beginning of a command, to be read.
pub(super) fn shown(bytes: &[u8]) -> String {
    let words = bytes.split(|&byte| byte == b'\n').filter(|word| !matches!(word.first(), Some(b'$' | b'*')));
    let text: Vec<u8> = words.flatten().copied().collect();
    let show = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { ' ' };
    text.iter().take(SHOWN).map(show).collect()
}
