"""The groups of calls for queues and for schedules."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any, Optional

from .calls import Caller, document, path, understood
from .models import Pushed, job_body, read_pushed
from .transport import Awaiting, Blocking, call, stream
from .values import Duration, Instant, instant, span, to_json

#: Answers of the server, as it writes them.
Documents = list[dict[str, Any]]
#: The settings of a queue that are durations.
SPANS = ("lease", "max_age")


class _Group:
    """The calls that queues and schedules share."""

    _what: str

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def _do(self, method: str, *parts: str, body: object = None, **query: object) -> dict[str, Any]:
        return document(await self._caller.call(method, path(self._what, *parts), body, query=query))

    @stream
    async def list(self) -> AsyncIterator[dict[str, Any]]:
        """All of them, by name."""
        cursor = None
        while True:
            answer = await self._caller.call("GET", path(self._what), query={"cursor": cursor})
            items, cursor = understood(lambda page: (page[self._what], page["next_cursor"]), answer)
            for item in items:
                yield item
            if cursor is None:
                return

    @call
    async def pause(self, name: str, *, lasting: Optional[Duration] = None, until: Optional[Instant] = None) -> dict[str, Any]:
        """Hands out no jobs of a queue, pushes none of a schedule: for some time, until an instant, or until it is resumed."""
        body = {} if lasting is None else {"for": span("lasting", lasting)}
        if until is not None:
            body["until"] = instant("until", until)
        return await self._do("POST", name, "pause", body=body)

    @call
    async def resume(self, name: str) -> dict[str, Any]:
        """Ends a pause."""
        return await self._do("POST", name, "resume", body={})


class _QueueCalls(_Group):
    """Queues. Answers are as the server writes them: see docs/reference/http.md, queue settings."""

    _what = "queues"

    @call
    async def get(self, queue: str) -> dict[str, Any]:
        """A queue: whether it is `paused`, counts by state, all-time `totals`, `settings`."""
        return await self._do("GET", queue)

    @call
    async def set(self, queue: str, /, **settings: Any) -> dict[str, Any]:
        """Changes settings, such as `retry`, `lease`, `max_running`, `rate`, `max_waiting`, `when_full`, `retention`, `target`.
        `None` resets one to its default; what is left out stays. Raises `Invalid`."""
        return await self._do("PUT", queue, body=_settings(settings))

    @call
    async def purge(self, queue: str) -> int:
        """Cancels all waiting jobs of the queue, and returns their number. After a lost answer it is repeated, and the number
        is that of the repeat."""
        answer = await self._caller.call("POST", path("queues", queue, "purge"), {})
        return understood(lambda data: int(data["purged"]), answer)

    @call
    async def delete(self, queue: str, *, force: bool = False) -> dict[str, Any]:
        """Deletes a queue with its settings and the records of its jobs. By force, waiting jobs are cancelled first, and running
        ones are asked to stop. Raises `Conflict` (`queue_in_use`) while jobs wait or run, or a schedule pushes to it. Returns
        whether it `existed`, and the counts `cancelled` and `deleted`; those of the repeat, if an answer was lost."""
        query = {"force": "true"} if force else None
        return document(await self._caller.call("DELETE", path("queues", queue), query=query))


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: span(name, it) if name in SPANS and it is not None else it for name, it in settings.items()}


class _ScheduleCalls(_Group):
    """Schedules. Answers are as the server writes them: see docs/guides/recurring-jobs.md."""

    _what = "schedules"

    @call
    async def get(self, name: str) -> dict[str, Any]:
        """A schedule, its `next` runs and its `last` one. Raises `NotFound`."""
        return await self._do("GET", name)

    @call
    async def set(
        self,
        name: str,
        /,
        *,
        queue: str,
        payload: object = None,
        cron: Optional[str] = None,
        every: Optional[Duration] = None,
        time_zone: Optional[str] = None,
        missed: Optional[str] = None,
        overlap: Optional[str] = None,
        start: Optional[Instant] = None,
        end: Optional[Instant] = None,
        spread: Optional[Duration] = None,
        paused: Optional[bool] = None,
        paused_until: Optional[Instant] = None,
        dry_run: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Makes or replaces a schedule that pushes this job by `cron` in a `time_zone` (UTC by default), or `every` interval of
        1 s or more. `missed`: `once` (default) or `skip`. `overlap`: `allow` (default) or `skip`. `spread`: each run is later by
        a part of this, which the name decides; 1 s to 24 h. With `dry_run` nothing is saved, and the answer has the next runs.
        The other options are those of a push. Raises `Invalid`."""
        body: dict[str, Any] = {"cron": cron, "time_zone": time_zone, "missed": missed, "overlap": overlap, "paused": paused}
        spans, instants = {"every": every, "spread": spread}, {"start": start, "end": end, "paused_until": paused_until}
        body.update({field: span(field, it) for field, it in spans.items() if it is not None})
        body.update({field: instant(field, it) for field, it in instants.items() if it is not None})
        others = to_json({field: it for field, it in body.items() if it is not None}, "schedule")[1:-1]
        job = job_body(payload, {"queue": queue, **options})
        text = b'{"job":%b%b}' % (job, b"," + others if others else b"")
        return await self._do("PUT", name, body=text, dry_run="true" if dry_run else None)

    @call
    async def delete(self, name: str) -> None:
        """Deletes a schedule. Jobs that it has pushed stay. Raises `NotFound`."""
        await self._caller.call("DELETE", path("schedules", name), done=("schedule_not_found",))

    @call
    async def run(self, name: str) -> Pushed:
        """Pushes its job once, now."""
        headers = {"idempotency-key": secrets.token_hex(16)}
        answer = await self._caller.call("POST", path("schedules", name, "run"), {}, headers=headers)
        return understood(read_pushed, answer)

    @call
    async def next(self, name: str, limit: int = 10) -> Documents:
        """Its next runs: `at`, and `local`, the same in its time zone."""
        answer = await self._caller.call("GET", path("schedules", name, "next"), query={"limit": limit})
        return understood(lambda data: data["runs"], answer)


class Queues(_QueueCalls, Blocking):
    """Queues; calls block."""


class AsyncQueues(_QueueCalls, Awaiting):
    """Queues; calls are awaited."""


class Schedules(_ScheduleCalls, Blocking):
    """Schedules; calls block."""


class AsyncSchedules(_ScheduleCalls, Awaiting):
    """Schedules; calls are awaited."""
