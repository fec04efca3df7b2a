//! The families of an engine: jobs, queues, stores, health.

use super::{Exposition, Label, seconds};
use crate::api::{Attention, AttentionKind, Health};
use crate::clock::Millis;
use crate::engine::Engine;
use crate::engine::metrics::{Histogram, Metrics, QUEUES_MAX, QueueMetrics};
use crate::engine::observatory::{Starts, Sum};
use crate::ports::Totals;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Counted = [(Arc<str>, Arc<QueueMetrics>)];
type Held = [(Arc<str>, Sum)];

impl Engine {
    /// The metrics of this engine as they are now, for an edge that adds its own. While its stores do not answer, their
    /// counts are missing, and `duetime_ready` and all else is there: an alert must see it.
    pub async fn exposition(&self) -> Exposition {
        let held = self.sums().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "metrics without the counts of the stores");
            Vec::new()
        });
        let counted = self.metrics().queues();
        let mut exposition = Exposition::default();
        exposition.of_process(&counted);
        exposition.of_store(&held, self.now());
        exposition.of_lateness(&held, &self.lately(), self.now());
        exposition.of_workers(&held, &self.workers_by_queue());
        exposition.of_targets(self);
        exposition.of_engine(&self.health(), self.metrics());
        exposition.of_attention(&self.attention(|_| true).await);
        exposition
    }
}

impl Exposition {
    fn of_process(&mut self, counted: &Counted) {
        type Counter = (&'static str, &'static str, fn(&QueueMetrics) -> &AtomicU64);
        let counters: [Counter; 9] = [
            ("duetime_jobs_pushed", "New jobs", |queue| &queue.pushed),
            ("duetime_jobs_succeeded", "Jobs that were completed or taken", |queue| &queue.succeeded),
            ("duetime_jobs_failed", "Jobs that became dead letters", |queue| &queue.failed),
            ("duetime_jobs_cancelled", "Jobs that were cancelled", |queue| &queue.cancelled),
            ("duetime_attempts_started", "Attempts that were started", |queue| &queue.started),
            ("duetime_attempts_failed", "Attempts that their worker failed", |queue| &queue.attempts_failed),
            ("duetime_attempts_crashed", "Attempts whose lease expired", |queue| &queue.attempts_crashed),
            ("duetime_attempts_released", "Attempts that were released", |queue| &queue.released),
            ("duetime_queue_full", "New jobs for which the queue had no place", |queue| &queue.full),
        ];
        for (name, help, counter) in counters {
            let count = |metrics| counter(metrics).load(Ordering::Relaxed);
            self.counters(name, help, counted.iter().map(|(queue, metrics)| (of(queue), count(metrics))));
        }
        type Times = (&'static str, &'static str, fn(&QueueMetrics) -> &Histogram);
        let times: [Times; 2] = [
            ("duetime_lateness_seconds", "From the due time to the start of the first attempt", |queue| {
                &queue.lateness
            }),
            ("duetime_attempt_seconds", "From the start of an attempt to its outcome", |queue| &queue.duration),
        ];
        for (name, help, histogram) in times {
            self.histograms(name, help, counted.iter().map(|(queue, metrics)| (of(queue), histogram(metrics))));
        }
    }

    fn of_store(&mut self, held: &Held, now: Millis) {
        // They continue across restarts.
        type Total = (&'static str, &'static str, fn(&Totals) -> u64);
        let totals: [Total; 4] = [
            ("pushed", "Jobs ever pushed to the queue", |all| all.pushed),
            ("succeeded", "Jobs that ever succeeded", |all| all.succeeded),
            ("failed", "Jobs that ever failed for good", |all| all.failed),
            ("cancelled", "Jobs that were ever cancelled", |all| all.cancelled),
        ];
        for (word, what, total) in totals {
            let (name, help) = (format!("duetime_queue_{word}"), format!("{what}, by all processes and over restarts"));
            self.counters(&name, &help, held.iter().map(|(queue, sum)| (of(queue), total(&sum.tally.totals))));
        }
        type Gauge = (&'static str, &'static str, fn(&Sum, Millis) -> f64);
        let gauges: [Gauge; 6] = [
            ("duetime_jobs_scheduled", "Jobs due in the future", |held, _| held.counts.scheduled as f64),
            ("duetime_jobs_ready", "Jobs that are due and wait", |held, _| held.counts.ready as f64),
            ("duetime_jobs_running", "Jobs that are leased", |held, _| held.counts.running as f64),
            ("duetime_jobs_dead", "Dead letters that are kept", |held, _| held.tally.failed as f64),
            (
                "duetime_queue_oldest_ready_seconds",
                "How long the ready job has waited that waits longest",
                |held, now| {
                    held.counts
                        .oldest_due
                        .map_or(0.0, |due_at| seconds(now.saturating_sub(due_at.0).saturating_mul(1_000)))
                },
            ),
            ("duetime_queue_paused", "Whether the queue is paused", |held, _| held.paused as f64),
        ];
        for (name, help, gauge) in gauges {
            self.gauges(name, help, held.iter().map(|(queue, held)| (of(queue), gauge(held, now))));
        }
    }

    /// How late jobs are now: those that start, or those that still wait. A paused queue makes them wait.
    fn of_lateness(&mut self, held: &Held, lately: &HashMap<Arc<str>, Starts>, now: Millis) {
        let late = held.iter().map(|(queue, sum)| {
            let wait_ms =
                sum.counts.oldest_due.filter(|_| sum.paused == 0).map_or(0, |since| now.saturating_sub(since.0));
            let late_ms = lately.get(queue).and_then(|starts| starts.late_ms).unwrap_or(0);
            (of(queue), seconds(wait_ms.max(late_ms).saturating_mul(1_000)))
        });
        let help = "How late jobs are now: the 99th percentile of starts in the last two minutes, or the wait of the oldest \
                    ready job if that is more and the queue is not paused";
        self.gauges("duetime_queue_lateness_seconds", help, late);
    }

    fn of_workers(&mut self, held: &Held, workers: &HashMap<Arc<str>, u64>) {
        let counts = held.iter().map(|(queue, _)| (of(queue), workers.get(queue).copied().unwrap_or(0) as f64));
        let help = "Workers that have asked this server for jobs of the queue within the last minute";
        self.gauges("duetime_queue_workers", help, counts);
    }

    fn of_targets(&mut self, engine: &Engine) {
        let (now, down) = (engine.now(), engine.targets_down());
        let queues = engine.queues_with_targets().into_iter().take(QUEUES_MAX).map(|(queue, _)| {
            let ms = down.get(&queue).map_or(0, |down| now.saturating_sub(down.since));
            (queue, seconds(ms.saturating_mul(1_000)))
        });
        let queues: Vec<_> = queues.collect();
        let help = "How long the target of the queue has taken no job of this server; 0 if all is well";
        let samples = queues.iter().map(|(queue, seconds)| (of(queue), *seconds));
        self.gauges("duetime_target_down_seconds", help, samples);
    }

    fn of_attention(&mut self, attention: &Attention) {
        let count = |kind| attention.items.iter().filter(|item| item.kind == kind).count();
        let kinds = AttentionKind::ALL.map(|kind| (Some(("kind", kind.word())), count(kind) as f64));
        self.gauges("duetime_attention", "What needs attention, by kind; see GET /v1/attention", kinds);
    }

    fn of_engine(&mut self, health: &Health, metrics: &Metrics) {
        let gauges = [
            ("duetime_ready", "Whether jobs are handed out", u64::from(health.ready)),
            ("duetime_degraded", "Number of degraded parts", health.degraded.len() as u64),
            ("duetime_outbox_outcomes", "Outcomes that are not in the ledger yet", health.backlog as u64),
        ];
        for (name, help, value) in gauges {
            self.gauges(name, help, [(None, value as f64)]);
        }
        let refused = metrics.inbox_refused.load(Ordering::Relaxed);
        self.counters("duetime_inbox_refused", "Inbox rows that were rejected", [(None, refused)]);
        let Metrics { stores, .. } = metrics;
        let calls = [
            ("put", &stores.put),
            ("reserve", &stores.reserve),
            ("settle", &stores.settle),
            ("extend", &stores.extend),
            ("record", &stores.record),
            ("apply", &stores.apply),
        ];
        let help = "Calls of the broker (put, reserve, settle, extend) and of the ledger (record, apply)";
        let calls = calls.map(|(call, times)| (Some(("call", call)), times));
        self.histograms("duetime_store_call_seconds", help, calls);
    }
}

fn of(queue: &Arc<str>) -> Label<'_> {
    Some(("queue", queue))
}
