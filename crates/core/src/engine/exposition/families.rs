//! The families of an engine: jobs, queues, stores, health.

use super::{Exposition, Label, seconds};
use crate::api::Health;
use crate::clock::Millis;
use crate::engine::Engine;
use crate::engine::metrics::{Histogram, Metrics, QueueMetrics};
use crate::engine::observatory::Sum;
use crate::error::Error;
use crate::ports::Totals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Counted = [(Arc<str>, Arc<QueueMetrics>)];
type Held = [(Arc<str>, Sum)];

impl Engine {
    /// The metrics of this engine as they are now, for an edge that adds its own.
    ///
    /// # Errors
    /// Errors of the stores.
    pub async fn exposition(&self) -> Result<Exposition, Error> {
        let (held, counted) = (self.sums().await?, self.metrics().queues());
        let mut exposition = Exposition::default();
        exposition.of_process(&counted);
        exposition.of_store(&held, self.now());
        exposition.of_engine(&self.health(), self.metrics());
        Ok(exposition)
    }
}

impl Exposition {
    fn of_process(&mut self, counted: &Counted) {
        type Counter = (&'static str, &'static str, fn(&QueueMetrics) -> &AtomicU64);
        let counters: [Counter; 8] = [
            ("duetime_jobs_pushed", "New jobs", |queue| &queue.pushed),
            ("duetime_jobs_succeeded", "Jobs that were completed or taken", |queue| &queue.succeeded),
            ("duetime_jobs_failed", "Jobs that became dead letters", |queue| &queue.failed),
            ("duetime_jobs_cancelled", "Jobs that were cancelled", |queue| &queue.cancelled),
            ("duetime_attempts_started", "Attempts that were started", |queue| &queue.started),
            ("duetime_attempts_failed", "Attempts that their worker failed", |queue| &queue.attempts_failed),
            ("duetime_attempts_crashed", "Attempts whose lease expired", |queue| &queue.attempts_crashed),
            ("duetime_attempts_released", "Attempts that were released", |queue| &queue.released),
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
            ("duetime_queue_oldest_ready_seconds", "Time since the oldest ready job was due", |held, now| {
                held.counts.oldest_due.map_or(0.0, |due_at| seconds(now.saturating_sub(due_at).saturating_mul(1_000)))
            }),
            ("duetime_queue_paused", "Whether the queue is paused", |held, _| held.paused as f64),
        ];
        for (name, help, gauge) in gauges {
            self.gauges(name, help, held.iter().map(|(queue, held)| (of(queue), gauge(held, now))));
        }
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
