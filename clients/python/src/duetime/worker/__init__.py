"""Workers: run jobs with handlers by kind. See `Worker`."""

from .dispatcher import Summary
from .handler import Middleware
from .job import Fatal, JobCancelled, Park, Release, RetryAfter, RunningJob
from .worker import Worker

__all__ = ["Fatal", "JobCancelled", "Middleware", "Park", "Release", "RetryAfter", "RunningJob", "Summary", "Worker"]
