"""The client, blocking and awaiting. Each call is written once, as a coroutine: see `transport`."""

from __future__ import annotations

import os
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta
from typing import Any, Callable, Optional, TypedDict, Union

from . import errors
from ._typing import Self, Unpack
from .calls import Answer, Caller, Settings, document, name, understood
from .calls import path as path_of
from .errors import DuetimeError
from .events import events as read_events
from .groups import AsyncQueues, AsyncSchedules, Queues, Schedules
from .lock import AsyncLock, Lock
from .models import Event, Job, JobOptions, NewJob, Pushed, Selection, job_body, read_job, read_pushed, selection_body
from .trace import current_headers
from .transport import Awaiting, AwaitingTransport, Blocking, BlockingTransport, Transport, call, finish, stream
from .values import Duration, Instant, date, instant, seconds, span, to_json, with_value

#: What one request of `push_many` holds at most: jobs, and bytes of their bodies. The server's limits are 10,000 and 64 MiB; a busy
#: one answers fewer within the time of a try.
BATCH_JOBS, BATCH_BYTES = 1_000, 48 << 20
#: The longest wait that one request asks for, in seconds. `wait` repeats it.
WAIT_MAX = 20.0


#: How far a header `date` may be behind the records of its server, in seconds: it has whole ones.
DATE_ERROR = 1.5


class ClientOptions(TypedDict, total=False):
    """Time limits of a client: seconds, a `timedelta`, or text such as `"2s"`."""

    timeout: Duration
    """For a try; 5 s by default."""
    deadline: Duration
    """For a call with its repeats; 30 s by default."""
    push_deadline: Duration
    """For a push with its repeats, since a user often waits for it; 10 s by default."""
    push_tries: Optional[int]
    """Tries of a push; 2 by default, `None` for as many as fit."""


def _settings(
    server: Union[str, Iterable[str], None],
    token: Optional[str],
    ca: Optional[str],
    options: Mapping[str, Any],
) -> Settings:
    if server is None:
        server = os.environ.get("DUETIME_SERVER") or "http://127.0.0.1:7300"
    servers = server.split(",") if isinstance(server, str) else list(server)
    servers = [one.strip().rstrip("/") for one in servers if one.strip()]
    for one in servers:
        if not one.startswith(("http://", "https://", "unix:")) or one.endswith(":"):
            raise errors.invalid("server", "http://HOST:PORT, https://HOST:PORT or unix:PATH", one)
    if not servers:
        raise errors.invalid("server", "at least one address", server)
    if ca is not None:
        try:
            ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise errors.invalid("ca", "a readable file of certificates", f"{ca}: {error}") from None
    if token is None:
        token = os.environ.get("DUETIME_TOKEN") or None
    return Settings(tuple(servers), token, ca, **_limits(options))


def _limits(options: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value if field == "push_tries" else seconds(value, field) for field, value in options.items()}


class _Calls:
    """Every call of a client."""

    #: What it connects with, given `ca`.
    _transport: Callable[[Optional[str]], Transport]

    def __init__(
        self,
        server: Union[str, Iterable[str], None] = None,
        *,
        token: Optional[str] = None,
        ca: Optional[str] = None,
        transport: Optional[Transport] = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._caller = Caller(_settings(server, token, ca, options), transport or type(self)._transport(ca))

    def with_options(self, **options: Unpack[ClientOptions]) -> Self:
        """The same connections with other time limits."""
        other: Self = object.__new__(type(self))
        other._caller = self._caller.with_settings(**_limits(options))
        return other

    @call
    async def push(self, queue: str, payload: object, **options: Unpack[JobOptions]) -> Pushed:
        """Pushes a job. When this returns, the job is recorded.

        The payload is any JSON, a dataclass, a pydantic model, or bytes. Every push has an `origin`, so a repeat after a lost
        answer makes no second job. Raises `Invalid`, `Conflict` (`key_conflict`, with `on_conflict="reject"`), `Unavailable`.
        """
        body = job_body(payload, {"origin": secrets.token_hex(16), **options})
        answer = await self._caller.call(
            "POST",
            path_of("queues", queue, "jobs"),
            body,
            headers=current_headers(),
            deadline=self._caller.settings.push_deadline,
            tries=self._caller.settings.push_tries,
        )
        pushed: Pushed = understood(read_pushed, answer)
        if answer.is_repeat and pushed.outcome == "repeated" and "origin" not in options:
            # Only an earlier try of this push can have had this origin.
            return Pushed(pushed.id, pushed.queue, pushed.state, pushed.due_at, "created")
        return pushed

    @call
    async def push_many(self, jobs: Iterable[NewJob]) -> list[Union[Pushed, DuetimeError]]:
        """Pushes jobs, of any queues, in batches. Returns for each what became of it, in order: `Pushed`, or the error that
        refused it. Raises only if a batch cannot be sent: then earlier batches are pushed, and it is safe to push all again
        if each has an `origin`."""
        answers: list[Union[Pushed, DuetimeError]] = []
        batch: list[Union[bytes, DuetimeError]] = []
        size = 0
        for job in jobs:
            try:
                options = {"queue": job.queue, "origin": secrets.token_hex(16), **job.options}
                text: Union[bytes, DuetimeError] = job_body(job.payload, options)
            except DuetimeError as refused:
                text = refused
            length = len(text) if isinstance(text, bytes) else 0
            if batch and (len(batch) == BATCH_JOBS or size + length > BATCH_BYTES):
                answers += await self._push_batch(batch)
                batch, size = [], 0
            batch.append(text)
            size += length
        return answers + (await self._push_batch(batch) if batch else [])

    async def _push_batch(self, batch: list[Union[bytes, DuetimeError]]) -> list[Union[Pushed, DuetimeError]]:
        texts = [text for text in batch if isinstance(text, bytes)]
        sent: list[Union[Pushed, DuetimeError]] = []
        if texts:
            settings = self._caller.settings
            answer = await self._caller.call(
                "POST",
                path_of("jobs"),
                b"[" + b",".join(texts) + b"]",
                headers=current_headers(),
                deadline=max(settings.push_deadline, settings.deadline),
            )
            sent = understood(lambda all: [_pushed_or_error(one) for one in all], answer)
            if len(sent) != len(texts):
                raise errors.Protocol(f"{len(texts)} jobs were pushed and {len(sent)} answered", code="protocol")
        answered = iter(sent)
        return [next(answered) if isinstance(text, bytes) else text for text in batch]

    @call
    async def get(self, id: str) -> Job:
        """The job with this id. Raises `NotFound`."""
        return _job(await self._caller.call("GET", path_of("jobs", id)))

    @call
    async def find(self, queue: str, key: str) -> Optional[Job]:
        """The live job of the queue that has this key, or else the last one that had it, or `None`."""
        return await self._find(name("queue", queue), name("key", key))

    async def _find(self, queue: str, key: str) -> Optional[Job]:
        found: Optional[Job] = None
        async for job in self._pages({"queue": queue, "key": key}):
            if not job.is_finished:
                return job
            if found is None or job.created_at > found.created_at:
                found = job
        return found

    @stream
    async def jobs(self, **selection: Unpack[Selection]) -> AsyncIterator[Job]:
        """All jobs that match, page by page. A job that changes meanwhile can be missing or come twice."""
        async for job in self._pages(selection):
            yield job

    async def _pages(self, selection: Mapping[str, Any]) -> AsyncIterator[Job]:
        query = selection_body(selection)
        if isinstance(query.get("state"), (list, tuple)):
            query["state"] = ",".join(query["state"])
        cursor = None
        while True:
            answer = await self._caller.call("GET", path_of("jobs"), query={**query, "cursor": cursor})
            jobs, cursor = _page(answer)
            for job in jobs:
                yield job
            if cursor is None:
                return

    @call
    async def why(self, id: str) -> dict[str, Any]:
        """Why a job does not run: its `state`, and `reasons`. Raises `NotFound`."""
        return document(await self._caller.call("GET", path_of("jobs", id, "why")))

    @call
    async def cancel(self, id: str, *, if_version: Optional[int] = None) -> str:
        """Cancels a job: `cancelled`; `cancel_requested` if a worker has it, which is asked to stop; or `already_finished`.
        Raises `NotFound`.

        `if_version`, here and in the other changes of one job: only if the job still has this version, else raises `Conflict`
        (`version_mismatch`). Raises `Unavailable` if an answer was lost, so that nobody knows which change was made."""
        answer = await self._caller.call("POST", path_of("jobs", id, "cancel"), {}, headers=_match(if_version))
        outcome: str = understood(lambda data: data["outcome"], answer)
        if outcome == "already_finished" and answer.is_repeat:
            job = _job(await self._caller.call("GET", path_of("jobs", id)))
            return "cancelled" if job.state == "cancelled" else outcome
        return outcome

    @call
    async def cancel_by_key(self, queue: str, key: str) -> str:
        """Cancels the live job of the queue that has this key: `cancelled`; `cancel_requested` if a worker has it, which is
        asked to stop; or `none`."""
        began = time.monotonic()
        body = {"queue": name("queue", queue), "key": name("key", key)}
        answer = await self._caller.call("POST", path_of("jobs", "cancel"), body)
        counts = document(answer)
        for outcome in ("cancelled", "cancel_requested"):
            if counts.get(outcome):
                return outcome
        if answer.is_repeat:
            # A try whose answer was lost may have cancelled it, since this call began by the server's clock.
            since = date(answer.headers.get("date")) - timedelta(seconds=time.monotonic() - began + DATE_ERROR)
            job = await self._find(queue, key)
            if job is not None and job.state == "cancelled" and job.updated_at >= since:
                return "cancelled"
        return "none"

    @call
    async def cancel_by_tag(self, tag: str, queue: Optional[str] = None) -> dict[str, int]:
        """Cancels all jobs with this tag, and counts them by outcome."""
        return await self._change_all("cancel", {"tag": name("tag", tag), "queue": queue})

    @call
    async def cancel_all(self, **selection: Unpack[Selection]) -> dict[str, int]:
        """Cancels all jobs that match, and counts them by outcome, such as `{"cancelled": 2}`. After a lost answer the call
        is repeated, and the counts are those of the repeat."""
        return await self._change_all("cancel", selection)

    @call
    async def retry_all(self, *, spread: Optional[Duration] = None, **selection: Unpack[Selection]) -> dict[str, int]:
        """Runs all jobs of a `state` (`failed` by default) that match again, distributed over the time `spread` (24 h at most), and
        counts them by outcome."""
        return await self._change_all("retry", selection, {"spread": None if spread is None else span("spread", spread)})

    @call
    async def delete_all(self, **selection: Unpack[Selection]) -> dict[str, int]:
        """Deletes all jobs that match and do not run, with their records, and counts them by outcome."""
        return await self._change_all("delete", selection)

    @call
    async def reschedule_all(
        self,
        *,
        delay: Optional[Duration] = None,
        due_at: Optional[Instant] = None,
        spread: Optional[Duration] = None,
        **selection: Unpack[Selection],
    ) -> dict[str, int]:
        """Makes all waiting jobs that match due after `delay` (0 runs them now) or at `due_at`, or distributed over the time
        `spread` (24 h at most) from then on, and counts them by outcome."""
        body = {"selection": selection_body(selection), **_due(delay, due_at)}
        if spread is not None:
            body["spread"] = span("spread", spread)
        return document(await self._caller.call("POST", path_of("jobs", "reschedule"), body))

    async def _change_all(
        self, verb: str, selection: Mapping[str, Any], query: Optional[Mapping[str, object]] = None
    ) -> dict[str, int]:
        return document(await self._caller.call("POST", path_of("jobs", verb), selection_body(selection), query=query))

    @call
    async def reschedule(
        self, id: str, *, delay: Optional[Duration] = None, due_at: Optional[Instant] = None, if_version: Optional[int] = None
    ) -> Job:
        """Makes a waiting job due after `delay` or at `due_at`. Raises `NotFound`, `Conflict`."""
        return _job(await self._caller.call("PATCH", path_of("jobs", id), _due(delay, due_at), headers=_match(if_version)))

    @call
    async def change(
        self,
        id: str,
        *,
        payload: object = ...,
        priority: Optional[int] = None,
        if_version: Optional[int] = None,
    ) -> Job:
        """Changes the payload or the priority of a waiting job. Raises `NotFound`, `Conflict`."""
        rest = {} if priority is None else {"priority": priority}
        body = to_json(rest, "priority") if payload is ... else with_value("payload", payload, rest)
        return _job(await self._caller.call("PATCH", path_of("jobs", id), body, headers=_match(if_version)))

    @call
    async def run(self, id: str, *, if_version: Optional[int] = None) -> Job:
        """Makes a waiting job due now. Raises `NotFound`, `Conflict`."""
        return await self._act(id, "run", ("job_running", "already_finished"), if_version)

    @call
    async def retry(self, id: str, *, if_version: Optional[int] = None) -> Job:
        """Runs a finished job again, from attempt 0. Raises `NotFound`, `Conflict` (`job_live`, `key_conflict`)."""
        return await self._act(id, "retry", ("job_live",), if_version)

    async def _act(self, id: str, verb: str, done: tuple[str, ...], if_version: Optional[int]) -> Job:
        answer = await self._caller.call("POST", path_of("jobs", id, verb), {}, headers=_match(if_version), done=done)
        if answer.data is None:
            answer = await self._caller.call("GET", path_of("jobs", id))
        return _job(answer)

    @call
    async def delete(self, id: str, *, if_version: Optional[int] = None) -> None:
        """Deletes a job and its record. Raises `NotFound`, `Conflict` (`job_running`)."""
        await self._caller.call("DELETE", path_of("jobs", id), headers=_match(if_version), done=("not_found",))

    @call
    async def wait(self, id: str, timeout: Duration) -> Job:
        """Waits until the job has ended, and returns it with its `result`. Raises `WaitTimeout`, `NotFound`."""
        end = time.monotonic() + seconds(timeout, "timeout")
        pause = 0.02
        while True:
            left = max(end - time.monotonic(), 0)
            asked = min(left, WAIT_MAX)
            began = time.monotonic()
            answer = await self._caller.call(
                "GET", path_of("jobs", id), query={"wait": span("wait", asked)}, wait=asked, deadline=max(left, 1)
            )
            job = _job(answer)
            if job.is_finished:
                return job
            left = end - time.monotonic()
            if left <= 0:
                raise errors.WaitTimeout(f"job {id} is {job.state} after {timeout}", code="wait_timeout")
            if time.monotonic() - began < min(asked, pause) / 2:
                # The server has answered at once: do not ask again at once.
                await self._caller.transport.sleep(min(pause, left))
                pause = min(pause * 2, 1)

    @stream
    async def events(
        self,
        *,
        queue: Union[str, list[str], None] = None,
        what: Union[str, list[str], None] = None,
        every: Optional[Duration] = None,
    ) -> AsyncIterator[Event]:
        """What happens to jobs from now on, endlessly: of these queues (`mail`, or a prefix `mail.*`), of these types. With `every`
        (100 ms to 10 s) only an event of the type `activity`, at most once in this time, if anything of it happened.

        If the stream breaks, it connects again, and an event of the type `lost` says that events may have been missed.
        Events are for watching. Raises what the server refuses.
        """
        async for event in read_events(
            self._caller, {"queue": queue, "what": what, "every": None if every is None else span("every", every)}
        ):
            yield event


def _job(answer: Answer) -> Job:
    return understood(lambda body: read_job(body, answer.exact), answer)


def _page(answer: Answer) -> tuple[list[Job], Optional[str]]:
    exact = answer.exact.part("jobs")

    def read(page: Any) -> tuple[list[Job], Optional[str]]:
        return [read_job(job, exact.part(place)) for place, job in enumerate(page["jobs"])], page["next_cursor"]

    return understood(read, answer)


def _pushed_or_error(body: Mapping[str, Any]) -> Union[Pushed, DuetimeError]:
    return errors.of_problem(body, body["status"]) if "code" in body else read_pushed(body)


def _match(if_version: Optional[int]) -> dict[str, str]:
    return {} if if_version is None else {"if-match": f'"{if_version}"'}


def _due(delay: Optional[Duration], due_at: Optional[Instant]) -> dict[str, str]:
    if (delay is None) == (due_at is None):
        raise errors.invalid("delay", "given, or `due_at` instead", "neither" if delay is None else "both")
    return {"delay": span("delay", delay)} if delay is not None else {"due_at": instant("due_at", due_at or "")}


class Client(_Calls, Blocking):
    """A client whose calls block. Safe for use by many threads; make one and keep it.

    `server`: address, or several to try in turn (separated by commas); `unix:PATH` is a unix socket. By default `DUETIME_SERVER`,
    or `http://127.0.0.1:7300`. `token`: by default `DUETIME_TOKEN`. `ca`: a file with the certificates to trust.
    The other options are time limits: see `ClientOptions`.
    """

    _transport = BlockingTransport

    @property
    def queues(self) -> Queues:
        """Queues: their counts and settings."""
        return Queues(self._caller)

    @property
    def schedules(self) -> Schedules:
        """Recurring jobs."""
        return Schedules(self._caller)

    def lock(self, name: str, ttl: Duration = 15, wait: Duration = 0) -> Lock:
        """A lock, held within a `with` block and renewed by a thread: `with client.lock("stock") as lock: … lock.fence`.

        `ttl`: how long others must wait if this process dies, 100 ms to 24 h. `wait`: how long to wait for it.
        Entering raises `LockHeld`.
        """
        return Lock(self._caller, name, ttl, wait)

    def close(self) -> None:
        """Closes the connections."""
        finish(self._caller.transport.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Calls, Awaiting):
    """A client whose calls are awaited. It has the arguments and calls of `Client`."""

    _transport = AwaitingTransport

    @property
    def queues(self) -> AsyncQueues:
        """Queues: their counts and settings."""
        return AsyncQueues(self._caller)

    @property
    def schedules(self) -> AsyncSchedules:
        """Recurring jobs."""
        return AsyncSchedules(self._caller)

    def lock(self, name: str, ttl: Duration = 15, wait: Duration = 0) -> AsyncLock:
        """A lock, held within an `async with` block, as `Client.lock`. A thread renews it, so a busy event loop keeps it."""
        return AsyncLock(self._caller, name, ttl, wait)

    async def close(self) -> None:
        """Closes the connections."""
        await self._caller.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
