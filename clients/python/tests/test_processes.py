"""Handlers in processes, and workers as programs."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable

import pytest
from test_handler import Order

from duetime import Client, DuetimeError, Fatal, JobCancelled, NewJob, RunningJob, Worker
from duetime.testing import Server

Run = Callable[[Worker], threading.Thread]
Until = Callable[[Callable[[], Any]], Any]


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_a_handler_that_blocks_keeps_its_job(client: Client, queue: str, pool: str) -> None:
    worker = Worker(client, queue, pool=pool, lease=3, concurrency=2)
    worker.handler("*")(blocks)
    ids = [client.push(queue, how).id for how in ("sleeps", "computes")]
    assert worker.drain().succeeded == 2
    for id in ids:
        job = client.get(id)
        assert (job.state, job.attempt, job.crashes, job.result) == ("succeeded", 1, 0, "done")


def blocks(how: str) -> str:
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        if how == "sleeps":
            threading.Event().wait(end - time.monotonic())
        else:
            sum(range(1_000))
    return "done"


def in_process(payload: Any, job: RunningJob) -> Any:
    if payload == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if payload == "exit":
        os._exit(3)
    if payload == "fatal":
        raise Fatal("for good")
    if payload == "fork and die":
        parent = os.getpid()
        worker = os.getppid()
        if os.fork() == 0:
            # It keeps the pipe of its parent open, as long as the tests run.
            while pathlib.Path(f"/proc/{worker}").exists():
                time.sleep(0.01)
            os._exit(0)
        os.kill(parent, signal.SIGKILL)
    if payload == "wait":
        job.progress(10, "waiting")
        job.cancelled.wait(30)
        raise JobCancelled
    return [payload, job.payload_text, os.getpid() != os.getppid()]


def typed_in_process(order: Order) -> int:
    return order.order


def test_processes(client: Client, queue: str, run: Run, until: Until) -> None:
    worker = Worker(client, queue, pool="processes", concurrency=2, lease=3)
    worker.handler("*")(in_process)
    worker.handler("typed")(typed_in_process)
    ids = [client.push(queue, what, max_attempts=1).id for what in ("die", "fork and die", "exit", "fatal", "ff")]
    ids.append(client.push(queue, {"order": 7}, kind="typed").id)
    waiting = client.push(queue, "wait").id
    run(worker)
    until(lambda: client.get(waiting).progress)
    assert client.cancel(waiting) == "cancel_requested"
    until(lambda: client.get(waiting).state == "cancelled")
    jobs = [until(lambda id=id: (job := client.get(id)).is_finished and job) for id in ids]
    assert [(job.state, job.message) for job in jobs] == [
        ("failed", "the process of the handler was killed by signal SIGKILL"),
        ("failed", "the process of the handler was killed by signal SIGKILL"),
        ("failed", "the process of the handler exited with 3"),
        ("failed", "for good"),
        ("succeeded", None),
        ("succeeded", None),
    ]
    assert [job.result for job in jobs[-2:]] == [["ff", '"ff"', True], 7]


def forks(payload: Any) -> Any:
    if payload == "once more":
        return payload
    child = os.fork()
    if child == 0:
        if payload == "exits":
            sys.exit(3)
        if payload == "raises":
            raise ValueError
        return "by a process that does not have the job"
    # What the child says would be taken for the outcome of the next job.
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_a_process_that_a_handler_forks_ends_with_it(client: Client, queue: str, pool: str) -> None:
    worker = Worker(client, queue, pool=pool, concurrency=1)
    worker.handler("*")(forks)
    ids = [client.push(queue, what).id for what in ("returns", "exits", "raises", "once more")]
    assert worker.drain().succeeded == 4
    assert [client.get(id).result for id in ids] == [0, 3, 1, "once more"]


def test_a_process_that_cannot_be_started_is_a_failed_attempt(client: Client, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(image: bytes) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("duetime.worker.pools._Child", none)
    worker = Worker(client, queue, pool="processes")
    worker.handler("*")(in_process)
    id = client.push(queue, 1).id
    assert worker.drain().failed == 1
    assert "Cannot allocate memory" in (client.get(id).message or "")


def test_a_worker_that_cannot_begin_says_so(client: Client, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(ca: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("duetime.worker.dispatcher.AwaitingTransport", none)
    worker = Worker(client, queue)
    worker.handler("*")(in_process)
    with pytest.raises(DuetimeError, match="Too many open files"):
        worker.run()


def test_processes_need_functions_of_a_module(client: Client) -> None:
    worker = Worker(client, pool="processes")
    worker.handler("k")(lambda: None)
    with pytest.raises(TypeError, match="functions of a module"):
        worker.run()


APP = """
import threading
from duetime import Worker
worker = Worker(queues="unused")
@worker.handler("*")
def handle(payload, job):
    print(payload, flush=True)
    if payload == "hang":
        threading.Event().wait(60)
    return payload
"""


@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_the_command_stops_at_a_signal(
    server: Server, client: Client, queue: str, tmp_path: pathlib.Path, number: int, times: int, kill: Callable[[Any], None]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = client.push(queue, "hello").id
    command = [
        sys.executable,
        "-m",
        "duetime",
        "work",
        "app:worker",
        "--queues",
        queue,
        "--health-file",
        "alive",
        "--concurrency",
        "1",
    ]
    program = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, "DUETIME_SERVER": server.url})
    kill(program)
    assert program.stdout is not None
    assert program.stdout.readline() == b"hello\n"
    hung = None
    if times == 2:
        hung = client.push(queue, "hang").id
        assert program.stdout.readline() == b"hang\n"
    for _ in range(times):
        program.send_signal(number)
        if times == 2:
            threading.Event().wait(0.2)  # Signals that arrive together are one.
    assert program.wait(20) == 0
    program.stdout.close()
    assert client.get(done).state == "succeeded"
    assert (tmp_path / "alive").exists()
    if hung is not None:
        assert (client.get(hung).state, client.get(hung).attempt) == ("ready", 0)


def test_the_command_explains_what_is_wrong(tmp_path: pathlib.Path) -> None:
    (tmp_path / "app.py").write_text("worker = 5\n")
    for reference, says in (("nothing:worker", "no module 'nothing'"), ("app:worker", "no Worker named 'worker'")):
        command = [sys.executable, "-m", "duetime", "work", reference]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (said.returncode, says in said.stderr) == (1, True)


def test_jobs_of_a_killed_worker_run_again(
    server: Server, client: Client, queue: str, tmp_path: pathlib.Path, run: Run, until: Until, kill: Callable[[Any], None]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    id = client.push(queue, "hang").id
    command = [sys.executable, "-m", "duetime", "work", "app:worker", "--queues", queue, "--lease", "2s"]
    program = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, "DUETIME_SERVER": server.url})
    kill(program)
    assert program.stdout is not None
    assert program.stdout.readline() == b"hang\n"
    program.kill()
    program.wait()
    program.stdout.close()
    worker = Worker(client, queue)
    worker.handler("*")(lambda payload, job: job.attempt)
    run(worker)
    job = until(lambda: (job := client.get(id)).is_finished and job)
    assert (job.state, job.result, job.crashes) == ("succeeded", 2, 1)


DIES = """
import os, signal
from duetime import Worker
worker = Worker(queues="unused", concurrency=1)
@worker.handler("*")
def handle(number):
    with open("begun", "a") as begun:
        print(number, file=begun)
    if number == 200:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_worker_ends_no_job_that_has_not_begun(
    server: Server, client: Client, queue: str, tmp_path: pathlib.Path, run: Run, until: Until
) -> None:
    (tmp_path / "app.py").write_text(DIES)
    client.push_many([NewJob(queue, number, max_attempts=1) for number in range(400)])
    command = [sys.executable, "-m", "duetime", "work", "app:worker", "--queues", queue, "--lease", "1s"]
    program = subprocess.run(command, cwd=tmp_path, env={**os.environ, "DUETIME_SERVER": server.url}, check=False)
    assert program.returncode == -signal.SIGKILL
    begun = {int(line) for line in (tmp_path / "begun").read_text().splitlines()}
    worker = Worker(client, queue)
    worker.handler("*")(lambda number: None)
    run(worker)
    until(lambda: (counts := client.queues.get(queue))["ready"] + counts["running"] == 0)
    failed = {job.payload for job in client.jobs(queue=queue, state="failed")}
    assert 200 in failed
    assert failed <= begun
