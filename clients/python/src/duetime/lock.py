"""A lock between machines, held within a block. A thread renews it, so that a blocked block or event loop keeps it."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from typing import Optional

from . import errors
from .calls import Caller, path, understood
from .transport import Awaiting, Blocking, BlockingTransport, Transport, call, finish
from .values import Duration, seconds, span

#: The longest wait that one request asks for, in seconds.
WAIT_MAX = 30.0


class _Lock:
    """`fence` grows with every holder: store it with what you write, and refuse a write with a smaller one. `lost` is set as soon
    as the lock may be lost: stop then."""

    def __init__(self, caller: Caller, name: str, ttl: Duration, wait: Duration) -> None:
        self.name = name
        #: Names this holder; no other one has it.
        self.owner = f"{socket.gethostname()[:100]}-{os.getpid()}-{secrets.token_hex(8)}"
        #: Set as soon as the lock may be lost.
        self.lost = threading.Event()
        self._caller, self._ttl, self._wait = caller, ttl, wait
        self._fence: Optional[int] = None
        self._done = threading.Event()
        self._keeper: Optional[threading.Thread] = None

    @property
    def fence(self) -> int:
        """The number of this holder. Raises `LockLost` outside of the block."""
        if self._fence is None:
            raise errors.LockLost(f"the lock {self.name!r} is not held", code="lock_lost")
        return self._fence

    @call
    async def acquire(self) -> None:
        """Acquires the lock. Raises `LockHeld` if another holder has it for the whole `wait`."""
        began = time.monotonic()
        end = began + seconds(self._wait, "wait")
        while True:
            began = time.monotonic()
            left = max(end - began, 0)
            wait = min(left, WAIT_MAX)
            body = {"owner": self.owner, "ttl": span("ttl", self._ttl), "wait": span("wait", wait), "keep_place": left > wait}
            try:
                answer = await self._caller.call("PUT", path("locks", self.name), body, wait=wait)
                break
            except errors.LockHeld:
                if left <= wait:
                    raise
        self._fence = understood(lambda data: int(data["fence"]), answer)
        self.lost.clear()
        self._done = threading.Event()
        # If it waited, it was granted later, so this is early and therefore safe.
        valid_until = began + seconds(self._ttl) if not wait else time.monotonic() + seconds(self._ttl)
        self._keeper = threading.Thread(target=self._keep, args=(valid_until,), name="duetime-lock", daemon=True)
        self._keeper.start()

    @call
    async def release(self) -> None:
        """Releases the lock. One that is lost already is left alone."""
        fence, self._fence = self._fence, None
        self._done.set()
        if fence is None:
            return
        query = {"owner": self.owner, "fence": fence}
        try:
            await self._caller.call("DELETE", path("locks", self.name), query=query, done=("lock_lost",))
        except errors.LockLost:
            self.lost.set()

    def _keep(self, valid_until: float) -> None:
        """Renews the lock until it is released or lost."""
        transport: Optional[Transport] = BlockingTransport(self._caller.settings.ca) if isinstance(self, Awaiting) else None
        try:
            self._renew(Caller(self._caller.settings, transport or self._caller.transport), valid_until)
        finally:
            if transport is not None:
                finish(transport.close())

    def _renew(self, caller: Caller, valid_until: float) -> None:
        """Renews the lock each third of its time."""
        ttl, done, fence = seconds(self._ttl), self._done, self._fence
        body = {"owner": self.owner, "ttl": span("ttl", self._ttl), "fence": fence}
        pause = ttl / 3
        while not done.wait(max(min(pause, valid_until - time.monotonic()), 0)):
            began = time.monotonic()
            try:
                finish(caller.call("PUT", path("locks", self.name), body, deadline=max(ttl / 3, 0.05), tries=2))
                valid_until, pause = began + ttl, ttl / 3
            except errors.LockLost:
                valid_until = 0
            except errors.DuetimeError:
                pause = ttl / 12
            if time.monotonic() >= valid_until:
                if not done.is_set():
                    self.lost.set()
                return


class Lock(_Lock, Blocking):
    """A lock, held within a `with` block."""

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class AsyncLock(_Lock, Awaiting):
    """A lock, held within an `async with` block."""

    async def __aenter__(self) -> AsyncLock:
        await self.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self.release())
