"""Duetime, a delayed job queue: push a job now, run it later, and cancel it in between.

    from duetime import Client

    client = Client()  # DUETIME_SERVER, or http://127.0.0.1:7300
    client.push("orders", {"order": 4711}, kind="order.cancel", key="order-4711", delay="30m")
    client.cancel_by_key("orders", "order-4711")  # it is paid

`AsyncClient` has the same calls, which are awaited. `Worker` runs the jobs. `duetime.testing` helps to test both.
"""

from .client import AsyncClient, Client
from .errors import (
    Conflict,
    DuetimeError,
    Forbidden,
    Invalid,
    LeaseLost,
    LockHeld,
    LockLost,
    NotFound,
    Protocol,
    RateLimited,
    Unauthorized,
    Unavailable,
    WaitTimeout,
)
from .lock import AsyncLock, Lock
from .models import Attempt, Event, Job, JobOptions, NewJob, Pushed, Selection
from .worker import Fatal, JobCancelled, Park, Release, RetryAfter, RunningJob, Summary, Worker

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "AsyncLock",
    "Attempt",
    "Client",
    "Conflict",
    "DuetimeError",
    "Event",
    "Fatal",
    "Forbidden",
    "Invalid",
    "Job",
    "JobCancelled",
    "JobOptions",
    "LeaseLost",
    "Lock",
    "LockHeld",
    "LockLost",
    "NewJob",
    "NotFound",
    "Park",
    "Protocol",
    "Pushed",
    "RateLimited",
    "Release",
    "RetryAfter",
    "RunningJob",
    "Selection",
    "Summary",
    "Unauthorized",
    "Unavailable",
    "WaitTimeout",
    "Worker",
]
