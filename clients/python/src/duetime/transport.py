"""How requests travel: over httpx, blocking or on an event loop.

Both clients share one text of every call, which is written as a coroutine. The awaiting client runs it on the event loop. The
blocking client runs the same coroutine to its end at once: each `await` in it reaches a method of `BlockingTransport`, which
blocks and never suspends.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import ssl
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Generic, NamedTuple, Optional, Protocol, TypeVar, Union, overload

import httpcore
import httpx

from ._typing import Concatenate, ParamSpec

P = ParamSpec("P")
T = TypeVar("T")


class Reply(NamedTuple):
    """An answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unsent(Exception):
    """The request did not reach a server."""


class Lost(Exception):
    """The connection or the time ended before the whole answer was there. The server may have done what was asked."""


@dataclass(frozen=True)
class Request:
    """One try of a call."""

    server: str
    method: str
    path: str
    body: Optional[bytes]
    headers: Mapping[str, str]
    timeout: float
    """Seconds for the whole try; for a stream, between two chunks of it."""


class Transport(Protocol):
    """What a client needs of the outside. A test can put its own in place of HTTP."""

    async def send(self, request: Request) -> Reply:
        """Sends a request. Raises `Unsent` or `Lost`."""
        ...

    def lines(self, request: Request) -> AsyncIterator[Union[Reply, str]]:
        """Opens a stream: its lines, or the reply if the status is not 200. Raises `Unsent` or `Lost`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        ...

    async def close(self) -> None:
        """Closes all connections."""
        ...


_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


def _options(server: str, ca: Optional[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a httpx client and of its transport for a server. `unix:PATH` is a unix socket."""
    if server.startswith("unix:"):
        client, transport = {"base_url": "http://localhost"}, {"uds": server[len("unix:") :]}
    else:
        client, transport = {"base_url": server}, {}
    verify: Any = False
    if server.startswith("https:"):
        verify = ssl.create_default_context(cafile=ca)
    return {**client, "trust_env": False}, {**transport, "verify": verify, "limits": _LIMITS, "trust_env": False}


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Makes an error of httpx `Unsent` or `Lost`."""
    try:
        yield
    except httpx.HTTPError as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise (Unsent if isinstance(error, _UNSENT) else Lost)(why) from None


class _Limit(threading.local):
    """When the try of a thread is over. The time-outs of httpx are for each part of an answer, of which there can be many."""

    end = math.inf

    def within(self, timeout: Optional[float], error: type[Exception]) -> Optional[float]:
        left = self.end - time.monotonic()
        if left <= 0:
            raise error("no whole answer in time")
        return timeout if left == math.inf else min(left, left if timeout is None else timeout)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, limit: _Limit) -> None:
        self._stream, self._limit = stream, limit

    def read(self, max_bytes: int, timeout: Optional[float] = None) -> bytes:
        return self._stream.read(max_bytes, self._limit.within(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: Optional[float] = None) -> None:
        self._stream.write(buffer, self._limit.within(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: Optional[str] = None, timeout: Optional[float] = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._limit)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def __init__(self, limit: _Limit) -> None:
        self._limit = limit

    def connect_tcp(self, *words: Any, **options: Any) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(*words, **options), self._limit)

    def connect_unix_socket(self, *words: Any, **options: Any) -> httpcore.NetworkStream:
        return _Stream(super().connect_unix_socket(*words, **options), self._limit)


class BlockingTransport:
    """HTTP that blocks the thread. Safe for use by several threads, and after a fork."""

    def __init__(self, ca: Optional[str]) -> None:
        self._ca, self._clients, self._pid, self._lock = ca, dict[str, httpx.Client](), os.getpid(), threading.Lock()
        self._limit = _Limit()

    def _client(self, server: str) -> httpx.Client:
        if self._pid != os.getpid():
            # The parent's connections stay the parent's.
            self._clients, self._pid, self._lock = {}, os.getpid(), threading.Lock()
        client = self._clients.get(server)
        if client is None:
            with self._lock:
                options, transport = _options(server, self._ca)
                http = httpx.HTTPTransport(**transport)
                # httpx has no argument for it.
                http._pool._network_backend = _Backend(self._limit)
                client = self._clients.setdefault(server, httpx.Client(transport=http, **options))
        return client

    async def send(self, request: Request) -> Reply:
        client = self._client(request.server)
        self._limit.end = time.monotonic() + request.timeout
        built = client.build_request(
            request.method, request.path, content=request.body, headers=request.headers, timeout=request.timeout
        )
        with _failures():
            response = client.send(built)
        return Reply(response.status_code, response.headers, response.content)

    async def lines(self, request: Request) -> AsyncIterator[Union[Reply, str]]:
        timeout = httpx.Timeout(request.timeout)
        self._limit.end = math.inf
        client = self._client(request.server)
        with _failures(), client.stream(request.method, request.path, headers=request.headers, timeout=timeout) as response:
            if response.status_code != 200:
                yield Reply(response.status_code, response.headers, response.read())
                return
            for line in response.iter_lines():
                yield line
                # Meanwhile this thread may have made another call.
                self._limit.end = math.inf

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()


class AwaitingTransport:
    """HTTP on the running event loop. With another loop it makes new connections."""

    def __init__(self, ca: Optional[str]) -> None:
        self._ca, self._clients = ca, dict[str, httpx.AsyncClient]()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def _client(self, server: str) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._clients, self._loop = {}, loop
        if server not in self._clients:
            options, transport = _options(server, self._ca)
            self._clients[server] = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(**transport), **options)
        return self._clients[server]

    async def send(self, request: Request) -> Reply:
        client = self._client(request.server)
        built = client.build_request(
            request.method, request.path, content=request.body, headers=request.headers, timeout=request.timeout
        )
        try:
            with _failures():
                response = await asyncio.wait_for(client.send(built), request.timeout)
        except asyncio.TimeoutError:
            raise Lost(f"no whole answer within {request.timeout:g} s") from None
        return Reply(response.status_code, response.headers, response.content)

    async def lines(self, request: Request) -> AsyncIterator[Union[Reply, str]]:
        timeout = httpx.Timeout(request.timeout)
        client = self._client(request.server)
        with _failures():
            async with client.stream(request.method, request.path, headers=request.headers, timeout=timeout) as response:
                if response.status_code != 200:
                    yield Reply(response.status_code, response.headers, await response.aread())
                    return
                async for line in response.aiter_lines():
                    yield line

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


class Blocking:
    """Marks an object whose calls block."""


class Awaiting:
    """Marks an object whose calls are awaited."""


def finish(call: Coroutine[Any, Any, T]) -> T:
    """Runs a call over a transport that blocks."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise RuntimeError("a blocking call must not suspend")


class call(Generic[P, T]):
    """A method that blocks on a `Blocking` object, and is awaited on an `Awaiting` one."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self._function
        bound = self._function.__get__(owner)
        if isinstance(owner, Awaiting):
            return bound
        return functools.wraps(self._function)(lambda *args, **options: finish(bound(*args, **options)))


class stream(Generic[P, T]):
    """A method that returns an iterator on a `Blocking` object, and an async one on an `Awaiting` one."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> None:
        self._function = function
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[Concatenate[Any, P], AsyncIterator[T]]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self._function
        bound = self._function.__get__(owner)
        if isinstance(owner, Awaiting):
            return bound
        return functools.wraps(self._function)(lambda *args, **options: _blocking(bound(*args, **options)))


def _blocking(items: Any) -> Iterator[Any]:
    try:
        while True:
            try:
                yield finish(items.__anext__())
            except StopAsyncIteration:
                return
    finally:
        finish(items.aclose())
