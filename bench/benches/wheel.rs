//! The timing wheel beside tokio-util's `DelayQueue` and a binary heap, at 1 k to 10 M waiting timers.
//!
//! `cargo bench -p duetime-bench --bench wheel`, about four minutes. Due times are uniform over one hour. Each queue is
//! filled once and then kept at its size, so the measured queue has been running, with well shuffled memory: a sixteenth of
//! it is inserted, cancelled in random order, or expired at a time, and the change is undone outside the measurement. The
//! heap does not support cancelling: it keeps a set of cancelled ids, and is rebuilt when half of it is cancelled.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use duetime_core::memory::wheel::{Handle, Wheel};
use tokio::runtime::Runtime;
use tokio_util::time::{DelayQueue, delay_queue};

const HOUR_MS: u64 = 3_600_000;
const SIZES: [(usize, &str); 5] =
    [(1_000, "1k"), (10_000, "10k"), (100_000, "100k"), (1_000_000, "1M"), (10_000_000, "10M")];
/// The part of a queue that one iteration changes.
const PART: usize = 16;
/// The most entries that a broker would take at once.
const EXPIRE_LIMIT: usize = 1_000;

/// A contender. Times are milliseconds from its making.
trait Timers {
    type Handle;

    fn new() -> Self;
    fn insert(&mut self, dues: &[u64], handles: &mut Vec<Self::Handle>);
    fn cancel(&mut self, handles: &[Self::Handle]);
    /// Turns to `now` and returns how many came due.
    fn expire(&mut self, now: u64) -> usize;
}

impl Timers for Wheel<u64> {
    type Handle = Handle;

    fn new() -> Self {
        Wheel::new(0)
    }

    fn insert(&mut self, dues: &[u64], handles: &mut Vec<Handle>) {
        handles.extend(dues.iter().map(|due| Wheel::insert(self, *due, *due)));
    }

    fn cancel(&mut self, handles: &[Handle]) {
        for handle in handles {
            black_box(Wheel::cancel(self, *handle));
        }
    }

    fn expire(&mut self, now: u64) -> usize {
        let before = self.len();
        while Wheel::expire(self, now, EXPIRE_LIMIT, |value| {
            black_box(value);
        }) {}
        before - self.len()
    }
}

struct Tokio {
    queue: DelayQueue<u64>,
    start: tokio::time::Instant,
    runtime: Runtime,
}

impl Timers for Tokio {
    type Handle = delay_queue::Key;

    fn new() -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        let (queue, start) = runtime.block_on(async { (DelayQueue::new(), tokio::time::Instant::now()) });
        Self { queue, start, runtime }
    }

    fn insert(&mut self, dues: &[u64], handles: &mut Vec<Self::Handle>) {
        let _inside = self.runtime.enter();
        handles.extend(dues.iter().map(|due| self.queue.insert_at(*due, self.start + Duration::from_millis(*due))));
    }

    fn cancel(&mut self, handles: &[Self::Handle]) {
        let _inside = self.runtime.enter();
        for key in handles {
            black_box(self.queue.remove(key));
        }
    }

    fn expire(&mut self, now: u64) -> usize {
        let Self { queue, start, runtime } = self;
        let to = *start + Duration::from_millis(now);
        // Not constrained by tokio's budget, which would end the loop after 128 timers.
        runtime.block_on(tokio::task::unconstrained(async {
            tokio::time::advance(to.saturating_duration_since(tokio::time::Instant::now())).await;
            let mut count = 0;
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    black_box(expired.into_inner());
                    count += 1;
                }
                Poll::Ready(count)
            })
            .await
        }))
    }
}

#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    cancelled: HashSet<u64>,
    next: u64,
}

impl Timers for Heap {
    type Handle = u64;

    fn new() -> Self {
        Self::default()
    }

    fn insert(&mut self, dues: &[u64], handles: &mut Vec<u64>) {
        for due in dues {
            self.heap.push(Reverse((*due, self.next)));
            handles.push(self.next);
            self.next += 1;
        }
    }

    fn cancel(&mut self, handles: &[u64]) {
        for id in handles {
            self.cancelled.insert(*id);
            if self.cancelled.len() * 2 > self.heap.len() {
                self.heap.retain(|Reverse((_, id))| !self.cancelled.contains(id));
                self.cancelled.clear();
            }
        }
    }

    fn expire(&mut self, now: u64) -> usize {
        let mut count = 0;
        while self.heap.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((_, id))) = self.heap.pop() else {
                break;
            };
            if self.cancelled.is_empty() || !self.cancelled.remove(&id) {
                black_box(id);
                count += 1;
            }
        }
        count
    }
}

/// xorshift64*: seeded, so that each run and each contender gets the same load.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }

    fn dues(&mut self, now: u64, count: usize) -> Vec<u64> {
        (0..count).map(|_| now + 1 + self.below(HOUR_MS)).collect()
    }
}

/// A contender kept at its size.
struct Load<Q: Timers> {
    queue: Q,
    handles: Vec<Q::Handle>,
    random: Random,
    now: u64,
}

impl<Q: Timers> Load<Q> {
    fn new(size: usize) -> Self {
        let mut load = Self { queue: Q::new(), handles: Vec::new(), random: Random(0x6aeb_8de1), now: 0 };
        load.insert(size);
        load
    }

    fn insert(&mut self, count: usize) -> Duration {
        let dues = self.random.dues(self.now, count);
        self.handles.reserve(count);
        let start = Instant::now();
        self.queue.insert(&dues, &mut self.handles);
        start.elapsed()
    }

    fn cancel(&mut self, count: usize) -> Duration {
        let keep = self.handles.len() - count;
        for at in (keep..self.handles.len()).rev() {
            let other = self.random.below(at as u64 + 1) as usize;
            self.handles.swap(at, other);
        }
        let chosen = self.handles.split_off(keep);
        let start = Instant::now();
        self.queue.cancel(&chosen);
        start.elapsed()
    }

    /// Returns the time and how many it was for. Handles are not kept up: cancel nothing afterwards.
    fn expire(&mut self, span_ms: u64) -> (Duration, usize) {
        self.now += span_ms;
        let start = Instant::now();
        let count = self.queue.expire(self.now);
        (start.elapsed(), count)
    }
}

fn contender<Q: Timers>(group: &mut BenchmarkGroup<'_, WallTime>, operation: &str, name: &str) {
    for (size, label) in SIZES {
        let part = size / PART;
        group.throughput(Throughput::Elements(part as u64));
        // Made on first use, so that a filter on the command line does not fill what it skips.
        let mut made: Option<Load<Q>> = None;
        group.bench_function(format!("{name}/{label}"), |bench| {
            let load = made.get_or_insert_with(|| Load::new(size));
            bench.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    match operation {
                        "insert" => {
                            total += load.insert(part);
                            load.cancel(part);
                        }
                        "cancel" => {
                            total += load.cancel(part);
                            load.insert(part);
                        }
                        _ => {
                            let (spent, count) = load.expire(HOUR_MS / PART as u64);
                            load.handles.clear();
                            load.insert(count);
                            // The load is random: scale to the part that is counted.
                            total += spent.mul_f64(part as f64 / count as f64);
                        }
                    }
                }
                total
            });
        });
    }
}

fn compare(criterion: &mut Criterion) {
    for operation in ["insert", "cancel", "expire"] {
        let mut group = criterion.benchmark_group(operation);
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        contender::<Wheel<u64>>(&mut group, operation, "wheel");
        contender::<Tokio>(&mut group, operation, "delay_queue");
        contender::<Heap>(&mut group, operation, "binary_heap");
        group.finish();
    }
}

criterion_group!(benches, compare);
criterion_main!(benches);
