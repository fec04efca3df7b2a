"""Workers: run jobs with handlers by kind. See `Worker`."""

from .dispatcher import Summary
from .handler import Middleware
from .job import Fatal, JobCancelled, Release, RetryAfter, RunningJob
from .worker import Worker

__all__ = ["Fatal", "JobCancelled", "Middleware", "Release", "RetryAfter", "RunningJob", "Summary", "Worker"]
