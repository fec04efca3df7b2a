#!/usr/bin/python3
"""A demo of the client: `demo.py push`, then `demo.py work` (until SIGTERM), `demo.py lock`.

    DUETIME_SERVER=http://127.0.0.1:7300 python3 demo.py push
"""

import os
import signal
import sys
import threading
import time

from duetime import Client, Final, Problem, work

QUEUE = "demo-python"


def push(client):
    tags = ["demo", "user:1"]
    mail = {"kind": "mail.welcome", "payload": {"to": "Zoë"}, "delay": "200ms", "key": "welcome-1", "tags": tags}
    print("welcome", client.push(QUEUE, mail)["outcome"])
    # The same key again: there is still one job.
    print("welcome again", client.push(QUEUE, mail)["outcome"])
    client.push(QUEUE, {"kind": "mail.broken", "payload": {"to": "nobody"}, "tags": ["demo"]})
    client.push(QUEUE, {"kind": "report", "payload": {"seconds": 6}, "tags": ["demo"]})
    reminder = client.push(QUEUE, {"kind": "mail.reminder", "payload": {}, "delay": "1h", "tags": ["demo"]})
    print("reminder", client.cancel(reminder["id"]))
    try:
        client.push(QUEUE, {"payload": 1, "delay": "soon"})
    except Problem as problem:
        print("refused", problem.code, problem.status)


def handle(lease):
    job = lease.job
    print(f"{job['kind']}, attempt {job['attempt']}: {job['payload']}", flush=True)
    if job["kind"] == "mail.broken":
        raise Final("there is no such address")
    if job["kind"] == "report":
        # Longer than the lease, which is extended meanwhile.
        end = time.monotonic() + job["payload"]["seconds"]
        while time.monotonic() < end:
            if lease.lost.wait(0.1):
                raise Final("it is no longer ours")
    return {"done": job["kind"]}


def lock(client):
    owner, other = f"demo-{os.getpid()}", f"other-{os.getpid()}"
    held = client.lock("demo-python", owner, ttl="10s", wait="5s")
    again = client.lock("demo-python", owner, ttl="10s", fence=held["fence"])
    print("renewed", str(again["fence"] == held["fence"]).lower())
    try:
        client.lock("demo-python", other)
    except Problem as problem:
        print("refused", problem.code, problem.status)
    client.unlock("demo-python", owner, held["fence"])
    # Store the fence with what you write under a lock, so that a late holder can be refused.
    next_one = client.lock("demo-python", other)
    print("fence grows", str(next_one["fence"] > held["fence"]).lower())
    client.unlock("demo-python", other, next_one["fence"])


def main(words):
    client = Client()
    if words == ["push"]:
        push(client)
    elif words == ["work"]:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        work(client, QUEUE, handle, stop, seconds=5)
        print("stopped")
    elif words == ["lock"]:
        lock(client)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Problem as problem:
        sys.exit(str(problem))
