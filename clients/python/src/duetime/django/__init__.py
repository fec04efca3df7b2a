"""For Django: pushes that wait for the commit, and the command `duetime_work`.

Add `"duetime.django"` to `INSTALLED_APPS`. The setting `DUETIME` is optional: a dictionary with arguments of `Client`, such as
`server` and `token`, and with the `worker` that `manage.py duetime_work` runs, such as `"shop.jobs:worker"`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Optional

from django.conf import settings
from django.db import close_old_connections, transaction

from .._typing import Unpack
from ..client import Client
from ..models import JobOptions, job_body
from ..worker import RunningJob


@functools.lru_cache(maxsize=1)
def client() -> Client:
    """The client of this process, with the arguments in the setting `DUETIME`."""
    options = {name: value for name, value in getattr(settings, "DUETIME", {}).items() if name != "worker"}
    return Client(**options)


def push(queue: str, payload: object, *, using: Optional[str] = None, robust: bool = False, **options: Unpack[JobOptions]) -> None:
    """Pushes a job once the current transaction is committed; now, if there is none; never, if it is rolled back.

    `using`: the database, `default` by default. A process that dies between the commit and the push has pushed nothing. If that
    must not happen, insert the job in the transaction (docs/guides/sql-transaction.md). `robust`: log an error of the push instead
    of raising it from the commit. A payload that is not JSON raises `Invalid` here, before the commit.
    """
    job_body(payload, options)
    send = functools.partial(client().push, queue, payload, **options)
    transaction.on_commit(send, using=using, robust=robust)


def cancel_by_key(queue: str, key: str, *, using: Optional[str] = None) -> None:
    """Cancels the job with this key once the current transaction is committed."""
    transaction.on_commit(functools.partial(client().cancel_by_key, queue, key), using=using)


@contextlib.contextmanager
def connections(job: RunningJob) -> Iterator[Any]:
    """A middleware: database connections that are broken or too old are replaced, as Django does around a request."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
