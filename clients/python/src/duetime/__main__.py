"""`python -m duetime work app:worker` runs a worker."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from .errors import DuetimeError
from .worker import Worker

#: Options that override attributes of the worker.
_OVERRIDES = ("concurrency", "pool", "name", "lease", "stop_deadline", "health_file")


def find_worker(reference: str) -> Worker:
    """The worker that `module:name` refers to. Exits with a message if there is none."""
    module_name, _, name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        sys.exit(f"there is no module {module_name!r} in {os.getcwd()!r} or sys.path; expected MODULE:NAME, such as app:worker")
    worker = getattr(module, name or "worker", None)
    if not isinstance(worker, Worker):
        sys.exit(f"{module_name!r} has no Worker named {name or 'worker'!r}, but {type(worker).__name__}")
    return worker


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a worker."""
    parser.add_argument("--queues", help="instead of its own: names separated by commas, in strict order")
    parser.add_argument("--concurrency", type=int, help="how many handlers run at once")
    parser.add_argument("--pool", choices=["threads", "processes"], help="where handlers run that are not async")
    parser.add_argument("--name", help="its name in the list of workers")
    parser.add_argument("--lease", help="such as 60s; a cancel arrives within a third of it")
    parser.add_argument("--stop-deadline", help="how long running handlers have at a stop, such as 25s")
    parser.add_argument("--health-file", help="a file that is touched every 5 s while the worker is alive")
    parser.add_argument("--drain", action="store_true", help="run what is due, then exit")
    parser.add_argument("--log-level", default="INFO", help="INFO by default")


def apply(worker: Worker, options: Mapping[str, Any]) -> None:
    """Overrides what the options say, and logs to standard error, unless the program has set up logging."""
    logging.basicConfig(level=options["log_level"].upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if options["queues"] is not None:
        worker.queues = options["queues"].split(",")
    for name in _OVERRIDES:
        if options[name] is not None:
            setattr(worker, name, options[name])


def work(worker: Worker, is_drain: bool) -> None:
    """Runs the worker. Exits with a message if it cannot."""
    try:
        did = worker.drain() if is_drain else worker.run()
    except (DuetimeError, RuntimeError, TypeError, ValueError) as error:
        sys.exit(str(error))
    counts = f"{did.succeeded} succeeded, {did.failed} failed, {did.released} released, {did.lost} lost"
    logging.getLogger("duetime").info("stopped: %s", counts)


def main(words: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m duetime", description="Runs the jobs of a Duetime server.")
    working = parser.add_subparsers(dest="command", required=True).add_parser("work", help="run a worker until SIGTERM or Ctrl-C")
    working.add_argument("worker", metavar="MODULE:NAME", help="the Worker to run, such as app:worker")
    add_arguments(working)
    options = vars(parser.parse_args(words))
    sys.path.insert(0, os.getcwd())
    worker = find_worker(options["worker"])
    apply(worker, options)
    work(worker, options["drain"])


if __name__ == "__main__":
    main(sys.argv[1:])
