"""In which order a worker asks its queues. Without weights it is the given order. With weights, the queue that has had the least
for its weight comes first, so each gets its share and none starves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Union


class Turns:
    """The queues, and what each has had. Raises `ValueError` for no queue, and for a weight below 1."""

    def __init__(self, queues: Union[str, Iterable[str], Mapping[str, int]]) -> None:
        if isinstance(queues, str):
            queues = [queues]
        self._has_weights = isinstance(queues, Mapping)
        self._weights = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, 1)
        if not self._weights:
            raise ValueError("a worker needs at least one queue")
        for queue, weight in self._weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
                raise ValueError(f"the weight of the queue {queue!r} must be an integer of 1 or more, got {weight!r}")
        self._had = dict.fromkeys(self._weights, 0.0)

    @property
    def queues(self) -> list[str]:
        """The queues as they were given."""
        return list(self._weights)

    def order(self) -> list[str]:
        """The queues in the order of the next request."""
        return sorted(self._had, key=self._had.__getitem__) if self._has_weights else list(self._had)

    def handed_out(self, limit: int, queues: list[str]) -> None:
        """Charges jobs to their queues. If fewer came than `limit`, the other queues had nothing due: they have saved nothing
        up, and join again where the others are."""
        for queue in queues:
            if queue in self._had:
                self._had[queue] += 1 / self._weights[queue]
        if len(queues) < limit and queues:
            least = min(self._had[queue] for queue in set(queues) if queue in self._had)
            for queue in self._had:
                self._had[queue] = max(self._had[queue], least)
