"""The dispatcher of a worker: reserves jobs, extends their leases, and settles them. It runs on an event loop in a thread of its
own, so that handlers that block, compute or hang keep their jobs.

What handlers report reaches it through `_wake`. Every lease that it was given is settled once, or its loss is logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Union

from .. import calls, errors
from ..calls import Answer, Caller
from ..errors import DuetimeError
from ..transport import AwaitingTransport
from ..values import seconds
from .handler import Handler, Outcome
from .job import RunningJob
from .pools import Pool
from .turns import Turns

log = logging.getLogger("duetime")

#: A lease is extended each third of it, and after a failure each twelfth.
EXTEND_PART, EXTEND_AGAIN_PART = 3, 12
#: How often leases are looked at, and how often the health file is touched, in seconds.
LOOK, TOUCH = 0.1, 5.0
#: What one settle has at most: leases, and bytes. The server's limits are 10,000 and 96 MiB.
SETTLE_JOBS, SETTLE_BYTES = 1_000, 8 << 20
#: How long a job of an unknown kind is given back for, and how many such kinds are remembered as logged.
UNKNOWN_DELAY, UNKNOWN_MAX = "5s", 1_000
#: How long handlers that were asked to stop have to end, and then the last outcomes to be acknowledged, in seconds.
HEED, LEAVE = 1.0, 2.0
#: A worker whose handlers are quick reserves ahead as many jobs as they do in this time, at most so many for each handler: else
#: each would wait for the next request. A job that then waits for longer than `WAIT_MAX` is given back. In seconds. Those that
#: wait in a process that is killed lose an attempt, so they are no more than the rate needs. The server hands out no job on its
#: last attempt beyond those that are free.
AHEAD, AHEAD_JOBS_MAX, WAIT_MAX = 0.005, 16, 0.1
#: The weight of the last handler in the average of how long handlers take.
PACE_PART = 0.05
#: A request for jobs that fails within this time, beyond its wait, is sent again at once. In seconds.
SOON = 1.0
#: The outcome of a job that has not begun, or that nobody waits for any more.
RELEASED = Outcome.released()
#: What one reserve asks for at most: the server's limit.
RESERVE_JOBS = 1_000
#: How many jobs a line of the log names.
IDS_SHOWN = 20


@dataclass
class Summary:
    """What a worker did."""

    succeeded: int = 0
    failed: int = 0
    """Attempts that failed, and jobs that were parked."""
    released: int = 0
    lost: int = 0
    """Attempts whose outcome does not count, because the lease had ended."""


@dataclass
class Plan:
    """What a dispatcher does."""

    caller: Caller
    turns: Turns
    concurrency: int
    is_ahead: bool
    name: str
    lease: Optional[str]
    wait: float
    stop_deadline: float
    health_file: Optional[str]
    find: Callable[[str], Optional[Handler]]
    pool_of: Callable[[Handler], Pool]
    pools: list[Pool]
    is_drain: bool = False


class Progress(NamedTuple):
    """What a handler says of its progress."""

    percent: int
    note: Optional[str]


@dataclass
class _Lease:
    job: RunningJob
    receipt: str
    length: float
    extend_at: float
    ends_at: float
    is_lost: bool = False
    may_be_settled: bool = False
    """Whether a settle was sent whose answer was lost."""
    was_refused: bool = False
    """Whether the server refused the outcome, and gets another one."""
    is_running: bool = True
    progress: Optional[Progress] = None
    teller: Optional[asyncio.Task[None]] = None
    outcome: Outcome = RELEASED


class Dispatcher:
    """Does the plan, until it is told to stop, or, for a drain, until nothing is due."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.summary = Summary()
        self.error: Optional[DuetimeError] = None
        self.is_connected = False
        self.last_answer_at: Optional[float] = None
        self.is_done = threading.Event()
        self.phase = "starting"
        self._reports: deque[tuple[RunningJob, Union[Outcome, Progress]]] = deque()
        self._leases: dict[int, _Lease] = {}
        self._outbox: deque[_Lease] = deque()
        self._running = 0
        self._waiting: deque[tuple[float, _Lease, Handler]] = deque()
        self._pace: Optional[float] = None
        self._unknown: set[str] = set()
        self._is_away = False
        self._is_dry = False
        self._is_short = False
        self._failures = 0
        self._is_woken = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._ready = threading.Event()
        self._stop_at: Optional[float] = None
        self._reserving: asyncio.Task[None]
        self._settings = plan.caller.settings
        # One more than servers: a connection that broke while it was idle is no news.
        self._tries = len(self._settings.servers) + 1
        self._on_done: list[Callable[[], None]] = []

    # Called by any thread.

    def report(self, job: RunningJob, told: Union[Outcome, Progress]) -> None:
        """A handler has ended, or made progress."""
        self._reports.append((job, told))
        self._wake()

    def stop(self, at_once: bool = False) -> None:
        """Reserves nothing more, and ends when handlers have ended, or after the deadline. `at_once`: gives all back now."""
        self._call(self._stop, at_once)

    def when_done(self, function: Callable[[], None]) -> None:
        """Calls the function in the dispatcher's thread once all is over."""
        self._on_done.append(function)
        if self.is_done.is_set():
            function()

    @property
    def running(self) -> int:
        """How many handlers run."""
        return self._running

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._call(self._collect)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        loop = self._loop
        if loop is None or self.is_done.is_set():
            return
        # The loop may be closed just now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(function, *arguments)

    # In the dispatcher's thread.

    def run(self) -> None:
        """Runs to the end. The body of the dispatcher's thread."""
        try:
            asyncio.run(self._main())
        except Exception as error:
            log.exception("the worker has broken down; its jobs run again once their leases end")
            self.error = self.error or DuetimeError(f"the worker has broken down: {error!r}", code="internal")
        finally:
            self.phase = "stopped"
            self.is_done.set()
            self._ready.set()
            for function in self._on_done:
                function()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        transport = AwaitingTransport(self._settings.ca)
        self._caller = Caller(self._settings, transport)
        self._slots, self._to_settle, self._to_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._settled_some = asyncio.Event()
        self._slots.set()
        self.phase = "working"
        self._reserving = asyncio.create_task(self._reserve())
        others = [asyncio.create_task(one) for one in (self._extend(), self._settle(), self._touch())]
        self._tasks = [*others, self._reserving]
        for task in self._tasks:
            task.add_done_callback(lambda _: self._to_end.set())
        self._ready.set()
        try:
            await self._end()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await transport.close()

    def start(self) -> None:
        """Starts the thread."""
        thread = threading.Thread(target=self.run, name="duetime-worker", daemon=True)
        thread.start()
        self._ready.wait()

    # Reserve.

    async def _reserve(self) -> None:
        plan, is_repeat = self.plan, False
        request: Optional[dict[str, Any]] = None
        try:
            while self.phase == "working":
                await self._slots.wait()
                wanted = self._wanted()
                if request is None and not wanted:
                    self._slots.clear()
                    continue
                if request is None:
                    limit = min(wanted, RESERVE_JOBS)
                    request = {"queues": plan.turns.order(), "limit": limit, "request_id": secrets.token_hex(8)}
                    request["worker"] = plan.name
                    if self._free() < limit:
                        request["free"] = self._free()
                    if plan.lease is not None:
                        request["lease"] = plan.lease
                # A repeat gets the jobs of an answer that was lost. It does not wait: if they are gone, the next request does.
                # Nor does one that no handler is free for: then no job on its last attempt comes.
                free = request.get("free", request["limit"])
                wait = 0.0 if plan.is_drain or is_repeat or not free else plan.wait
                try:
                    answer = await self._ask(request, wait)
                    jobs = _jobs(answer)
                except DuetimeError as error:
                    # What is wrong from the start is for the developer. Later, an operator repairs it.
                    is_waited_for = calls.passes(error) or error.status >= 500 or self.last_answer_at is not None
                    if not is_waited_for or plan.is_drain:
                        self._fail(error)
                        return
                    is_repeat = True
                    await self._away(error)
                    continue
                self._answered()
                plan.turns.handed_out(free, [job.queue for job in jobs])
                self._is_short = len(jobs) < request["limit"]
                for job in jobs:
                    if self.phase == "working":
                        self._accept(job, is_repeat or answer.is_repeat)
                    else:
                        self._return(job)
                request, is_repeat = None, False
                self._check_slots()
                if plan.is_drain and not jobs and free:
                    self._is_dry = True
                    self._to_end.set()
                    if not self._leases and not self._outbox:
                        return
                    await self._drained()
        except asyncio.CancelledError:
            if request is not None:
                # The server may have handed out jobs whose answer is lost now. A repeat gets them, and gives them back.
                await self._give_back(request)
            raise

    async def _drained(self) -> None:
        """Waits until what runs has ended and is settled: a handler may push, and a retry may be due."""
        while self._leases or self._outbox:
            self._settled_some.clear()
            await self._settled_some.wait()
        self._is_dry = False

    async def _ask(self, request: Mapping[str, Any], wait: float) -> Answer:
        body = {**request, "wait": f"{int(wait * 1000)}ms"} if wait else request
        # Of a worker that goes on, only what fails soon is tried again here.
        within = None if self.plan.is_drain else SOON
        return await self._caller.call("POST", "/v1/reserve", body, wait=wait, tries=self._tries, retry_within=within)

    async def _give_back(self, request: Mapping[str, Any]) -> None:
        try:
            answer = await asyncio.wait_for(self._ask(request, 0), LEAVE)
            for job in _jobs(answer):
                self._return(job)
        except (DuetimeError, asyncio.TimeoutError) as error:
            log.warning("jobs that were just handed out may run again after their lease: %s", error)

    def _return(self, job: RunningJob, delay: str = "0ms") -> None:
        """Gives back a job that has not begun."""
        lease = self._lease_of(job, False)
        lease.is_running = False
        self._finish(lease, Outcome.released(delay))

    def _lease_of(self, job: RunningJob, is_repeat: bool) -> _Lease:
        now, length = time.monotonic(), seconds(job.raw["lease"])
        # After a lost answer, part of the lease has passed.
        extend_at = now if is_repeat else now + length / EXTEND_PART
        lease = _Lease(job, job.raw["receipt"], length, extend_at, now + length)
        self._leases[id(job)] = lease
        return lease

    def _accept(self, job: RunningJob, is_repeat: bool) -> None:
        """Starts the handler of a job, or lets it wait for the next that ends."""
        kind = job.kind
        handler = self.plan.find(kind)
        if handler is None:
            if kind not in self._unknown and len(self._unknown) < UNKNOWN_MAX:
                self._unknown.add(kind)
                log.warning("no handler for the kind %r of job %s; such jobs are given back", kind, job.id)
            self._return(job, UNKNOWN_DELAY)
            return
        lease = self._lease_of(job, is_repeat)
        if self._running < self.plan.concurrency:
            self._begin(lease, handler)
        else:
            self._waiting.append((time.monotonic(), lease, handler))

    def _begin(self, lease: _Lease, handler: Handler) -> None:
        job = lease.job
        self._running += 1
        job._told = lambda percent, note: self.report(job, Progress(percent, note))
        self.plan.pool_of(handler).start(handler, job)

    def _free(self) -> int:
        """How many handlers no job waits for."""
        return max(self.plan.concurrency - self._running - len(self._waiting), 0)

    def _wanted(self) -> int:
        """How many more jobs to ask for: as many as are free, and those that quick handlers do meanwhile."""
        if self._is_short and not self._free():
            # No more were due: nothing is reserved ahead.
            return 0
        slots, ahead = self.plan.concurrency, 0
        if self.plan.is_ahead and self._pace is not None:
            ahead = min(int(slots * AHEAD / max(self._pace, 1e-6)), slots * AHEAD_JOBS_MAX)
        wanted = max(slots + ahead - self._running - len(self._waiting), 0)
        # Not one by one: as long as some wait, a request is worth a quarter of them.
        return wanted if not self._waiting or wanted * 4 >= slots + ahead else 0

    def _check_slots(self) -> None:
        if self._wanted() > 0:
            self._slots.set()
        else:
            self._slots.clear()

    def _give_back_waiting(self, since: float) -> None:
        """Gives back jobs that have waited since this instant."""
        while self._waiting and self._waiting[0][0] <= since:
            _, lease, _ = self._waiting.popleft()
            lease.is_running = False
            self._finish(lease, RELEASED)

    # Outcomes.

    def _collect(self) -> None:
        self._is_woken = False
        while self._reports:
            job, outcome = self._reports.popleft()
            lease = self._leases.get(id(job))
            if isinstance(outcome, Progress):
                if lease is not None and lease.is_running:
                    self._told(lease, outcome)
                continue
            self._running -= 1
            self._pace = job._took if self._pace is None else self._pace + PACE_PART * (job._took - self._pace)
            if lease is None or not lease.is_running:
                continue
            lease.is_running = False
            if lease.is_lost:
                self._leases.pop(id(job), None)
                self.summary.lost += 1
                continue
            self._finish(lease, outcome)
        while self._waiting and self._running < self.plan.concurrency:
            _, waiting, handler = self._waiting.popleft()
            if waiting.is_lost or waiting.ends_at <= time.monotonic():
                self._forget(waiting)
                self.summary.lost += 1
            else:
                self._begin(waiting, handler)
        self._check_slots()
        self._to_end.set()

    def _finish(self, lease: _Lease, outcome: Outcome) -> None:
        lease.outcome = outcome
        if lease.teller is not None and not lease.teller.done():
            lease.teller.add_done_callback(lambda _: self._queue(lease))
        else:
            self._queue(lease)

    def _queue(self, lease: _Lease) -> None:
        self._outbox.append(lease)
        self._to_settle.set()

    async def _settle(self) -> None:
        while True:
            await self._to_settle.wait()
            self._to_settle.clear()
            while self._outbox:
                batch: list[_Lease] = []
                texts, size = [], 0
                while self._outbox and len(batch) < SETTLE_JOBS and size < SETTLE_BYTES:
                    lease = self._outbox.popleft()
                    text = settle_text(lease)
                    batch.append(lease)
                    texts.append(text)
                    size += len(text)
                await self._settle_batch(batch, b"[" + b",".join(texts) + b"]")
                self._to_end.set()

    async def _settle_batch(self, batch: list[_Lease], body: bytes) -> None:
        try:
            answer = await self._caller.call("POST", "/v1/settle", body, tries=self._tries)
            answers = calls.understood(lambda data: [dict(one) for one in data], answer)
            if len(answers) != len(batch):
                raise errors.Protocol(f"{len(batch)} leases were settled and {len(answers)} answered", code="protocol", status=200)
        except DuetimeError as error:
            is_of_one = passes(error) and 400 <= error.status < 500 and error.status not in (401, 408, 429)
            if (passes(error) and not is_of_one) or len(batch) == 1:
                is_kept = self._refused(batch, error)
                if is_kept:
                    await self._away(error)
                return
            for lease in batch:
                await self._settle_batch([lease], b"[" + settle_text(lease) + b"]")
            return
        self._answered()
        again = []
        for lease, one in zip(batch, answers):
            if "code" not in one:
                self._count(lease)
                continue
            refused = errors.of_problem(one, one.get("status", 500))
            if refused.code == "lease_lost" and (answer.is_repeat or lease.may_be_settled):
                # An earlier try, whose answer was lost, has settled it; or the lease is lost. Both are over.
                self._count(lease)
            elif self._refused([lease], refused):
                again.append(refused)
        if again:
            await self._away(again[0])

    def _refused(self, batch: list[_Lease], error: DuetimeError) -> bool:
        """Decides about leases that were not settled. True if some are tried again."""
        is_kept = False
        for lease in batch:
            outcome = lease.outcome
            lease.may_be_settled = lease.may_be_settled or passes(error)
            if error.code in ("lease_lost", "not_found"):
                log.warning("job %s: the lease was lost, so the outcome does not count", lease.job.id)
                self._forget(lease)
                self.summary.lost += 1
            elif passes(error):
                self._outbox.append(lease)
                is_kept = True
            elif not lease.was_refused:
                lease.was_refused = True
                is_done = outcome.verb == "complete"
                why = "the job is done, but its result" if is_done else f"the outcome ({outcome.verb})"
                log.error("job %s: %s was refused: %s", lease.job.id, why, error.detail)
                lease.outcome = Outcome.failed(f"{why} was refused: {error.detail}", is_final=is_done)
                self._queue(lease)
            else:
                log.error("job %s: its outcome was refused, so it runs again after its lease: %s", lease.job.id, error)
                self._forget(lease)
                self.summary.lost += 1
        return is_kept

    def _count(self, lease: _Lease) -> None:
        self._forget(lease)
        counter = {"complete": "succeeded", "fail": "failed", "park": "failed", "release": "released"}[lease.outcome.verb]
        setattr(self.summary, counter, getattr(self.summary, counter) + 1)

    def _forget(self, lease: _Lease) -> None:
        self._leases.pop(id(lease.job), None)
        self._settled_some.set()

    # Leases.

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            self._give_back_waiting(now - WAIT_MAX)
            for lease in self._leases.values():
                if lease.ends_at <= now and lease.is_running:
                    lease.job._cancel("lease_lost")
            due = [lease for lease in self._leases.values() if lease.extend_at <= now and not lease.is_lost]
            for begin in range(0, len(due), RESERVE_JOBS):
                await self._extend_batch(due[begin : begin + RESERVE_JOBS])

    async def _extend_batch(self, batch: list[_Lease]) -> None:
        asked_at = time.monotonic()
        body = [{"receipt": lease.receipt, "lease": f"{int(lease.length * 1000)}ms"} for lease in batch]
        shortest = min(lease.length for lease in batch)
        for lease in batch:
            lease.extend_at = asked_at + lease.length / EXTEND_AGAIN_PART
        try:
            caller = self._caller.with_settings(timeout=max(min(self._settings.timeout, shortest / EXTEND_PART), 0.1))
            answer = await caller.call("POST", "/v1/extend", body, tries=self._tries)
            answers = calls.understood(lambda data: [dict(one) for one in data], answer)
        except DuetimeError as error:
            self._note_away(error)
            return
        for lease, one in zip(batch, answers):
            if "code" not in one:
                lease.ends_at, lease.extend_at = asked_at + lease.length, asked_at + lease.length / EXTEND_PART
                if one.get("cancel_requested"):
                    lease.job._cancel("cancelled")
            elif one["code"] in ("lease_lost", "not_found") and lease.is_running:
                lease.is_lost = True
                log.warning("job %s: the lease was lost while its handler runs; its outcome does not count", lease.job.id)
                lease.job._cancel("lease_lost")

    def _told(self, lease: _Lease, progress: Progress) -> None:
        lease.progress = progress
        if lease.teller is None or lease.teller.done():
            lease.teller = asyncio.ensure_future(self._tell(lease))

    async def _tell(self, lease: _Lease) -> None:
        while lease.progress is not None:
            progress, lease.progress = lease.progress, None
            body = {name: value for name, value in progress._asdict().items() if value is not None}
            try:
                answer = await self._caller.call("POST", calls.path("leases", lease.receipt, "progress"), body, deadline=5)
                if calls.document(answer).get("cancel_requested"):
                    lease.job._cancel("cancelled")
            except DuetimeError as error:
                log.debug("job %s: its progress was not recorded: %s", lease.job.id, error)

    # Away and back.

    def _answered(self) -> None:
        self._failures = 0
        self.is_connected, self.last_answer_at = True, time.time()
        if self._is_away:
            self._is_away = False
            log.info("the server answers again")

    def _note_away(self, error: DuetimeError) -> None:
        self.is_connected = False
        if not self._is_away:
            self._is_away = True
            log.warning("the server does not answer, trying again until it does: %s", error)

    async def _away(self, error: DuetimeError) -> None:
        self._note_away(error)
        self._failures += 1
        await asyncio.sleep(calls.backoff(self._failures - 1))

    def _fail(self, error: DuetimeError) -> None:
        log.error("the worker stops: %s", error)
        self.error = error
        self._stop(False)

    # The end.

    def _stop(self, at_once: bool) -> None:
        now = time.monotonic()
        if self._stop_at is None:
            self._stop_at = now + self.plan.stop_deadline
            self.phase = "stopping"
        self._give_back_waiting(now)
        if at_once:
            self._stop_at = min(self._stop_at, now)
        if asyncio.current_task() is not self._reserving:
            self._reserving.cancel()
        self._slots.set()
        self._to_end.set()

    async def _end(self) -> None:
        """Returns when all is over."""
        asked_at: Optional[float] = None
        released_at: Optional[float] = None
        while True:
            for task in self._tasks:
                if task.done() and not task.cancelled():
                    # Without one of them the worker would only seem to work.
                    task.result()
            now = time.monotonic()
            is_quiet = not self._leases and not self._outbox and self._reserving.done()
            if is_quiet and (self.phase == "stopping" or self._is_dry):
                return
            timeout = None
            if self._stop_at is not None and released_at is None:
                # Not before the last reserve is over: it would be handed what is given back.
                release_at = self._stop_at + (0 if self._reserving.done() else LEAVE)
                ask_at = release_at - min(HEED, self.plan.stop_deadline / 2)
                if asked_at is None and now >= ask_at:
                    asked_at = now
                    for lease in self._leases.values():
                        if lease.is_running:
                            lease.job._cancel("stopping")
                if asked_at is not None and now >= release_at:
                    released_at = now
                    self._release_running()
                timeout = max((ask_at if asked_at is None else release_at) - now, 0)
            elif released_at is not None:
                timeout = released_at + LEAVE - now
                if timeout <= 0:
                    ids = [lease.job.id for lease in self._leases.values()]
                    shown = ", ".join(ids[:IDS_SHOWN]) + (" …" if len(ids) > IDS_SHOWN else "")
                    log.warning("stopped with %d outcomes that were not acknowledged; these jobs run again: %s", len(ids), shown)
                    return
            self._to_end.clear()
            try:
                await asyncio.wait_for(self._to_end.wait(), timeout)
            except asyncio.TimeoutError:
                continue

    def _release_running(self) -> None:
        running = [lease for lease in self._leases.values() if lease.is_running]
        if running:
            log.warning("%d handlers did not end in time; their jobs are given back", len(running))
        for pool in self.plan.pools:
            pool.abandon()
        for lease in running:
            lease.is_running = False
            if lease.is_lost:
                self._forget(lease)
            else:
                self._finish(lease, RELEASED)

    async def _touch(self) -> None:
        while self.plan.health_file is not None:
            try:
                pathlib.Path(self.plan.health_file).touch()
            except OSError as error:
                log.error("the health file cannot be touched: %s", error)
            await asyncio.sleep(TOUCH)


def passes(error: DuetimeError) -> bool:
    """Whether a worker reports an outcome again. Unlike a caller it can wait until a store has room again, a token is accepted,
    or a proxy is repaired."""
    is_page = error.code == "protocol" and error.status != 413
    return calls.passes(error) or error.status >= 500 or error.status in (401, 403, 421) or is_page


def _jobs(answer: Answer) -> list[RunningJob]:
    exact = answer.exact.part("leases")

    def read(data: Any) -> list[RunningJob]:
        leases = list(data["leases"])
        if not all(isinstance(lease[field], str) for lease in leases for field in ("id", "queue", "kind", "receipt", "lease")):
            raise ValueError("a lease lacks a field")
        return [RunningJob(lease, exact.part(place)) for place, lease in enumerate(leases)]

    return calls.understood(read, answer)


def settle_text(lease: _Lease) -> bytes:
    """An element of a settle."""
    verb, body = lease.outcome
    return b'{"receipt":"%b","%b":%b}' % (lease.receipt.encode("ascii"), verb.encode("ascii"), body)
