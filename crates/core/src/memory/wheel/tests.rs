//! The wheel against a plain ordered map, and the cases that a wheel gets wrong.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const YEAR_MS: u64 = 365 * 24 * 3_600_000;
/// More than any test here cascades.
const UNBOUNDED: usize = usize::MAX;

fn expire<T: Copy>(wheel: &mut Wheel<T>, now: u64) -> Vec<T> {
    let mut out = Vec::new();
    while wheel.expire(now, 100, |value| out.push(value)) {}
    out
}

/// The wheel beside its oracle. Values are numbers in the order of insertion.
struct Pair {
    wheel: Wheel<u64>,
    model: BTreeMap<(u64, u64), Handle>,
    handles: Vec<(u64, u64, Handle)>,
}

impl Pair {
    fn new(now: u64) -> Self {
        Self { wheel: Wheel::new(now), model: BTreeMap::new(), handles: Vec::new() }
    }

    fn insert(&mut self, due: u64) {
        let value = self.handles.len() as u64;
        let handle = self.wheel.insert(due, value);
        let due = due.max(self.wheel.now());
        assert!(self.handles.iter().all(|(_, _, other)| *other != handle), "a handle is never given twice");
        self.model.insert((due, value), handle);
        self.handles.push((due, value, handle));
    }

    fn cancel(&mut self, at: usize) {
        if self.handles.is_empty() {
            return;
        }
        let (due, value, handle) = self.handles[at % self.handles.len()];
        let expected = self.model.remove(&(due, value)).map(|_| value);
        assert_eq!(self.wheel.cancel(handle), expected);
    }

    fn expire(&mut self, now: u64, limit: usize, work: usize) {
        let before = self.wheel.now();
        let target = now.max(before);
        let due: Vec<_> = self.model.range(..=(target, u64::MAX)).map(|(key, _)| *key).collect();
        let mut out = Vec::new();
        let again = self.wheel.turn(now, limit, work, |value| out.push(value));
        let expected: Vec<_> = due.iter().map(|(_, value)| *value).collect();
        assert!(out.len() <= limit);
        assert_eq!(out, expected[..out.len()], "in order");
        for key in &due[..out.len()] {
            self.model.remove(key);
        }
        if again {
            assert!(work != UNBOUNDED || (out.len() == limit && due.len() > limit), "called again for nothing");
            assert!((before..=target).contains(&self.wheel.now()));
        } else {
            assert_eq!(out.len(), due.len(), "handed out all that is due");
            assert_eq!(self.wheel.now(), target);
        }
        self.check();
    }

    /// Looks again when told to, until that is the true time.
    fn look(&mut self) {
        let Some(((first, _), _)) = self.model.first_key_value() else {
            return;
        };
        for _ in 0..slots::LEVELS {
            let next = self.wheel.next_expiry().expect("something waits");
            if next == *first {
                return;
            }
            let again = self.wheel.turn(next, 0, UNBOUNDED, |_| panic!("nothing is due yet"));
            assert!(!again || self.wheel.now() == *first);
        }
        assert_eq!(self.wheel.next_expiry(), Some(*first));
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        assert_eq!(self.wheel.is_empty(), self.model.is_empty());
        let first = self.model.first_key_value().map(|((due, _), _)| *due);
        let next = self.wheel.next_expiry();
        assert_eq!(next.is_some(), first.is_some());
        if let (Some(next), Some(first)) = (next, first) {
            let now = self.wheel.now();
            assert!(now <= next && next <= first, "now {now}, next {next}, first {first}");
            if self.wheel.cascading == 0 && level_of(now, first) == 0 {
                assert_eq!(next, first, "exact in the lowest level");
            }
        }
    }

    fn check_scan(&self, count: usize) {
        let (mut seen, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let before = seen.len();
            from = self.wheel.scan(at, count, |due, value| seen.push((due, value)));
            assert!(seen.len() - before <= count);
        }
        seen.sort_unstable();
        assert!(seen.iter().eq(self.model.keys()));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    InsertMany(u64, usize),
    InsertAt(u64),
    /// At the due time of an earlier one.
    InsertLike(usize),
    Cancel(usize),
    CancelMany(usize, usize),
    Expire(u64, usize, usize),
    Look,
    Scan(usize),
}

fn ahead() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3_u64,
        0..300_u64,
        250..260_u64,
        65_530..65_540_u64,
        0..3_600_000_u64,
        (1 << 24) - 3..(1 << 24) + 3_u64,
        0..10 * YEAR_MS,
        (1 << 40) - 3..(1 << 40) + 3_u64,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let limit = prop_oneof![0..4_usize, 10..40_usize, Just(usize::MAX)];
    let work = prop_oneof![1..40_usize, Just(UNBOUNDED), Just(UNBOUNDED)];
    prop_oneof![
        6 => ahead().prop_map(Step::Insert),
        2 => (ahead(), 2..60_usize).prop_map(|(ahead, count)| Step::InsertMany(ahead, count)),
        1 => prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(u64::MAX - 1)].prop_map(Step::InsertAt),
        3 => any::<usize>().prop_map(Step::InsertLike),
        4 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), 2..60_usize).prop_map(|(at, count)| Step::CancelMany(at, count)),
        6 => (ahead(), limit, work).prop_map(|(ahead, limit, work)| Step::Expire(ahead, limit, work)),
        1 => Just(Step::Look),
        1 => (1..20_usize).prop_map(Step::Scan),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn does_what_an_ordered_map_does(
        start in prop_oneof![Just(0), 0..10 * YEAR_MS, u64::MAX - 70_000..=u64::MAX],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut pair = Pair::new(start);
        for step in steps {
            let now = pair.wheel.now();
            match step {
                Step::Insert(ahead) => pair.insert(now.saturating_add(ahead)),
                Step::InsertMany(ahead, count) => (0..count).for_each(|_| pair.insert(now.saturating_add(ahead))),
                Step::InsertAt(due) => pair.insert(due),
                Step::InsertLike(at) if !pair.handles.is_empty() => {
                    pair.insert(pair.handles[at % pair.handles.len()].0);
                }
                Step::InsertLike(_) => {}
                Step::Cancel(at) => pair.cancel(at),
                Step::CancelMany(at, count) => (0..count).for_each(|more| pair.cancel(at.wrapping_add(more))),
                Step::Expire(ahead, limit, work) => pair.expire(now.saturating_add(ahead), limit, work),
                Step::Look => pair.look(),
                Step::Scan(count) => pair.check_scan(count),
            }
            pair.check();
        }
        while !pair.model.is_empty() {
            pair.expire(u64::MAX, 7, 20);
        }
        pair.check_scan(10);
    }
}

#[test]
fn two_hours_and_19_seconds_ahead_is_not_early() {
    // A one-level wheel of 3,600 slots holds this at slot 20, and fires it early if it ignores the rounds.
    let mut wheel = Wheel::new(1);
    wheel.insert(1 + 7_219, ());
    for now in 1..7_220 {
        assert!(expire(&mut wheel, now).is_empty(), "early, at {now}");
    }
    assert_eq!(expire(&mut wheel, 7_220).len(), 1);
}

#[test]
fn fires_at_its_tick_at_the_edges_of_slots() {
    let edges = [1, 255, 256, 257, 65_535, 65_536, 65_537, (1 << 24) - 1, 1 << 24, 1 << 32, 1 << 40, 10 * YEAR_MS];
    for now in [0, 1, 255, 256, 65_535, 1_700_000_000_000] {
        for ahead in edges {
            let mut wheel = Wheel::new(now);
            wheel.insert(now + ahead, ahead);
            assert!(expire(&mut wheel, now + ahead - 1).is_empty(), "{ahead} from {now}");
            assert_eq!(wheel.next_expiry(), Some(now + ahead));
            assert_eq!(expire(&mut wheel, now + ahead), [ahead], "{ahead} from {now}");
        }
    }
}

#[test]
fn the_last_tick_there_is_can_be_reached() {
    let mut wheel = Wheel::new(0);
    wheel.insert(u64::MAX, 1);
    assert!(expire(&mut wheel, u64::MAX - 1).is_empty());
    assert_eq!(expire(&mut wheel, u64::MAX), [1]);
    wheel.insert(u64::MAX, 2);
    assert_eq!(wheel.next_expiry(), Some(u64::MAX));
    assert_eq!(expire(&mut wheel, 0), [2]);
}

#[test]
fn what_is_late_goes_out_at_the_next_call_behind_its_tick() {
    let mut wheel = Wheel::new(1_000);
    wheel.insert(1_000, 1);
    wheel.insert(0, 2);
    wheel.insert(1_001, 3);
    assert_eq!(wheel.next_expiry(), Some(1_000));
    assert_eq!(expire(&mut wheel, 0), [1, 2]);
    assert_eq!(wheel.now(), 1_000);
}

#[test]
fn a_stale_handle_does_nothing() {
    let mut wheel = Wheel::new(0);
    let fired = wheel.insert(1, 1);
    expire(&mut wheel, 1);
    let cancelled = wheel.insert(5, 2);
    assert_eq!(cancelled.index, fired.index, "the number is used again");
    assert_eq!(wheel.cancel(fired), None);
    assert_eq!(wheel.cancel(cancelled), Some(2));
    wheel.insert(5, 3);
    assert_eq!(wheel.cancel(cancelled), None);
    assert_eq!(expire(&mut wheel, 5), [3]);
}

#[test]
fn handles_stay_stale_when_the_count_of_inserts_wraps() {
    let mut wheel = Wheel::new(0);
    let old = wheel.insert(1, 1);
    wheel.stamp = NonZeroU32::MAX;
    let last = wheel.insert(1, 2);
    assert_eq!(wheel.cancel(last), Some(2));
    let wrapped = wheel.insert(1, 3);
    assert_eq!((wrapped.index, wrapped.stamp), (last.index, NonZeroU32::MIN));
    assert_eq!(wheel.cancel(last), None);
    assert_eq!(wheel.cancel(old), Some(1));
}

#[test]
fn a_million_on_one_tick_go_in_bounded_steps() {
    const COUNT: u64 = 1_000_000;
    const LIMIT: usize = 10_000;
    let mut wheel = Wheel::new(0);
    let handles: Vec<_> = (0..COUNT).map(|value| wheel.insert(1 << 20, value)).collect();
    let mut out = Vec::new();
    let (mut calls, mut cancelled) = (0, 0);
    loop {
        let before = out.len();
        let again = wheel.expire(1 << 20, LIMIT, |value| out.push(value));
        assert!(out.len() - before <= LIMIT);
        calls += 1;
        if calls == 3 {
            assert!(out.is_empty() && wheel.cascading > 0, "the slot is still being spread");
            assert_eq!(wheel.next_expiry(), Some(wheel.now()));
            wheel.insert(1 << 20, COUNT);
            cancelled = handles.iter().step_by(4).filter(|handle| wheel.cancel(**handle).is_some()).count();
        }
        if !again {
            break;
        }
    }
    assert!(calls > COUNT as usize * 3 / 4 / CASCADE_MAX, "{calls} calls: cascading is bounded");
    assert_eq!(cancelled as u64, COUNT / 4);
    assert!(out.iter().copied().eq((0..=COUNT).filter(|value| value % 4 != 0 || *value == COUNT)));
    assert!(wheel.bytes() <= KEEP_BYTES_MAX);
}

#[test]
fn memory_follows_what_waits() {
    const COUNT: usize = 100_000;
    assert!(size_of::<Wheel<u64>>() <= 192);
    assert_eq!(size_of::<Entry<u64>>(), 24);
    assert_eq!(size_of::<Option<Handle>>(), 8);
    let mut wheel = Wheel::new(0);
    assert_eq!(wheel.bytes(), 0);
    let handles: Vec<_> = (0..COUNT as u64).map(|value| wheel.insert(1 + value * 36, value)).collect();
    assert!(wheel.bytes() <= 40 * COUNT, "{} bytes", wheel.bytes());
    handles.iter().for_each(|handle| assert!(wheel.cancel(*handle).is_some()));
    assert_eq!(wheel.bytes(), 0, "given back");
    assert_eq!(wheel.cancel(handles[0]), None);

    // Most jobs are cancelled long before they come due: their memory must serve the next ones.
    let mut peak = 0;
    let kept = wheel.insert(YEAR_MS, 0);
    for round in 0..1_000 {
        let handles: Vec<_> = (0..100).map(|more| wheel.insert(3_600_000 + round * 10 + more, more)).collect();
        handles.iter().for_each(|handle| assert!(wheel.cancel(*handle).is_some()));
        peak = peak.max(wheel.bytes());
    }
    assert!(peak <= KEEP_BYTES_MAX, "{peak} bytes for at most 101 entries");
    assert_eq!(wheel.cancel(kept), Some(0));
}
