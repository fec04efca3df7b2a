"""Handlers: what their parameters take, how they are called, and which outcome it has for the job."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import sys
import traceback
import typing
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Callable, NamedTuple, Optional, Union

from ..errors import DuetimeError
from ..trace import within
from ..values import to_json, utf8, with_value
from .convert import Mismatch, convert
from .job import Fatal, JobCancelled, Park, Release, RetryAfter, RunningJob

log = logging.getLogger("duetime")

#: The longest message of a failure that is sent, in bytes. The server keeps 64 KiB of all attempts.
MESSAGE_BYTES_MAX = 8_192
#: The server keeps a result of 1 MiB, and refuses more. What is far beyond is not sent: on a slow connection no try would end in
#: time, and all other outcomes would wait.
RESULT_BYTES_MAX = 4 << 20

#: Runs around each job: a context manager, such as `lambda job: transaction.atomic()`.
Middleware = Callable[[RunningJob], "AbstractContextManager[Any]"]


class Outcome(NamedTuple):
    """How an attempt ended: the verb that settles the lease, and its body in JSON."""

    verb: str
    body: bytes

    @staticmethod
    def of_result(result: object, then: Sequence[Any] = ()) -> Outcome:
        """The attempt succeeded, and has added these jobs. A result that is not JSON, or far too large, fails the job for good."""
        added = {"then": then} if then else {}
        if result is None:
            return Outcome("complete", to_json(added))
        try:
            body = with_value("result", result, added)
        except DuetimeError as refused:
            return Outcome.failed(f"the job is done, but {refused.detail}", is_final=True)
        if len(body) > RESULT_BYTES_MAX:
            why = f"its result was not sent: expected at most 1 MiB, got {len(body)} bytes"
            return Outcome.failed(f"the job is done, but {why}", is_final=True)
        return Outcome("complete", body)

    @staticmethod
    def failed(message: str, *, is_final: bool = False, retry_after: Optional[str] = None) -> Outcome:
        """The attempt failed."""
        return Outcome._of("fail", message=message, final=is_final or None, retry_after=retry_after)

    @staticmethod
    def released(delay: str = "0ms", priority: Optional[int] = None) -> Outcome:
        """The job is given back; the attempt does not count."""
        return Outcome._of("release", delay=delay, priority=priority)

    @staticmethod
    def _of(verb: str, **body: Any) -> Outcome:
        if "message" in body:
            body["message"] = utf8(body["message"], MESSAGE_BYTES_MAX)
        return Outcome(verb, to_json({name: value for name, value in body.items() if value is not None}, verb))

    @staticmethod
    def of_error(error: BaseException, job: RunningJob) -> Outcome:
        """What an exception of a handler means."""
        if isinstance(error, Release):
            return Outcome.released(error.delay, error.priority)
        if isinstance(error, Park):
            return Outcome._of("park", message=_text(error), priority=error.priority)
        if isinstance(error, RetryAfter):
            return Outcome.failed(_text(error), retry_after=error.delay)
        if isinstance(error, (Fatal, Mismatch)):
            return Outcome.failed(_text(error), is_final=True)
        if isinstance(error, (JobCancelled, asyncio.CancelledError)) and job.cancelled.is_set():
            return Outcome.released() if job.cancel_reason == "stopping" else Outcome.failed("cancelled")
        log.warning("job %s (%s), attempt %d failed", job.id, job.kind, job.attempt, exc_info=error)
        return Outcome.failed(f"{type(error).__name__}: {_text(error)}{_place(error)}")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return f"a {type(error).__name__} without text"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" (line {frames[-1].lineno} of {frames[-1].filename}, in {frames[-1].name})" if frames else ""


class Handler:
    """A function that runs the jobs of a kind. Its first parameter is the payload, as the type that it is annotated with, the
    second the `RunningJob`. Raises `TypeError` if it has others."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        parameters = list(inspect.signature(function).parameters.values())
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        required = [one for one in positional[2:] if one.default is one.empty]
        required += [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
        if required:
            raise TypeError(f"a handler takes a payload and a RunningJob, but {function!r} needs `{required[0].name}`, too")
        self._names = [one.name for one in positional[:2]]

    @functools.cached_property
    def _kinds(self) -> list[Any]:
        """What each parameter takes. Read at the first job: then all names in annotations are defined."""
        function = inspect.unwrap(self.function)
        hints = typing.get_type_hints(function if inspect.isroutine(function) else type(function).__call__, include_extras=True)
        kinds = [hints.get(name, Any) for name in self._names]
        if len(kinds) == 2:
            kinds[1] = RunningJob
        return ["job" if kind is RunningJob else kind for kind in kinds]

    def arguments(self, job: RunningJob) -> list[Any]:
        """The arguments for a job. Raises `Mismatch`."""
        return [job if kind == "job" else convert(job.payload, kind) for kind in self._kinds]

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["function"])  # type: ignore[misc]


@contextlib.contextmanager
def _around(middlewares: Sequence[Middleware], job: RunningJob) -> Any:
    attributes = {"messaging.system": "duetime", "messaging.destination.name": job.queue, "messaging.message.id": job.id}
    with contextlib.ExitStack() as stack:
        stack.enter_context(within(job.trace, job.kind, attributes))
        for middleware in middlewares:
            stack.enter_context(middleware(job))
        yield


def attempt(handler: Handler, middlewares: Sequence[Middleware], job: RunningJob) -> Outcome:
    """Runs a handler that is not async. Never raises."""
    process = os.getpid()
    try:
        with _around(middlewares, job):
            result = handler.function(*handler.arguments(job))
        return _of_process(process, job, Outcome.of_result(result, job._added))
    except BaseException as error:
        return _of_process(process, job, error)


async def attempt_async(handler: Handler, middlewares: Sequence[Middleware], job: RunningJob) -> Outcome:
    """Runs an async handler. Never raises."""
    process = os.getpid()
    try:
        with _around(middlewares, job):
            result = await handler.function(*handler.arguments(job))
        return _of_process(process, job, Outcome.of_result(result, job._added))
    except BaseException as error:
        return _of_process(process, job, error)


def _of_process(process: int, job: RunningJob, ended: Union[Outcome, BaseException]) -> Outcome:
    """The outcome, in the process that has the job. One that the handler has forked ends here: it must report nothing."""
    if os.getpid() != process:
        code = ended.code if isinstance(ended, SystemExit) else 0 if isinstance(ended, Outcome) else 1
        if not isinstance(ended, SystemExit):
            log.error("job %s: a process that its handler has forked returned from it, and is ended", job.id)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code if isinstance(code, int) else code is not None)
    return ended if isinstance(ended, Outcome) else Outcome.of_error(ended, job)
