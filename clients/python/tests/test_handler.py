"""Attempts without a server: how handlers are called, and what their ends mean."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duetime import Fatal, Invalid, JobCancelled, Park, Release, RetryAfter, RunningJob, Worker
from duetime.trace import current_headers
from duetime.worker.handler import Outcome
from duetime.worker.turns import Turns

BODY = {
    "id": "7",
    "queue": "orders",
    "kind": "k",
    "payload": {"order": 4711},
    "attempt": 2,
    "due_at": "2027-01-01T00:00:00.000Z",
    "tags": ["a"],
}


@dataclass
class Order:
    order: int


def outcome(handler: Callable[..., Any], **body: Any) -> tuple[str, Any]:
    worker = Worker()
    worker.handler("k")(handler)
    verb, text = worker.attempt({**BODY, **body})
    return verb, json.loads(text)


def raising(error: BaseException) -> Callable[[], None]:
    def handler() -> None:
        raise error

    return handler


def typed(order: Order) -> int:
    return order.order


def with_job(order: Order, job: RunningJob) -> list[Any]:
    return [order.order, job.attempt, list(job.tags), job.due_at.year]


def only_job(job: RunningJob) -> Any:
    return job.payload


async def waits(order: Order, job: RunningJob) -> str:
    return f"{order.order} {job.id}"


class Callable_:
    def __call__(self, order: Order) -> int:
        return order.order


@pytest.mark.parametrize(
    ("handler", "result"),
    [
        (typed, 4711),
        (with_job, [4711, 2, ["a"], 2027]),
        (only_job, {"order": 4711}),
        (waits, "4711 7"),
        (Callable_(), 4711),
        (lambda payload: payload["order"], 4711),
        (lambda payload, job: job.kind, "k"),
        (lambda payload, job, more=3: more, 3),
    ],
)
def test_handlers_get_what_they_take(handler: Callable[..., Any], result: object) -> None:
    assert outcome(handler) == ("complete", {"result": result})


def test_a_handler_without_parameters_or_result() -> None:
    assert outcome(lambda: None) == ("complete", {})
    assert outcome(lambda: b"\xff") == ("complete", {"result_base64": "/w=="})


def test_a_handler_with_more_parameters_is_refused() -> None:
    with pytest.raises(TypeError, match="`c`"):
        Worker().handler("k")(lambda a, b, c: None)
    with pytest.raises(TypeError, match="kinds"):
        Worker().handler(typed)  # type: ignore[arg-type]
    worker = Worker()
    worker.handler("k", "l")(typed)
    with pytest.raises(ValueError, match="already"):
        worker.handler("l")(typed)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Fatal("no such order"), ("fail", {"message": "no such order", "final": True})),
        (RetryAfter("5m", "busy"), ("fail", {"message": "busy", "retry_after": "5m"})),
        (RetryAfter(90), ("fail", {"message": "again after 90", "retry_after": "90000ms"})),
        (Release(0.5), ("release", {"delay": "500ms"})),
        (Release("1m", priority=0), ("release", {"delay": "1m", "priority": 0})),
        (Park("check it", priority=7), ("park", {"message": "check it", "priority": 7})),
        (Park(), ("park", {"message": "parked"})),
    ],
)
def test_exceptions_that_say_more(error: BaseException, expected: object) -> None:
    assert outcome(raising(error)) == expected


class Silent(Exception):
    def __str__(self) -> str:
        raise self.args[0]


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (ValueError("no stock"), "ValueError: no stock (line "),
        (ValueError(b"\xc4\xe3".decode("utf-8", "surrogateescape")), "ValueError: \\udcc4\\udce3 (line "),
        (Silent(RuntimeError()), "Silent: a Silent without text"),
        (Silent(SystemExit()), "Silent: a Silent without text"),
        (SystemExit(3), "SystemExit: 3"),
        (JobCancelled("by itself"), "JobCancelled: by itself"),
    ],
)
def test_any_exception_is_a_failed_attempt(error: BaseException, begins: str) -> None:
    verb, body = outcome(raising(error))
    assert (verb, body["message"][: len(begins)], "final" in body) == ("fail", begins, False)


def test_a_long_message_is_cut() -> None:
    _, body = outcome(raising(ValueError("€" * 100_000)))
    assert 8_000 < len(body["message"].encode()) <= 8_192


@pytest.mark.parametrize("result", [object(), float("nan"), {1: object()}])
def test_a_result_that_is_no_json_fails_for_good(result: object) -> None:
    verb, body = outcome(lambda: result)
    assert (verb, body["final"]) == ("fail", True)
    assert "`result` must be JSON or bytes" in body["message"]


def test_a_result_that_is_far_too_large_is_not_sent() -> None:
    verb, body = outcome(lambda: "x" * (5 << 20))
    assert (verb, body["final"]) == ("fail", True)
    assert "expected at most 1 MiB, got 5242893 bytes" in body["message"]


def test_a_payload_that_does_not_fit_fails_for_good() -> None:
    verb, body = outcome(typed, payload={"order": "x"})
    assert (verb, body) == ("fail", {"message": "`payload.order` must be an integer, got 'x'", "final": True})


def test_a_payload_in_base64_is_decoded() -> None:
    assert outcome(only_job, payload=None) == ("complete", {})
    without = {name: value for name, value in BODY.items() if name != "payload"}
    job = RunningJob({**without, "payload_base64": "Ilx1ZDgwMCI="})
    assert job.payload == "\ud800"
    assert RunningJob({**without, "payload_base64": "AP8="}).payload == b"\x00\xff"


def test_middlewares_are_around_each_job_in_order() -> None:
    seen: list[str] = []

    def middleware(name: str) -> Callable[[RunningJob], contextlib.AbstractContextManager[None]]:
        @contextlib.contextmanager
        def around(job: RunningJob) -> Iterator[None]:
            seen.append(f"{name} begins {job.id}")
            try:
                yield
            finally:
                seen.append(f"{name} ends")

        return around

    worker = Worker()
    worker.middleware(middleware("outer"))
    worker.middleware(middleware("inner"))
    worker.handler("k")(raising(ValueError("x")))
    assert worker.attempt(BODY).verb == "fail"
    assert seen == ["outer begins 7", "inner begins 7", "inner ends", "outer ends"]


def test_progress_is_checked() -> None:
    job = RunningJob(BODY)
    told: list[Any] = []
    job._told = lambda percent, note: told.append((percent, note))
    job.progress(40, "half")
    for percent, note in ((101, None), (-1, None), (True, None), (5, "x" * 1_025)):
        with pytest.raises(Invalid):
            job.progress(percent, note)
    assert told == [(40, "half")]


def test_a_job_that_is_cancelled() -> None:
    job = RunningJob(BODY)
    job.raise_if_cancelled()
    job._cancel("cancelled")
    job._cancel("stopping")
    with pytest.raises(JobCancelled, match="cancelled"):
        job.raise_if_cancelled()
    assert Outcome.of_error(JobCancelled(), job) == Outcome.failed("cancelled")
    stopping = RunningJob(BODY)
    stopping._cancel("stopping")
    assert Outcome.of_error(JobCancelled(), stopping) == Outcome.released()


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_handlers_run_within_the_trace_of_their_job() -> None:
    seen: list[Any] = []
    parent = f"00-{TRACE}-00f067aa0ba902b7-01"
    outcome(lambda: seen.append(trace.get_current_span().get_span_context()), trace=parent)
    assert f"{seen[0].trace_id:032x}" == TRACE


def test_a_span_of_the_sdk_is_a_child_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    outcome(raising(ValueError("x")), trace=f"00-{TRACE}-00f067aa0ba902b7-01")
    [span] = exporter.get_finished_spans()
    assert (span.name, f"{span.context.trace_id:032x}", span.status.is_ok) == ("process k", TRACE, False)
    with trace.use_span(provider.get_tracer("t").start_span("request")):
        assert current_headers()["traceparent"][:3] == "00-"
    assert current_headers() == {}


def test_turns_without_weights_are_strict() -> None:
    turns = Turns(["urgent", "mail"])
    turns.handed_out(4, ["urgent"] * 4)
    assert turns.order() == ["urgent", "mail"]
    assert Turns("one").order() == ["one"]
    for wrong in ([], {}, {"a": 0}, {"a": True}, {"a": 1.5}):
        with pytest.raises(ValueError, match=r"queue"):
            Turns(wrong)  # type: ignore[arg-type]


def test_weights_share_what_is_handed_out() -> None:
    turns, had = Turns({"mail": 1, "urgent": 5}), {"mail": 0, "urgent": 0}
    for _ in range(600):
        first = turns.order()[0]
        had[first] += 1
        turns.handed_out(1, [first])
    assert had == {"mail": 100, "urgent": 500}


def test_a_queue_that_was_empty_has_saved_nothing_up() -> None:
    turns = Turns({"a": 1, "b": 1})
    for _ in range(100):
        turns.handed_out(2, ["a"])
    assert turns._had["b"] == turns._had["a"]
