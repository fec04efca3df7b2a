"""A session of greenstalk with the server on the port that is given."""

import sys

import greenstalk

address = ("127.0.0.1", int(sys.argv[1]))


def refused(error, call, *arguments):
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(f"expected {error.__name__}")


with greenstalk.Client(address, use="mail", watch=["mail", "news"]) as client:
    assert client.using() == "mail" and client.watching() == ["mail", "news"]
    late = client.put("later", priority=5, delay=1, ttr=30)
    first = client.put("hello", priority=7)
    refused(greenstalk.JobTooBigError, client.put, "x" * 70_000)
    job = client.reserve(timeout=5)
    assert (job.id, job.body) == (first, "hello"), job
    client.touch(job)
    assert client.stats_job(job)["state"] == "reserved"
    client.release(job, priority=1, delay=0)
    job = client.reserve(timeout=5)
    assert job.id == first and client.stats_job(job)["reserves"] == 2
    client.bury(job, priority=3)
    assert client.peek_buried().id == first
    assert client.stats_tube("mail")["current-jobs-buried"] == 1
    assert client.kick(10) == 1
    job = client.reserve_job(first)
    client.delete(job)
    refused(greenstalk.NotFoundError, client.delete, job)
    refused(greenstalk.NotFoundError, client.stats_tube, "nowhere")
    job = client.reserve(timeout=5)
    assert (job.id, job.body) == (late, "later"), job
    refused(greenstalk.TimedOutError, client.reserve, 0)
    client.delete(job)
    client.pause_tube("mail", 1)
    client.put(b"\x00\xff".decode("latin-1"))
    assert client.reserve(timeout=5).body == "\x00\xff"
    assert client.watch("other") == 3 and client.ignore("other") == 2
    assert "mail" in client.tubes()
    stats = client.stats()
    assert stats["cmd-put"] >= 3 and str(stats["draining"]).lower() == "false", stats

with greenstalk.Client(address, encoding=None, watch="mail") as client:
    job = client.reserve(timeout=5)
    assert job.body == "\x00\xff".encode(), "closing gave it back"
    client.delete(job)

print("all is well")
