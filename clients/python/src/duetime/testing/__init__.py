"""Helpers for tests: a private server in memory whose clock the test moves, and a fake that needs no server.

The pytest plugin (`duetime.testing.plugin`) has both as fixtures: `duetime_server`, `duetime_client`, `duetime_fake`.
"""

from .fake import Fake
from .server import Server

__all__ = ["Fake", "Server"]
