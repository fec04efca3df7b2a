"""What the server knows: jobs, pushes, queues, schedules, locks and events, as they are answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Optional, TypedDict, Union

from ._typing import Unpack
from .values import Duration, Exact, Instant, instant, read_bytes, read_instant, span, with_value


class JobOptions(TypedDict, total=False):
    """The options of a push. Those that are left out are inherited from the queue. Durations are seconds, a `timedelta` or text."""

    kind: str
    """Which handler runs it: 1 to 128 bytes, `default` by default."""
    key: str
    """Unique among the live jobs of the queue."""
    on_conflict: Union[str, Mapping[str, str]]
    """If the key is held: `keep` (default), `replace` or `reject`; or `{"debounce": "10s", "at_latest": "2m"}`: pushes with one key
    become one job, which is due so long after the last of them."""
    key_until: str
    """The job holds its key until it has `finished` (default) or `started`."""
    delay: Duration
    """How long from now it is due: 0 to 10 years. Give this or `due_at`; by default it is due now."""
    due_at: Instant
    """When it is due."""
    tags: list[str]
    """Up to 16 labels, by which jobs are found and cancelled."""
    priority: int
    """0 is the most urgent; 1024 by default."""
    retry: Any
    """The waits before new attempts, such as `{"fixed": {"delay": "30s"}}`, `{"steps": ["15s", "1m"]}` or `"none"`."""
    jitter: float
    """Each wait is longer by up to this part of it; 0.1 by default, 0 for exact waits."""
    max_attempts: int
    """Attempts in all, 0 for no limit; 16 by default."""
    max_age: Duration
    """No attempt begins later than this after the first due time."""
    max_crashes: int
    """How many expired leases fail the job; 5 by default."""
    when_exhausted: Any
    """`keep` (default), `drop`, `restart`, or `{"move": "a-queue"}`."""
    lease: Duration
    """How long a worker holds the job before it extends: 1 s to 12 h, 60 s by default."""
    expires: Duration
    """How long after it is due the job may still start."""
    origin: str
    """Identifies this push: another one with the same origin makes no second job. By default a new one is made."""
    target: Any
    """Where it is delivered, if its queue has a target."""
    trace: str
    """A W3C `traceparent`. By default the current one, if OpenTelemetry is installed."""
    meta: Mapping[str, str]
    """What workers, webhooks and the dashboard get, such as `{"tenant": "7"}`: up to 16 entries and 2 KiB."""
    then: Sequence[NewJob]
    """Up to 16 jobs that are pushed when it succeeds, in the same step. Their handlers have its result: `RunningJob.previous`."""
    otherwise: Sequence[NewJob]
    """The same when it has failed for good, was cancelled, or has expired."""


_SPANS = ("delay", "max_age", "lease", "expires")


def job_body(payload: object, options: Mapping[str, Any]) -> bytes:
    """The body of a push, in JSON. Raises `Invalid`."""
    body = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in _SPANS:
            value = span(name, value)
        elif name == "due_at":
            value = instant(name, value)
        elif name == "tags" and not isinstance(value, str):
            value = list(value)
        elif name == "meta":
            value = dict(value)
        elif name in ("then", "otherwise"):
            value = follow_ups(value)
        body[name] = value
    return with_value("payload", payload, body)


def follow_ups(jobs: Sequence[NewJob]) -> list[Any]:
    """Jobs that follow another one, as the server reads them. Raises `Invalid`."""
    return [json.loads(job_body(job.payload, {"queue": job.queue, **job.options})) for job in jobs]


class NewJob:
    """A job to push with `push_many`, with the options of `push`: `NewJob("mail", {"to": "anna"}, delay="5m")`."""

    def __init__(self, queue: str, payload: object, **options: Unpack[JobOptions]) -> None:
        self.queue, self.payload, self.options = queue, payload, options

    def __repr__(self) -> str:
        return f"NewJob({self.queue!r}, {self.payload!r}, {self.options!r})"


@dataclass(frozen=True)
class Pushed:
    """The outcome of a push."""

    id: str
    """The job's id: of the new job, or of the one that has the key or the origin."""
    queue: str
    state: str
    due_at: datetime
    outcome: str
    """`created`, `kept` or `replaced` if the key was held, `repeated` for a repeat with the same origin, `dropped` (no job)
    if the queue was full."""


@dataclass(frozen=True)
class Attempt:
    """An attempt that did not succeed."""

    attempt: int
    at: datetime
    message: str
    crashed: bool
    """Whether its lease expired."""


@dataclass(frozen=True)
class Job:
    """A job, as the server knows it."""

    id: str
    queue: str
    kind: str
    state: str
    """`scheduled`, `ready`, `running`, `succeeded`, `failed` or `cancelled`."""
    payload: Any
    """The decoded JSON; `bytes` if it is not JSON."""
    due_at: datetime
    attempt: int
    """The number of leases, without released ones."""
    version: int
    """Grows with every change: see `if_version` of `Client.cancel`."""
    priority: int
    crashes: int
    created_at: datetime
    updated_at: datetime
    key: Optional[str]
    tags: tuple[str, ...]
    origin: Optional[str]
    result: Any
    """What the handler returned."""
    message: Optional[str]
    """The message of the last attempt or change."""
    errors: tuple[Attempt, ...]
    """The last 20 attempts that failed, oldest first."""
    progress: Optional[Mapping[str, Any]]
    """`percent`, `note` and `at`."""
    meta: Mapping[str, str]
    """What its push said of its tenant, its user …"""
    previous: Optional[Mapping[str, Any]]
    """The job whose end pushed it: its `id`, `queue`, `state`, and `result`, `result_base64` or `message`."""
    cancel_requested: bool
    started_at: Optional[datetime]
    finished_at: Optional[datetime]
    raw: Mapping[str, Any] = field(repr=False)
    """The server's whole answer."""
    _exact: Exact = field(repr=False, compare=False)

    @property
    def payload_text(self) -> Optional[str]:
        """The payload as it was pushed, to the character, also numbers that a `float` does not hold. `payload_text.encode()` pushes
        the same again. `None` for bytes that are not UTF-8."""
        return self._exact.value(self.raw, "payload")

    @property
    def result_text(self) -> Optional[str]:
        """The result in the same way; `None` also without one."""
        return self._exact.value(self.raw, "result")

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded, failed or been cancelled."""
        return self.state in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Event:
    """Something that happened to a job; or `lost`: events may have been missed, so read the state of your jobs again."""

    type: str
    """The server's word, such as `pushed`, `started`, `succeeded`, `failed`, `cancelled`; or `activity`."""
    id: Optional[str]
    """The job's id."""
    queue: Optional[str]
    kind: Optional[str]
    data: Mapping[str, Any]
    """Everything that the server said."""


def read_job(body: dict[str, Any], exact: Exact) -> Job:
    """Reads a job, and keeps where its text is."""
    errors = [
        Attempt(one["attempt"], read_instant(one["at"]), one["message"], one.get("crashed", False))
        for one in body.get("errors", ())
    ]
    required = ("id", "queue", "kind", "state", "attempt", "version", "priority", "crashes")
    fields: dict[str, Any] = {name: body[name] for name in required}
    fields.update({name: read_instant(body[name]) for name in ("due_at", "created_at", "updated_at")})
    fields.update({name: read_instant(body[name]) if name in body else None for name in ("started_at", "finished_at")})
    fields.update({name: body.get(name) for name in ("key", "origin", "message", "progress", "previous")})
    return Job(
        **fields,
        payload=read_bytes(body, "payload"),
        result=read_bytes(body, "result"),
        tags=tuple(body.get("tags", ())),
        errors=tuple(errors),
        meta=body.get("meta", {}),
        cancel_requested=body.get("cancel_requested", False),
        raw=body,
        _exact=exact,
    )


def read_pushed(body: Mapping[str, Any]) -> Pushed:
    """Reads the outcome of a push."""
    return Pushed(body["id"], body["queue"], body["state"], read_instant(body["due_at"]), body["outcome"])


class Selection(TypedDict, total=False):
    """Which jobs: all fields that are given must match."""

    queue: str
    state: Any
    """One state, a list of them, or `retrying`: waiting jobs with an attempt."""
    tag: str
    key: str
    """Needs `queue`."""
    kind: str
    due_from: Instant
    due_to: Instant


def selection_body(selection: Mapping[str, Any]) -> dict[str, Any]:
    """A selection as the server reads it."""
    given = {name: value for name, value in selection.items() if value is not None}
    return {name: instant(name, value) if name in ("due_from", "due_to") else value for name, value in given.items()}
