//! A trace goes on from a push to its handler.

use crate::cases::{Remind, queue};
use duetime::{Client, Context, JobError, Worker};
use opentelemetry::trace::{
    Span, SpanBuilder, SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context as OtelContext, KeyValue};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

/// A tracer that notes each span that is started, and its parent.
#[derive(Clone, Default)]
struct Noting {
    spans: Arc<Mutex<Vec<Noted>>>,
    ids: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
struct Noted {
    name: Cow<'static, str>,
    context: SpanContext,
    parent: SpanContext,
}

impl Tracer for Noting {
    type Span = Noted;

    fn build_with_context(&self, builder: SpanBuilder, parent: &OtelContext) -> Noted {
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let parent = parent.span().span_context().clone();
        let trace_id =
            if parent.is_valid() { parent.trace_id() } else { TraceId::from((0xabcd_u128 << 64) | u128::from(id)) };
        let context = SpanContext::new(trace_id, SpanId::from(id), TraceFlags::SAMPLED, false, TraceState::default());
        let noted = Noted { name: builder.name, context, parent };
        self.spans.lock().unwrap().push(noted.clone());
        noted
    }
}

impl Span for Noted {
    fn add_event_with_timestamp<T: Into<Cow<'static, str>>>(&mut self, _: T, _: SystemTime, _: Vec<KeyValue>) {}
    fn span_context(&self) -> &SpanContext {
        &self.context
    }
    fn is_recording(&self) -> bool {
        true
    }
    fn set_attribute(&mut self, _: KeyValue) {}
    fn set_status(&mut self, _: Status) {}
    fn update_name<T: Into<Cow<'static, str>>>(&mut self, _: T) {}
    fn add_link(&mut self, _: SpanContext, _: Vec<KeyValue>) {}
    fn end_with_timestamp(&mut self, _: SystemTime) {}
}

impl Noting {
    fn span(&self, name: &str) -> Noted {
        let spans = self.spans.lock().unwrap();
        spans.iter().rfind(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}: {spans:?}")).clone()
    }
}

fn subscribe(noting: &Noting) -> tracing::subscriber::DefaultGuard {
    let layer = tracing_opentelemetry::layer().with_tracer(noting.clone());
    tracing::subscriber::set_default(tracing_subscriber::registry().with(layer))
}

#[tokio::test]
async fn the_span_of_a_handler_is_a_child_of_that_of_the_push() {
    let noting = Noting::default();
    let _until_the_end = subscribe(&noting);
    let (client, queue) = (Client::memory().await.unwrap(), queue());
    let push = client.push(Remind { user: 1 }).queue(queue.clone());
    let pushed = async { push.await.unwrap().id }.instrument(tracing::info_span!("request")).await;
    let request = noting.span("request").context;
    let trace = client.jobs().get(pushed).await.unwrap().options().trace.clone().unwrap();
    assert_eq!(*trace, format!("00-{}-{}-01", request.trace_id(), request.span_id()));
    let worker = Worker::new(&client).queue(queue.clone()).handle(async |_: Remind, context: Context| {
        // A job that a handler pushes belongs to the same trace.
        context.push(Remind { user: 2 }).queue("elsewhere").await?;
        tracing::info_span!("mail").in_scope(|| {});
        Ok::<_, JobError>(())
    });
    assert_eq!(worker.drain().await.unwrap().succeeded, 1);
    let (job, mail) = (noting.span("job"), noting.span("mail"));
    assert_eq!((job.context.trace_id(), job.parent.span_id()), (request.trace_id(), request.span_id()));
    assert!(job.parent.is_remote() && job.parent.is_sampled());
    assert_eq!(mail.parent.span_id(), job.context.span_id());
    let query = duetime::job::Query::default().queue("elsewhere");
    let next = client.jobs().page(&query, None, 1).await.unwrap();
    let trace = next.jobs[0].options().trace.clone().unwrap();
    assert_eq!(*trace, format!("00-{}-{}-01", request.trace_id(), job.context.span_id()));
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_push_keeps_the_trace_that_it_was_given() {
    let noting = Noting::default();
    let _until_the_end = subscribe(&noting);
    let (client, queue) = (Client::memory().await.unwrap(), queue());
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let push = client.push(Remind { user: 1 }).queue(queue.clone()).trace(given);
    async { push.await.unwrap() }.instrument(tracing::info_span!("request")).await;
    client.push(Remind { user: 2 }).queue(queue.clone()).await.unwrap();
    let worker = Worker::new(&client).queue(queue.clone()).handle(async |job: Remind, context: Context| {
        assert_eq!(context.trace().is_some(), job.user == 1, "there is no span");
        Ok::<_, JobError>(())
    });
    let job = worker.run_one().await.unwrap().unwrap();
    assert_eq!(job.options().trace.as_deref(), Some(given));
    let span = noting.span("job");
    assert_eq!(span.parent.span_id().to_string(), "00f067aa0ba902b7");
    assert!(span.parent.is_remote() && !span.parent.is_sampled());
    worker.drain().await.unwrap();
    client.close().await.unwrap();
}

/// Programs that use OpenTelemetry without `tracing`.
#[test]
fn without_a_span_of_tracing_that_of_opentelemetry_is_taken() {
    let (trace_id, span_id) = (TraceId::from(0xabc_u128 << 64), SpanId::from(7_u64));
    let span = SpanContext::new(trace_id, span_id, TraceFlags::default(), true, TraceState::default());
    let _current = OtelContext::new().with_remote_span_context(span).attach();
    let (.., options) = duetime::Push::of(&Remind { user: 1 }).row().unwrap().values();
    let options = options.unwrap();
    assert!(options.contains(&format!("00-{trace_id}-{span_id}-00")), "{options}");
}
