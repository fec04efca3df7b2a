"""Measures how many jobs a second a Python worker runs whose handler does nothing: Celery, dramatiq and Duetime, in turns.

    RIVALS_REDIS=redis://… python_queues.py DUETIME_PROGRAM [--jobs 6000] [--runs 3] [--concurrency 8]

All jobs are pushed first. Then the worker is started, and the rate is that of the jobs from the first tenth to the last one, so that neither
starting nor ending counts. Celery keeps no results. Redis has no persistence, and is emptied before each run. `run-python.sh` installs and starts
everything, and prints medians as a table.
"""

import argparse
import concurrent.futures
import os
import statistics
import subprocess
import sys
import time

import celery
import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

import duetime

URL = os.environ.get("RIVALS_REDIS", "redis://127.0.0.1:1/0")
app = celery.Celery("python_queues", broker=URL)
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
dramatiq.set_broker(RedisBroker(url=URL))
worker = duetime.Worker(queues="bench")


@app.task
def celery_job(number):
    pass


@dramatiq.actor
def dramatiq_job(number):
    pass


@worker.handler("*")
def duetime_job(number):
    pass


def push_celery(jobs):
    # Not measured, so as quickly as it can.
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(celery_job.delay, range(jobs)))


def push_dramatiq(jobs):
    for number in range(jobs):
        dramatiq_job.send(number)


def push_duetime(jobs):
    with duetime.Client() as client:
        client.push_many(duetime.NewJob("bench", number) for number in range(jobs))


def left_in(name):
    return lambda store: store.llen(name)


def left_in_duetime(store):
    with duetime.Client() as client:
        counts = client.queues.get("bench")
        return counts["ready"] + counts["running"]


def rivals(concurrency):
    """The name in the table, how jobs are pushed, how many are left, and the worker's command."""
    python, many = sys.executable, str(concurrency)
    celery_worker = [python, "-m", "celery", "-A", "python_queues", "worker", "-l", "ERROR", "-c", many]
    dramatiq_worker = [python, "-m", "dramatiq", "python_queues"]
    duetime_worker = [python, "-m", "duetime", "work", "python_queues:worker", "--log-level", "ERROR", "--concurrency", many]
    return [
        ("Celery, processes", push_celery, left_in("celery"), [*celery_worker, "--pool", "prefork"], None),
        ("Celery, threads", push_celery, left_in("celery"), [*celery_worker, "--pool", "threads"], None),
        ("dramatiq, threads", push_dramatiq, left_in("dramatiq:default"), [*dramatiq_worker, "-p", "1", "-t", many], None),
        ("Duetime on Redis, threads", push_duetime, left_in_duetime, duetime_worker, ["--broker", URL]),
        ("Duetime on Redis, processes", push_duetime, left_in_duetime, [*duetime_worker, "--pool", "processes"], ["--broker", URL]),
        ("Duetime with a file, threads", push_duetime, left_in_duetime, duetime_worker, ["--store", "bench.db"]),
    ]


def measure(rival, jobs, program):
    """The jobs a second of one run."""
    _, push, left, command, serve = rival
    store = redis.Redis.from_url(URL)
    store.flushall()
    environment, started = dict(os.environ), []
    if serve is not None:
        for end in ("", "-wal", "-shm", "-leases", ".lock"):
            if os.path.exists(f"bench.db{end}"):
                os.remove(f"bench.db{end}")
        server = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", *serve], stdout=subprocess.PIPE, text=True)
        started.append(server)
        url = next(line.split()[-1] for line in server.stdout if "http://" in line)
        os.environ["DUETIME_SERVER"] = environment["DUETIME_SERVER"] = url
    try:
        push(jobs)
        here = os.path.dirname(os.path.abspath(__file__))
        environment["PYTHONPATH"] = here
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        begin = None
        while True:
            now, waiting = time.monotonic(), left(store)
            if begin is None and waiting <= 0.9 * jobs:
                begin = (now, waiting)
            if begin is not None and waiting <= 0.1 * jobs:
                return (begin[1] - waiting) / (now - begin[0])
            time.sleep(0.02)
    finally:
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--jobs", type=int, default=6_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=8)
    arguments = parser.parse_args()
    rates = {}
    for _ in range(arguments.runs):
        for rival in rivals(arguments.concurrency):
            rate = measure(rival, arguments.jobs, arguments.program)
            rates.setdefault(rival[0], []).append(rate)
            print(f"{rival[0]}: {rate:,.0f}", file=sys.stderr, flush=True)
    print(f"| {arguments.jobs:,} jobs, {arguments.concurrency} at once | jobs/s, median of {arguments.runs} | runs |\n|---|---|---|")
    for name, runs in rates.items():
        print(f"| {name} | {statistics.median(runs):,.0f} | {', '.join(f'{run:,.0f}' for run in sorted(runs))} |")


if __name__ == "__main__":
    main()
