"""`python -m duetime work app:worker` runs a worker."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from .errors import DuetimeError
from .worker import Worker


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


def main(words: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m duetime", description="Runs the jobs of a Duetime server.")
    work = parser.add_subparsers(dest="command", required=True).add_parser("work", help="run a worker until SIGTERM or Ctrl-C")
    work.add_argument("worker", metavar="MODULE:NAME", help="the Worker to run, such as app:worker")
    work.add_argument("--queues", help="instead of its own: names separated by commas, in strict order")
    work.add_argument("--concurrency", type=int, help="how many handlers run at once")
    work.add_argument("--pool", choices=["threads", "processes"], help="where handlers run that are not async")
    work.add_argument("--name", help="its name in the list of workers")
    work.add_argument("--lease", help="such as 60s; a cancel arrives within a third of it")
    work.add_argument("--stop-deadline", help="how long running handlers have at a stop, such as 25s")
    work.add_argument("--health-file", help="a file that is touched every 5 s while the worker is alive")
    work.add_argument("--drain", action="store_true", help="run what is due, then exit")
    work.add_argument("--log-level", default="INFO", help="INFO by default")
    arguments = parser.parse_args(words)
    logging.basicConfig(level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    sys.path.insert(0, os.getcwd())
    worker = find_worker(arguments.worker)
    if arguments.queues is not None:
        worker.queues = arguments.queues.split(",")
    for name in ("concurrency", "pool", "name", "lease", "stop_deadline", "health_file"):
        if getattr(arguments, name) is not None:
            setattr(worker, name, getattr(arguments, name))
    try:
        summary = worker.drain() if arguments.drain else worker.run()
    except (DuetimeError, RuntimeError, ValueError) as error:
        sys.exit(str(error))
    logging.getLogger("duetime").info(
        "stopped: %d succeeded, %d failed, %d released, %d lost", summary.succeeded, summary.failed, summary.released, summary.lost
    )


if __name__ == "__main__":
    main(sys.argv[1:])
