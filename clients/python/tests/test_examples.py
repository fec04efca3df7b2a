"""The examples for Django and FastAPI, as their pages say."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any, Callable

import pytest

from duetime.testing import Server

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
Until = Callable[[Callable[[], Any]], Any]

SHOP = """
import django, os, sys
django.setup()
from django.test import Client
from shop.models import Order

client = Client(raise_request_exception=False)
first, second = [client.get("/place").json()["order"] for _ in range(2)]
assert client.get("/place?fail").status_code == 500
assert client.get(f"/pay/{second}").json()["state"] == "paid"
assert Order.objects.count() == 2
"""


def test_django(tmp_path: pathlib.Path) -> None:
    with Server() as server, server.client() as client:
        environment = {
            **os.environ,
            "DUETIME_SERVER": server.url,
            "SHOP_DB": str(tmp_path / "shop.sqlite3"),
            "SHOP_PAY_WITHIN": "50ms",
            "DJANGO_SETTINGS_MODULE": "settings",
        }

        def program(*words: str) -> str:
            command = [sys.executable, *words]
            return subprocess.run(
                command, cwd=EXAMPLES / "django", env=environment, text=True, check=True, stdout=subprocess.PIPE
            ).stdout

        program("manage.py", "migrate", "--run-syncdb")
        program("-c", SHOP)
        # The order that was rolled back has no job; the one that was paid has none to run.
        assert sorted(job.payload["order"] for job in client.jobs(queue="orders")) == [1, 2]
        [job] = client.jobs(queue="orders", state=["scheduled", "ready"])
        client.run(job.id)
        assert program("manage.py", "duetime_work", "--drain") == "mail: your order 1 is cancelled\n"
        assert client.get(job.id).result == "order 1 is cancelled"
        assert program(
            "-c", "import django; django.setup(); from shop.models import Order; print(*Order.objects.values_list('state'))"
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of anyio, in the test client of starlette.
def test_fastapi(monkeypatch: pytest.MonkeyPatch, until: Until) -> None:
    with Server() as server, server.client() as client:
        monkeypatch.setenv("DUETIME_SERVER", server.url)
        monkeypatch.setenv("SHOP_PAY_WITHIN", "50ms")
        monkeypatch.syspath_prepend(EXAMPLES / "fastapi")
        import app
        from fastapi.testclient import TestClient

        with TestClient(app.app) as requests:
            monkeypatch.setenv("SHOP_PAY_WITHIN", "30m")
            assert requests.post("/orders/2").status_code == 200
            assert requests.post("/orders/2/pay").json()["job"] == "cancelled"
            assert requests.post("/orders/2/pay").status_code == 409
            monkeypatch.setenv("SHOP_PAY_WITHIN", "50ms")
            job = requests.post("/orders/1").json()["job"]
            until(lambda: requests.get("/orders/1").json()["state"] == "cancelled")
            until(lambda: client.get(job).result == "cancelled")
            assert requests.get("/health").json()["connected"] is True
        assert app.worker.health()["phase"] == "stopped"
