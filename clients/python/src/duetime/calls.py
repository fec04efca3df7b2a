"""A call: its tries, one server after the other, until one answers or the deadline has passed.

Repeated are lost connections, the statuses 408, 429, 502, 503 and 504, and answers that are not Duetime's. A call that must not
happen twice carries something by which the server knows a repeat: an origin, a request id, the version of the job.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional, TypeVar
from urllib.parse import quote

from . import errors
from .errors import DuetimeError
from .transport import Lost, Reply, Request, Transport, Unsent
from .values import Exact, seconds, to_json

T = TypeVar("T")
# Seconds: a try that has less time says nothing.
TRY_MIN = 0.02

#: The first pause between two tries, and the longest, in seconds.
PAUSE, PAUSE_MAX = 0.1, 5.0


@dataclass(frozen=True)
class Settings:
    """How a client calls: see `ClientOptions`."""

    servers: tuple[str, ...]
    token: Optional[str]
    ca: Optional[str]
    timeout: float = 5
    deadline: float = 30
    push_deadline: float = 10
    push_tries: Optional[int] = 2


@dataclass
class Answer:
    """An answer of the server."""

    data: Any
    headers: Mapping[str, str]
    is_repeat: bool
    """Whether an earlier try may have done it already."""
    exact: Exact
    """The data as it came."""


def path(*parts: str) -> str:
    """A path of the API, with names in it escaped. Raises `Invalid` for a name that is empty or not text: the request would mean
    something else."""
    return "/v1/" + "/".join(_segment(name("name", part)) for part in parts)


def name(field: str, value: str) -> str:
    """A name, a key or a tag. Raises `Invalid` if it is empty or not text."""
    if not isinstance(value, str) or not value:
        raise errors.invalid(field, "text that is not empty", value)
    return value


def _segment(text: str) -> str:
    # A dot is the folder itself in a path, two are the one above.
    return text.replace(".", "%2E") if text in (".", "..") else _quoted(text)


def _quoted(text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise errors.invalid("name", "valid Unicode", text) from None


def backoff(failures: int) -> float:
    """How long to wait after so many failures in a row, in seconds."""
    return min(PAUSE * 2.0 ** min(failures, 10), PAUSE_MAX) * random.uniform(0.5, 1)


class Caller:
    """Makes calls. Remembers which server answered last."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        self.settings, self.transport, self._place = settings, transport, 0
        self._headers = {"content-type": "application/json", "user-agent": "duetime-python"}
        if settings.token:
            self._headers["authorization"] = f"Bearer {settings.token}"

    def with_settings(self, **changes: Any) -> Caller:
        """The same connections, with other settings."""
        return Caller(replace(self.settings, **changes), self.transport)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Optional[Mapping[str, str]] = None,
        query: Optional[Mapping[str, object]] = None,
        wait: float = 0,
        deadline: Optional[float] = None,
        tries: Optional[int] = None,
        retry_within: Optional[float] = None,
        done: tuple[str, ...] = (),
    ) -> Answer:
        """Makes a call. `wait`: how long the server may wait before it answers. `retry_within`: a try that fails later, beyond the
        wait, is the last. `done`: codes that mean, in a repeat, that an earlier try did it; the data is `None` then. Raises a
        `DuetimeError`."""
        content = body if body is None or isinstance(body, bytes) else to_json(body, "body")
        path += query_string(query)
        began, count, is_repeat = time.monotonic(), 0, False
        end = began + wait + (self.settings.deadline if deadline is None else deadline)
        while True:
            count += 1
            server = self.settings.servers[self._place % len(self.settings.servers)]
            timeout = min(self.settings.timeout + wait, max(end - time.monotonic(), 0.05))
            request = Request(server, method, path, content, {**self._headers, **(headers or {})}, timeout)
            pause = 0.0
            try:
                reply = await self.transport.send(request)
                data = read(reply)
                return Answer(data, reply.headers, is_repeat, Exact(reply.body))
            except Unsent as failure:
                error: DuetimeError = _unreachable(server, failure)
                may_have_happened = False
            except Lost as failure:
                error, may_have_happened = _unreachable(server, failure), True
            except DuetimeError as refused:
                if is_repeat and refused.code in done:
                    return Answer(None, {}, True, Exact(b""))
                if is_repeat and refused.code == "version_mismatch":
                    # Perhaps by the try whose answer was lost.
                    raise _after(error, count, time.monotonic() - began) from refused
                if not passes(refused):
                    raise
                error, pause = refused, _retry_after(refused)
                may_have_happened = refused.code in ("protocol", "store_unavailable", "http_502", "http_504")
            is_repeat = is_repeat or may_have_happened
            self._place += 1
            has_next = count % len(self.settings.servers) != 0 and pause == 0
            if not has_next:
                pause = max(pause, backoff(count // len(self.settings.servers)))
            again_at = time.monotonic() + pause
            is_late = retry_within is not None and again_at > began + wait + retry_within
            if is_late or (tries is not None and count >= tries) or again_at + TRY_MIN >= end:
                raise _after(error, count, time.monotonic() - began)
            if pause:
                await self.transport.sleep(pause)

    def stream_request(self, path: str, headers: Mapping[str, str], timeout: float) -> Request:
        """The request that opens a stream, on the next server each time."""
        server = self.settings.servers[self._place % len(self.settings.servers)]
        headers = {**self._headers, **headers, "accept": "text/event-stream"}
        return Request(server, "GET", path, None, headers, timeout)

    def next_server(self) -> None:
        """Turns to the next server."""
        self._place += 1


def query_string(query: Optional[Mapping[str, object]]) -> str:
    """The query string, without what is `None`. A list is repeated."""
    pairs = []
    for field, value in (query or {}).items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                pairs.append(f"{field}={_quoted(str(one))}")
    return "?" + "&".join(pairs) if pairs else ""


def read(reply: Reply) -> Any:
    """The JSON of an answer. Raises the error that it describes."""
    is_ok = 200 <= reply.status < 300
    if is_ok and not reply.body:
        if reply.status == 204:
            return None
        raise errors.of_page(reply.body, reply.status, "the answer is empty")
    kind = reply.headers.get("content-type", "")
    try:
        data = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise errors.of_page(reply.body, reply.status, "the answer is not JSON") from None
    if "json" not in kind:
        raise errors.of_page(reply.body, reply.status, f"the answer is of the type {kind!r}")
    if is_ok:
        return data
    if not isinstance(data, dict) or "code" not in data:
        raise errors.of_page(reply.body, reply.status, "the answer is not from Duetime")
    problem = {**data}
    if reply.headers.get("retry-after") is not None:
        problem.setdefault("retry_after", f"{reply.headers['retry-after']}s")
    raise errors.of_problem(problem, reply.status, reply.headers.get("request-id"))


def understood(read: Callable[[Any], T], answer: Answer) -> T:
    """What `read` makes of an answer. Raises `Protocol` if it is of another form."""
    try:
        return read(answer.data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        shown = to_json(answer.data)
        raise errors.of_page(shown, 200, f"the answer is not as expected ({error!r})") from None


def document(answer: Answer) -> dict[str, Any]:
    """The object that was answered. Raises `Protocol` if it is something else."""
    if not isinstance(answer.data, dict):
        raise errors.of_page(to_json(answer.data), 200, "the answer is no object")
    return answer.data


def passes(error: DuetimeError) -> bool:
    """Whether the same call may succeed later."""
    if error.code == "protocol":
        return error.status < 400 or error.status >= 500 or error.status in (408, 429)
    return error.code == "unreachable" or error.status in (408, 429, 502, 503, 504)


def _unreachable(server: str, failure: Exception) -> DuetimeError:
    return errors.Unavailable(f"{server}: {failure}", code="unreachable")


def _retry_after(error: DuetimeError) -> float:
    text = error.problem.get("retry_after")
    try:
        return seconds(str(text)) if text is not None else 0.0
    except errors.Invalid:
        return 0.0


def _after(error: DuetimeError, tries: int, elapsed: float) -> DuetimeError:
    detail = f"{error.detail} (tried {tries} times in {elapsed:.1f} s)" if tries > 1 else error.detail
    return type(error)(detail, code=error.code, status=error.status, problem=error.problem, request_id=error.request_id)
