"""How often one address may call what is open to everybody and costs work."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.limits.leaky_buckets import LeakyBuckets

HUB_PATHS = "/websub/"
"""Beginning of the paths that WebSub hubs call."""
INDEXNOW_PATH = "/indexnow"
MOST_AT_ONCE, PER_SECOND = 300.0, 10.0


class OpenCalls:
    """A leaky bucket for each of the last 10,000 addresses."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._buckets = LeakyBuckets(MOST_AT_ONCE, PER_SECOND, clock)

    def wait(self, path: str, address: str) -> float:
        """Counts a call; returns the seconds to wait if there were too many, and does not count it then."""
        if not path.startswith((HUB_PATHS, INDEXNOW_PATH)):
            return 0.0
        wait = self._buckets.wait(address)
        if wait <= 0:
            self._buckets.add(address)
        return wait
