"""Where handlers run: on threads, in processes, or on an event loop. All report an `Outcome`, from a thread of theirs.

Threads are daemons: one that never ends does not keep the program from exiting, and its job runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Callable, Optional, Protocol

from ..values import Exact
from .handler import Handler, Middleware, Outcome, attempt, attempt_async
from .job import RunningJob

#: How often a handler's process is looked at, in seconds.
LOOK = 1.0

#: Called once with the outcome of an attempt.
Report = Callable[[RunningJob, Outcome], None]


class Pool(Protocol):
    """Runs handlers."""

    def start(self, handler: Handler, job: RunningJob) -> None:
        """Starts a handler. Never blocks."""

    def abandon(self) -> None:
        """Ends what can be ended: nobody waits for its outcome any more."""

    def close(self) -> None:
        """Starts nothing more."""


class Threads:
    """Handlers on up to `size` threads, which are made as they are needed."""

    def __init__(self, size: int, middlewares: Sequence[Middleware], report: Report) -> None:
        self._size, self._middlewares, self._report = size, middlewares, report
        self._tasks: queue.SimpleQueue[Optional[tuple[Handler, RunningJob]]] = queue.SimpleQueue()
        self._threads = 0
        self._idle = threading.Semaphore(0)

    def start(self, handler: Handler, job: RunningJob) -> None:
        self._tasks.put((handler, job))
        if self._threads < self._size and not self._idle.acquire(blocking=False):
            self._threads += 1
            threading.Thread(target=self._work, name=f"duetime-handler-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            handler, job = task
            began = time.perf_counter()
            try:
                outcome = self._run(handler, job)
            except Exception as error:
                # Such as no memory for another process. Without a report, the job would be extended for ever.
                outcome = Outcome.of_error(error, job)
            job._took = time.perf_counter() - began
            self._report(job, outcome)
            del task, handler, job, outcome
            if self._threads < self._size:
                self._idle.release()

    def _run(self, handler: Handler, job: RunningJob) -> Outcome:
        return attempt(handler, self._middlewares, job)

    def abandon(self) -> None:
        """Threads cannot be ended."""

    def close(self) -> None:
        for _ in range(self._threads):
            self._tasks.put(None)


class Processes(Threads):
    """Handlers in up to `size` processes. Each has a thread here that waits for it. A process that dies fails its job's attempt,
    and is replaced. All processes end with this one."""

    def __init__(self, size: int, middlewares: Sequence[Middleware], report: Report, handlers: Sequence[Handler]) -> None:
        super().__init__(size, (), report)
        self._children: set[_Child] = set()
        self._own = threading.local()
        try:
            self._image = pickle.dumps((list(handlers), list(middlewares)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            message = f"with pool='processes', handlers and middlewares must be functions of a module: {error}"
            raise TypeError(message) from None
        self._places = {id(handler): place for place, handler in enumerate(handlers)}

    def _run(self, handler: Handler, job: RunningJob) -> Outcome:
        child: Optional[_Child] = getattr(self._own, "child", None)
        if child is None or not child.process.is_alive():
            if child is not None:
                self._children.discard(child)
            child = self._own.child = _Child(self._image)
            self._children.add(child)
        return child.run(self._places[id(handler)], job)

    def abandon(self) -> None:
        for child in list(self._children):
            child.process.kill()

    def close(self) -> None:
        super().close()
        for child in list(self._children):
            if child.is_idle:
                child.connection.close()


class _Child:
    """A process that runs one job at a time."""

    def __init__(self, image: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_child_main, args=(theirs, image), name="duetime-handler", daemon=True)
        self.process.start()
        theirs.close()
        self.is_idle = True
        self._sending = threading.Lock()

    def run(self, place: int, job: RunningJob) -> Outcome:
        self.is_idle = False
        try:
            with self._sending:
                self.connection.send((place, (dict(job.raw), job._exact.text.encode())))
            job._on_cancel = lambda reason: self._cancel(job.id, reason)
            if job.cancelled.is_set():
                self._cancel(job.id, job.cancel_reason or "cancelled")
            while True:
                # A process that the handler has forked may keep the pipe open.
                while not self.connection.poll(LOOK):
                    if not self.process.is_alive() and not self.connection.poll():
                        raise EOFError
                told = self.connection.recv()
                if isinstance(told, Outcome):
                    return told
                job.progress(*told)
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
            return Outcome.failed(f"the process of the handler {how}")
        finally:
            job._on_cancel = None
            self.is_idle = True

    def _cancel(self, id: str, reason: str) -> None:
        # If it died, `run` finds out.
        with self._sending, contextlib.suppress(OSError):
            self.connection.send((id, reason))


def _child_main(connection: Connection, image: bytes) -> None:
    """Runs jobs until the parent closes the connection, or dies."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # The parent decides: a terminal signals all processes of the group.
        signal.signal(number, signal.SIG_IGN)
    handlers, middlewares = pickle.loads(image)
    jobs: queue.SimpleQueue[tuple[int, RunningJob]] = queue.SimpleQueue()
    sending = threading.Lock()

    def send(told: Any) -> None:
        with sending:
            connection.send(told)

    def listen() -> None:
        last: Optional[RunningJob] = None
        try:
            while True:
                what, told = connection.recv()
                if isinstance(what, int):
                    last = RunningJob(told[0], Exact(told[1]))
                    last._told = lambda percent, note: send((percent, note))
                    jobs.put((what, last))
                elif last is not None and last.id == what:
                    last._cancel(told)
        except (EOFError, OSError):
            # Nobody extends the lease any more: the job runs again elsewhere.
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        place, job = jobs.get()
        send(attempt(handlers[place], middlewares, job))


class Loop:
    """Async handlers on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, middlewares: Sequence[Middleware], report: Report) -> None:
        self._loop, self._middlewares, self._report = loop, middlewares, report
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, handler: Handler, job: RunningJob) -> None:
        self._loop.call_soon_threadsafe(self._begin, handler, job)

    def _begin(self, handler: Handler, job: RunningJob) -> None:
        task = self._loop.create_task(self._run(handler, job), name=f"duetime job {job.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        job._on_cancel = lambda reason: self._call(task.cancel)
        if job.cancelled.is_set():
            task.cancel()

    def _call(self, function: Callable[[], Any]) -> None:
        # If the loop is closed, its tasks are, too.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def _run(self, handler: Handler, job: RunningJob) -> None:
        began = time.perf_counter()
        outcome = await attempt_async(handler, self._middlewares, job)
        job._took = time.perf_counter() - began
        self._report(job, outcome)

    def abandon(self) -> None:
        for task in list(self._tasks):
            self._call(task.cancel)

    def close(self) -> None:
        """Its owner closes the loop."""
