"""The pytest plugin. It is found by itself once the package is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..client import Client
from .fake import Fake
from .server import Server


@pytest.fixture
def duetime_server() -> Iterator[Server]:
    """A private server in memory, for this test. `advance` moves its clock."""
    with Server() as server:
        yield server


@pytest.fixture
def duetime_client(duetime_server: Server) -> Iterator[Client]:
    """A client of `duetime_server`."""
    with duetime_server.client() as client:
        yield client


@pytest.fixture
def duetime_fake() -> Fake:
    """A fake without a server: records pushes, and runs handlers inline."""
    return Fake()
