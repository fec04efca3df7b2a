"""The worker: runs jobs with the handlers of their kinds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from types import FrameType
from typing import Any, Callable, Optional, TypeVar, Union

from .._typing import Self
from ..client import AsyncClient, Client
from ..values import Duration, seconds, span
from .dispatcher import Dispatcher, Plan, Summary
from .handler import Handler, Middleware, Outcome, attempt, attempt_async
from .job import RunningJob
from .pools import Loop, Pool, Processes, Threads
from .turns import Turns

log = logging.getLogger("duetime")
F = TypeVar("F", bound=Callable[..., Any])

#: Handles every kind that has no handler of its own.
EVERY_KIND = "*"


class Worker:
    """Runs the jobs of some queues. Leases are extended apart from the handlers, so a handler may block, compute or take hours.

    `queues`: one, several in strict order, or weights such as `{"urgent": 5, "mail": 1}`. `concurrency`: how many handlers run
    at once. No more jobs are reserved, except with `ahead` those that quick handlers do in 5 ms, at most 16 for each: if the
    process is killed, these have lost an attempt, but never their last. `pool`: where handlers that are not async run:
    `threads`, or `processes` for handlers that compute. Async handlers run on one event loop. `name`: for the list of workers,
    host and process id by default. `lease`: by default the job's or queue's own (60 s); a cancel arrives within a third of it.
    `wait`: how long a request waits for jobs. `stop_deadline`: how long running handlers have at a stop before their jobs are
    given back. `health_file`: touched every 5 s while the worker is alive.
    """

    def __init__(
        self,
        client: Union[Client, AsyncClient, None] = None,
        queues: Union[str, Iterable[str], Mapping[str, int]] = "default",
        *,
        concurrency: int = 8,
        ahead: bool = True,
        pool: str = "threads",
        name: Optional[str] = None,
        lease: Optional[Duration] = None,
        wait: Duration = 20,
        stop_deadline: Duration = 25,
        health_file: Optional[Union[str, pathlib.Path]] = None,
    ) -> None:
        self.client = client
        self.queues = queues
        self.concurrency = concurrency
        self.ahead = ahead
        self.pool = pool
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.lease, self.wait, self.stop_deadline, self.health_file = lease, wait, stop_deadline, health_file
        self._handlers: dict[str, Handler] = {}
        self._middlewares: list[Middleware] = []
        self._dispatcher: Optional[Dispatcher] = None

    def handler(self, *kinds: str) -> Callable[[F], F]:
        """Makes a function the handler of these kinds; `"*"` stands for every other kind. The function stays as it is.

        Its first parameter gets the payload, as the type that it is annotated with: a dataclass, a pydantic model, a
        `TypedDict`, a plain type, or anything. A second one gets the `RunningJob`. What it returns is the job's result. Any
        exception is a failed attempt; `Fatal`, `RetryAfter`, `Release` and `Park` say more. Raises `ValueError` if a kind has a
        handler already.
        """
        if not kinds or not all(isinstance(kind, str) for kind in kinds):
            raise TypeError('a handler needs the kinds of its jobs: @worker.handler("order.cancel")')

        def add(function: F) -> F:
            handler = Handler(function)
            for kind in kinds:
                if kind in self._handlers:
                    raise ValueError(f"the kind {kind!r} has a handler already: {self._handlers[kind].function!r}")
                self._handlers[kind] = handler
            return function

        return add

    def middleware(self, around: Middleware) -> Middleware:
        """Runs a context manager around each job, in the handler's thread: `worker.middleware(lambda job: transaction.atomic())`.
        The first one is the outermost."""
        self._middlewares.append(around)
        return around

    def run(self) -> Summary:
        """Works until SIGTERM, SIGINT or `stop`. Then it reserves nothing more, lets running handlers end until
        `stop_deadline`, and gives the other jobs back. A second signal ends it at once. Raises what the server refuses, such as
        `Unauthorized`."""
        return self._run(is_drain=False)

    def drain(self) -> Summary:
        """Runs what is due, also what handlers push meanwhile, until nothing is."""
        return self._run(is_drain=True)

    async def run_async(self) -> Summary:
        """Works as `run`, with async handlers on the running event loop, until `stop` is called or it is cancelled, which stops at
        once. Installs no signal handlers."""
        return await self._run_async(is_drain=False)

    async def drain_async(self) -> Summary:
        """Drains as `drain`, with async handlers on the running event loop."""
        return await self._run_async(is_drain=True)

    def stop(self, *, at_once: bool = False) -> None:
        """Ends a run gracefully, from any thread. `at_once`: gives back all jobs now."""
        if self._dispatcher is not None:
            self._dispatcher.stop(at_once)

    def health(self) -> dict[str, Any]:
        """For a supervisor: `phase` (`idle`, `working`, `stopping` …), whether the worker is `connected`, when the server answered
        last (`last_answer_at`, a Unix time), how many handlers are `running`, and counts since the start."""
        it = self._dispatcher
        return {
            "phase": it.phase if it else "idle",
            "name": self.name,
            "connected": it is not None and it.is_connected,
            "last_answer_at": it and it.last_answer_at,
            "running": it.running if it else 0,
            **asdict(it.summary if it else Summary()),
        }

    async def __aenter__(self) -> Self:
        """Starts to work beside the program: `async with worker: …`. The end of the block stops it gracefully."""
        self._begin(asyncio.get_running_loop(), is_drain=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self._ended()

    def attempt(self, body: dict[str, Any]) -> Outcome:
        """Runs one attempt of a job here and now, as the server hands jobs out. For tests."""
        job = RunningJob(body)
        handler = self._find(job.kind)
        if handler is None:
            return Outcome.released("5s")
        if handler.is_async:
            loop = asyncio.new_event_loop()
            try:
                return loop.run_until_complete(attempt_async(handler, self._middlewares, job))
            finally:
                loop.close()
        return attempt(handler, self._middlewares, job)

    # How it runs.

    def _find(self, kind: str) -> Optional[Handler]:
        return self._handlers.get(kind) or self._handlers.get(EVERY_KIND)

    def _begin(self, loop: Optional[asyncio.AbstractEventLoop], is_drain: bool) -> Dispatcher:
        if self._dispatcher is not None and not self._dispatcher.is_done.is_set():
            raise RuntimeError("the worker is running already")
        if not self._handlers:
            raise RuntimeError('the worker has no handlers: add them with @worker.handler("order.cancel")')
        if isinstance(self.concurrency, bool) or not isinstance(self.concurrency, int) or self.concurrency < 1:
            raise ValueError(f"concurrency must be an integer of 1 or more, got {self.concurrency!r}")
        if self.pool not in ("threads", "processes"):
            raise ValueError(f"pool must be 'threads' or 'processes', got {self.pool!r}")
        client = self.client or Client()
        pools: list[Pool] = []
        plan = Plan(
            caller=client._caller,
            turns=Turns(self.queues),
            concurrency=self.concurrency,
            is_ahead=self.ahead,
            name=self.name,
            lease=None if self.lease is None else span("lease", self.lease),
            wait=seconds(self.wait, "wait"),
            stop_deadline=seconds(self.stop_deadline, "stop_deadline"),
            health_file=None if self.health_file is None else str(self.health_file),
            find=self._find,
            pool_of=lambda handler: on_loop if handler.is_async and on_loop else on_threads,
            pools=pools,
            is_drain=is_drain,
        )
        dispatcher = Dispatcher(plan)
        handlers = [handler for handler in self._handlers.values() if not handler.is_async]
        on_threads: Pool = Threads(self.concurrency, self._middlewares, dispatcher.report)
        if self.pool == "processes":
            on_threads = Processes(self.concurrency, self._middlewares, dispatcher.report, handlers)
        on_loop = Loop(loop, self._middlewares, dispatcher.report) if loop is not None else None
        pools += [on_threads] if on_loop is None else [on_threads, on_loop]
        self._dispatcher = dispatcher
        dispatcher.start()
        return dispatcher

    def _run(self, is_drain: bool) -> Summary:
        with _loop_if(any(handler.is_async for handler in self._handlers.values())) as loop:
            dispatcher = self._begin(loop, is_drain)
            if not is_drain:
                plan = dispatcher.plan
                log.info("working on %s, %d at once", ", ".join(plan.turns.queues), plan.concurrency)
            with _signals(self):
                # In steps, so that signals are handled on every platform.
                while not dispatcher.is_done.wait(3600):
                    pass
            return self._end(dispatcher)

    async def _run_async(self, is_drain: bool) -> Summary:
        dispatcher = self._begin(asyncio.get_running_loop(), is_drain)
        try:
            await self._ended()
        except asyncio.CancelledError:
            dispatcher.stop(at_once=True)
            await asyncio.shield(self._ended())
            raise
        return self._end(dispatcher)

    async def _ended(self) -> None:
        assert self._dispatcher is not None
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        self._dispatcher.when_done(tell)
        await ended.wait()

    def _end(self, dispatcher: Dispatcher) -> Summary:
        for pool in dispatcher.plan.pools:
            pool.close()
        if dispatcher.error is not None:
            raise dispatcher.error
        return dispatcher.summary


@contextlib.contextmanager
def _loop_if(is_needed: bool) -> Iterator[Optional[asyncio.AbstractEventLoop]]:
    """An event loop in a thread, for async handlers."""
    if not is_needed:
        yield None
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="duetime-handlers", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        # A handler that blocks the loop does not keep the program from ending.
        thread.join(1)
        if not thread.is_alive():
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


@contextlib.contextmanager
def _signals(worker: Worker) -> Iterator[None]:
    """While a worker runs: a signal stops it, a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def heed(number: int, frame: Optional[FrameType]) -> None:
        nonlocal count
        count += 1
        worker.stop(at_once=count > 1)

    before = {number: signal.signal(number, heed) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
