"""A private server in memory, on a free port of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from typing import IO, Optional

from .. import calls
from .._typing import Self, Unpack
from ..client import AsyncClient, Client, ClientOptions
from ..transport import finish
from ..values import Duration, span

#: How long the clock may take to move, in seconds.
ADVANCE = 60


class Server:
    """Starts `duetime serve --test` and stops it: `with Server() as server: server.client().push(…)`.

    The binary is `DUETIME_BIN`, or `duetime` on the `PATH`. Raises `RuntimeError` with its words if it does not start.
    """

    #: What the program is called with.
    arguments = ("serve", "--test")

    def __init__(self, binary: Optional[str] = None) -> None:
        program = binary or os.environ.get("DUETIME_BIN") or shutil.which("duetime")
        if program is None:
            raise RuntimeError("there is no program `duetime`: put it on the PATH, or set DUETIME_BIN to its path")
        # What is meant for servers of other environments does not concern this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        pipe, elsewhere = subprocess.PIPE, tempfile.gettempdir()
        # The server ends with its standard input, so it does not outlive a test that is killed.
        self._process = subprocess.Popen(
            [program, *self.arguments], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env=environment, cwd=elsewhere
        )
        said, output = b"", self._process.stdout
        assert output is not None
        for line in output:
            said += line
            address = re.search(rb"https?://[^\s/]+", line)
            if address:
                break
        else:
            raise RuntimeError(f"{program} {' '.join(self.arguments)} did not start:\n{said.decode(errors='replace')}")
        #: Its address.
        self.url = address[0].decode()
        # A full pipe would stop the server.
        self._reader = threading.Thread(target=_read, args=(output,), daemon=True)
        self._reader.start()

    def client(self, **options: Unpack[ClientOptions]) -> Client:
        """A client of the server."""
        return Client(self.url, token="", **options)

    def async_client(self, **options: Unpack[ClientOptions]) -> AsyncClient:
        """A client of the server whose calls are awaited."""
        return AsyncClient(self.url, token="", **options)

    def advance(self, by: Duration) -> None:
        """Moves the clock of the server: jobs become due, schedules push, leases and pauses end, each at its time."""
        # A second try would move it again.
        with self.client(timeout=ADVANCE) as client:
            finish(client._caller.call("POST", calls.path("clock", "advance"), {"by": span("by", by)}, tries=1))

    def stop(self) -> None:
        """Stops the server."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _read(output: IO[bytes]) -> None:
    with output:
        for _ in output:
            pass
