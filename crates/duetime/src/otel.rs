//! Trace contexts of OpenTelemetry: from the current span onto a pushed job, and from a job onto the span of its handler. A context is
//! kept as a W3C `traceparent`; its `tracestate` and baggage are not.

use duetime_core::NewJob;
use duetime_core::model::trace;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use std::sync::Arc;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The `traceparent` of the current span: of `tracing`, or else of OpenTelemetry itself. `None` if there is none.
fn current() -> Option<Arc<str>> {
    let of = |context: &Context| Some(context.span().span_context().clone()).filter(SpanContext::is_valid);
    let span = of(&Span::current().context()).or_else(|| of(&Context::current()))?;
    let flags = (span.trace_flags() & TraceFlags::SAMPLED).to_u8();
    Some(format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()).into())
}

/// Puts the current span's context on jobs that have none.
pub(crate) fn traced<J: AsMut<[NewJob]>>(mut jobs: J) -> J {
    if let Some(trace) = current() {
        for job in jobs.as_mut() {
            job.options.trace.get_or_insert_with(|| trace.clone());
        }
    }
    jobs
}

/// Makes the span that a job was pushed in the parent of this one.
pub(crate) fn set_parent(span: &Span, trace: &str) {
    let (trace_id, parent_id) = trace::ids(trace);
    let (Ok(trace_id), Ok(parent_id)) = (TraceId::from_hex(trace_id), SpanId::from_hex(parent_id)) else { return };
    let flags = trace.get(53..55).and_then(|flags| u8::from_str_radix(flags, 16).ok()).unwrap_or_default();
    let parent = SpanContext::new(trace_id, parent_id, TraceFlags::new(flags), true, TraceState::default());
    // Without a layer of OpenTelemetry there is nothing to set.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
}
