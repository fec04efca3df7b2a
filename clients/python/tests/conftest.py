"""Fixtures. Most tests share one server, each with a queue of its own."""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from duetime import Client, Worker
from duetime.testing import Server
from duetime.transport import Reply, Request


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def queue() -> str:
    return f"q-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def run(client: Client) -> Iterator[Callable[[Worker], threading.Thread]]:
    """Runs workers beside the test, and stops them at its end."""
    running: list[tuple[Worker, threading.Thread]] = []

    def begin(worker: Worker) -> threading.Thread:
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        running.append((worker, thread))
        return thread

    yield begin
    for worker, thread in running:
        while thread.is_alive():
            worker.stop(at_once=True)
            thread.join(0.05)


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Asks again until there is an answer."""

    def ask(question: Callable[[], Any], tries: int = 2_400) -> Any:
        pause = threading.Event()
        for _ in range(tries):
            answer = question()
            if answer:
                return answer
            pause.wait(0.025)
        raise AssertionError("it did not happen within a minute")

    return ask


class Script:
    """A transport that answers as it is told, in turn, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests, self.pauses = list(answers), list[Request](), list[float]()

    async def send(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(200, {"content-type": "application/json"}, answer)

    async def lines(self, request: Request) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for line in answer:
            if isinstance(line, Exception):
                raise line
            yield line

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def close(self) -> None:
        pass


@pytest.fixture
def kill() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Ends programs that a test has started."""
    started: list[subprocess.Popen[bytes]] = []
    yield started.append
    for program in started:
        program.kill()
        program.wait()
