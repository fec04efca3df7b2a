"""A session of pystalk with the server on the port that is given."""

import sys

from pystalk import BeanstalkClient, BeanstalkError

client = BeanstalkClient("127.0.0.1", int(sys.argv[1]), auto_decode=True)


def refused(word, call, *arguments):
    try:
        call(*arguments)
    except BeanstalkError as error:
        assert error.message == word, error
        return
    raise AssertionError(f"expected {word}")


assert client.ping()
late = client.put_job_into("mail", "later", pri=5, delay=1, ttr=30)[1]
first = client.put_job_into("mail", "hello Zoë", pri=7)[1]
client.watch("mail")
assert client.watchlist == {"mail"}
job = client.reserve_job(5)
assert (job.job_id, job.job_data) == (first, "hello Zoë"), job
assert client.stats_job(first)["state"] == "reserved"
client.release_job(first, pri=1)
job = client.reserve_job(5)
assert job.job_id == first and client.stats_job(first)["reserves"] == 2
client.bury_job(first, pri=3)
with client.using("mail"):
    assert client.peek_buried().job_id == first
    assert client.kick_jobs(10) == (b"KICKED", 1)
client.pause_tube("mail", 3_600)
assert client.stats_tube("mail")["pause"] == 3_600
refused("TIMED_OUT", client.reserve_job, 0)
client.unpause_tube("mail")
assert client.stats_tube("mail")["pause"] == 0
job = client.reserve_job(5)
assert job.job_id == first
client.bury_job(first)
client.kick_job(first)
client.delete_job(first)
refused("NOT_FOUND", client.delete_job, first)
refused("NOT_FOUND", client.stats_tube, "nowhere")
job = client.reserve_job(5)
assert (job.job_id, job.job_data) == (late, "later"), job
client.close()

# Closing gave it back, and the client connects again by itself.
assert client.reserve_job(5).job_id == late
client.delete_job(late)
for text in "abc":
    client.put_job_into("mail", text)
assert [job.job_data for job in client.reserve_iter()] == ["a", "b", "c"]
assert client.list_tubes() == ["default", "mail"]
stats = client.stats()
assert stats["cmd-put"] == 5 and stats["draining"] is False, stats
print("all is well")
