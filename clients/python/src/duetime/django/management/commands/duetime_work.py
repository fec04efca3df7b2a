"""`manage.py duetime_work` runs a worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from duetime.__main__ import add_arguments, apply, find_worker, work
from duetime.django import client, connections


class Command(BaseCommand):  # type: ignore[misc,unused-ignore]
    """The command."""

    help = "Runs the jobs of a Duetime server."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Those of `python -m duetime work`."""
        parser.add_argument("worker", nargs="?", metavar="MODULE:NAME", help="by default the setting DUETIME['worker']")
        add_arguments(parser)

    def handle(self, *arguments: Any, **options: Any) -> None:
        """Runs it."""
        reference = options["worker"] or getattr(settings, "DUETIME", {}).get("worker")
        if not reference:
            raise CommandError("expected MODULE:NAME, such as shop.jobs:worker, as argument or as the setting DUETIME['worker']")
        worker = find_worker(reference)
        worker.client = worker.client or client()
        worker.middleware(connections)
        apply(worker, options)
        work(worker, options["drain"])
