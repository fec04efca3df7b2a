"""A job while its handler runs, and what a handler can raise to end it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Callable, Optional

from ..errors import invalid
from ..models import NewJob, follow_ups
from ..values import Duration, Exact, read_bytes, read_instant, span, to_json

#: What a note on the progress has at most, in bytes.
NOTE_BYTES_MAX = 1_024


class Fatal(Exception):
    """Raised by a handler: the job has failed for good, and is not retried."""


class RetryAfter(Exception):
    """Raised by a handler: the attempt failed, and the next one begins after `delay`."""

    def __init__(self, delay: Duration, message: str = "") -> None:
        super().__init__(message or f"again after {delay}")
        self.delay = span("delay", delay)


class Release(Exception):
    """Raised by a handler: gives the job back, due after `delay` (now by default), with another `priority` if it is given. The
    attempt does not count."""

    def __init__(self, delay: Duration = 0, priority: Optional[int] = None) -> None:
        super().__init__(f"released for {delay}")
        self.delay, self.priority = span("delay", delay), priority


class Park(Exception):
    """Raised by a handler: sets the job aside, failed, until somebody retries or deletes it, whatever its retry rules say. With
    another `priority` if it is given."""

    def __init__(self, message: str = "parked", priority: Optional[int] = None) -> None:
        super().__init__(message)
        self.priority = priority


class JobCancelled(Exception):
    """Raised by `RunningJob.raise_if_cancelled`: the handler stops, because it was asked to."""


class RunningJob:
    """A job while its handler runs: the second argument of a handler, or its only one if it is annotated so."""

    def __init__(self, body: dict[str, Any], exact: Optional[Exact] = None) -> None:
        self.id: str = body["id"]
        self.queue: str = body["queue"]
        self.kind: str = body["kind"]
        #: The number of this attempt, from 1.
        self.attempt: int = body["attempt"]
        #: How many leases expired before.
        self.crashes: int = body.get("crashes", 0)
        self.key: Optional[str] = body.get("key")
        self.tags: tuple[str, ...] = tuple(body.get("tags", ()))
        #: What its push said of its tenant, its user …
        self.meta: Mapping[str, str] = body.get("meta", {})
        #: The job whose end pushed it: its `id`, `queue`, `state`, and `result`, `result_base64` or `message`.
        self.previous: Optional[Mapping[str, Any]] = body.get("previous")
        #: The W3C `traceparent` that it was pushed with.
        self.trace: Optional[str] = body.get("trace")
        #: Set when the handler should stop: the job is cancelled, its lease is lost, or the worker's time to stop is over.
        self.cancelled = threading.Event()
        #: Why: `cancelled`, `lease_lost` or `stopping`.
        self.cancel_reason: Optional[str] = None
        #: The server's whole answer.
        self.raw: Mapping[str, Any] = body
        self._exact = exact or Exact(to_json(body))
        self._payload: Any = ...
        self._added: list[Any] = []
        #: How long its handler took, in seconds.
        self._took = 0.0
        self._told: Optional[Callable[[int, Optional[str]], None]] = None
        self._on_cancel: Optional[Callable[[str], None]] = None

    @property
    def payload(self) -> Any:
        """The decoded JSON; `bytes` if it is not JSON."""
        if self._payload is ...:
            self._payload = read_bytes(dict(self.raw), "payload")
        return self._payload

    @property
    def payload_text(self) -> Optional[str]:
        """The payload as it was pushed, to the character, also numbers that a `float` does not hold. As a result,
        `payload_text.encode()` is the same. `None` for bytes that are not UTF-8."""
        return self._exact.value(self.raw, "payload")

    @property
    def due_at(self) -> datetime:
        """When it was due."""
        return read_instant(self.raw["due_at"])

    def progress(self, percent: int, note: Optional[str] = None) -> None:
        """Shows the progress: 0 to 100 percent, and a note of up to 1 KiB. Does not wait; the latest one counts. Raises
        `Invalid`."""
        if isinstance(percent, bool) or not isinstance(percent, int) or not 0 <= percent <= 100:
            raise invalid("percent", "an integer from 0 to 100", percent)
        if note is not None and len(note.encode("utf-8", "backslashreplace")) > NOTE_BYTES_MAX:
            raise invalid("note", f"at most {NOTE_BYTES_MAX} bytes", note)
        if self._told is not None:
            self._told(percent, note)

    def follow_with(self, job: NewJob) -> None:
        """Adds a job that is pushed in the same step in which this one succeeds, beside those of its own `then`: at most 16.
        If this attempt fails, it is dropped. Raises `Invalid`."""
        self._added += follow_ups([job])

    def raise_if_cancelled(self) -> None:
        """Raises `JobCancelled` if the handler should stop. Call it between the steps of a long job."""
        if self.cancelled.is_set():
            raise JobCancelled(self.cancel_reason or "cancelled")

    def _cancel(self, reason: str) -> None:
        """Asks the handler to stop, once."""
        if self.cancelled.is_set():
            return
        self.cancel_reason = reason
        self.cancelled.set()
        if self._on_cancel is not None:
            self._on_cancel(reason)

    def __repr__(self) -> str:
        return f"RunningJob(id={self.id!r}, queue={self.queue!r}, kind={self.kind!r}, attempt={self.attempt})"
