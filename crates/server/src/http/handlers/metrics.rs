//! `GET /metrics`: counters, histograms and gauges for Prometheus, in the text form of OpenMetrics.
//!
//! Counters are those of this process since its start, but those of `duetime_queue_…`, which the store keeps. These and gauges are read from the stores at each scrape, so of servers that
//! share a store all show the same.

use crate::access::Scope;
use crate::deliver::Observed;
use crate::http::call::Call;
use crate::http::middleware::access;
use crate::http::problem::Problem;
use crate::log;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use duetime_core::engine::metrics::{BOUNDS_US, Histogram, Metrics, QueueMetrics};
use duetime_core::engine::{Health, Sum};
use duetime_core::ports::Totals;
use duetime_core::{Engine, Error, Millis};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Show metrics for Prometheus.
///
/// The format is OpenMetrics. Counters count the work of this process since its start.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses(
        (status = 200, description = "The metrics.", body = String, content_type = "application/openmetrics-text"),
    ),
)]
pub(crate) async fn metrics(Call(app, caller): Call) -> Result<Response, Problem> {
    // They tell of all queues.
    access::check_all(&caller, Scope::Read)?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Figures::read(&app.engine, app.deliveries.clone()).await?));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| Error::Unavailable("the metrics could not be written".to_owned()))?;
    Ok(([(CONTENT_TYPE, TEXT)], text).into_response())
}

/// All that is shown, as it is now.
struct Figures {
    engine: Engine,
    now: Millis,
    counted: Vec<(Arc<str>, Arc<QueueMetrics>)>,
    held: Vec<(Arc<str>, Sum)>,
    health: Health,
    deliveries: Arc<Observed>,
}

impl Figures {
    async fn read(engine: &Engine, deliveries: Arc<Observed>) -> Result<Self, Error> {
        let held = engine.sums().await?;
        let counted = engine.metrics().queues();
        Ok(Self { engine: engine.clone(), now: engine.now(), counted, held, health: engine.health(), deliveries })
    }

    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
            let count = |metrics| ConstCounter::new(counter(metrics).load(Ordering::Relaxed));
            let counts = self.counted.iter().map(|(queue, metrics)| (&**queue, count(metrics)));
            each(encoder, name, help, MetricType::Counter, counts)?;
        }
        Ok(())
    }

    /// Of the store, not of this process: they continue across restarts.
    fn totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Total = (&'static str, &'static str, fn(&Totals) -> u64);
        let totals: [Total; 4] = [
            ("pushed", "Jobs ever pushed to the queue", |all| all.pushed),
            ("succeeded", "Jobs that ever succeeded", |all| all.succeeded),
            ("failed", "Jobs that ever failed for good", |all| all.failed),
            ("cancelled", "Jobs that were ever cancelled", |all| all.cancelled),
        ];
        for (word, what, total) in totals {
            let (name, help) = (format!("duetime_queue_{word}"), format!("{what}, by all servers and over restarts"));
            let totals = self.held.iter().map(|(queue, held)| (&**queue, ConstCounter::new(total(&held.tally.totals))));
            each(encoder, &name, &help, MetricType::Counter, totals)?;
        }
        Ok(())
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
            let gauges = self.held.iter().map(|(queue, held)| (&**queue, ConstGauge::new(gauge(held, self.now))));
            each(encoder, name, help, MetricType::Gauge, gauges)?;
        }
        let health = &self.health;
        let single = [
            ("duetime_ready", "Whether jobs are handed out", u64::from(health.ready)),
            ("duetime_degraded", "Number of degraded parts", health.degraded.len() as u64),
            ("duetime_outbox_outcomes", "Outcomes that are not in the ledger yet", health.backlog as u64),
        ];
        for (name, help, value) in single {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value as f64).encode(family)?;
        }
        let (lost, refused) = (log::lines_lost(), self.engine.metrics().inbox_refused.load(Ordering::Relaxed));
        let counters = [
            (
                "duetime_log_lines_lost",
                "Log lines that were lost because standard error was not read fast enough",
                lost,
            ),
            ("duetime_inbox_refused", "Inbox rows that were rejected", refused),
        ];
        for (name, help, count) in counters {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(family)?;
        }
        Ok(())
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Times = (&'static str, &'static str, fn(&QueueMetrics) -> &Histogram);
        let times: [Times; 2] = [
            ("duetime_lateness_seconds", "From the due time to the start of the first attempt", |queue| {
                &queue.lateness
            }),
            ("duetime_attempt_seconds", "From the start of an attempt to its outcome", |queue| &queue.duration),
        ];
        for (name, help, histogram) in times {
            let queues = self.counted.iter().map(|(queue, metrics)| (&**queue, histogram(metrics)));
            family(encoder, name, help, "queue", queues)?;
        }
        let Metrics { stores, .. } = self.engine.metrics();
        let calls = [
            ("put", &stores.put),
            ("reserve", &stores.reserve),
            ("settle", &stores.settle),
            ("extend", &stores.extend),
            ("record", &stores.record),
            ("apply", &stores.apply),
        ];
        let help = "Calls of the broker (put, reserve, settle, extend) and of the ledger (record, apply)";
        family(encoder, "duetime_store_call_seconds", help, "call", calls.into_iter())?;
        let help = "Deliveries to targets, by result";
        family(encoder, "duetime_delivery_seconds", help, "outcome", self.deliveries.by_outcome().into_iter())
    }
}

/// A metric for each queue.
fn each<'a, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    mut metrics: impl Iterator<Item = (&'a str, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    metrics.try_for_each(|(queue, metric)| metric.encode(family.encode_family(&[("queue", queue)])?))
}

/// Histograms that a label tells apart.
fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    histograms: impl Iterator<Item = (&'a str, &'a Histogram)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (value, histogram) in histograms {
        let counts = histogram.counts();
        let bounds = BOUNDS_US.iter().map(|&us| seconds(us)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let labels = [(label, value)];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(seconds(histogram.sum_us()), counts.iter().sum(), &buckets, None)?;
    }
    Ok(())
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.counters(&mut encoder)?;
        self.totals(&mut encoder)?;
        self.gauges(&mut encoder)?;
        self.histograms(&mut encoder)
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}
