"""Traces: the current `traceparent` goes with each push, and handlers run within the trace of their job, if OpenTelemetry is
installed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

try:
    from opentelemetry import context, propagate, trace

    has_telemetry = True
except ImportError:
    has_telemetry = False


def current_headers() -> dict[str, str]:
    """The header `traceparent` of the current span, if there is one."""
    if not has_telemetry:
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {"traceparent": carrier["traceparent"]} if "traceparent" in carrier else {}


@contextlib.contextmanager
def within(traceparent: Optional[str], kind: str, attributes: dict[str, Any]) -> Iterator[None]:
    """Runs a handler in a span of its own within this trace."""
    if not has_telemetry:
        yield
        return
    parent = propagate.extract({"traceparent": traceparent}) if traceparent else context.get_current()
    token = context.attach(parent)
    try:
        kind_of_span = trace.SpanKind.CONSUMER
        span = trace.get_tracer("duetime").start_span(f"process {kind}", kind=kind_of_span, attributes=attributes)
        # Without an SDK there is no span, and the trace of the job stays the current one.
        with trace.use_span(span, end_on_exit=True) if span.is_recording() else contextlib.nullcontext():
            yield
    finally:
        context.detach(token)
