"""What one page may do through the proxy: its credentials, its limits, and what came of its connections."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from pollerd.fetching import basic
from pollerd.model import OutcomeKind
from pollerd.rendering.failures import PageRefusedError

MayConnect = Callable[[str], str | None]
"""Returns why a host (name:port, as in `host_of`) may not be connected to now, one line; None: it may."""


class ProxySession:
    """One page's use of the proxy, from its opening to its end. Its credentials are valid for that time only."""

    def __init__(
        self, *, upstream: str | None, most_bytes: int, on_exhausted: Callable[[PageRefusedError], None]
    ) -> None:
        self.username = secrets.token_hex(8)
        self.password = secrets.token_urlsafe(24)
        self.authorization = basic(self.username, self.password)
        self.upstream = upstream
        """The site's own proxy, as `normalise_proxy` returns it; None: the daemon's, if it has one."""
        self.bytes = 0
        """Both ways, without heads of the proxy's own."""
        self.requests = 0
        self.refused = 0
        self.ended = False
        self.expiry: asyncio.TimerHandle | None = None
        self._most_bytes = most_bytes
        self._on_exhausted = on_exhausted
        self._failures: dict[str, PageRefusedError] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, task: asyncio.Task[None]) -> None:
        """Counts a connection's task among the page's: it ends with the session."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def count(self, size: int) -> None:
        """Counts bytes that crossed. Raises `PageRefusedError` once the page has had its share."""
        self.bytes += size
        if self.bytes > self._most_bytes:
            refusal = PageRefusedError(OutcomeKind.TOO_LARGE, f"the page loads more than {self._most_bytes} bytes")
            self._on_exhausted(refusal)
            raise refusal

    def connected(self, host: str) -> None:
        """Notes that a host (name:port) was reached."""
        self._failures.pop(host, None)

    def failed(self, host: str, refusal: PageRefusedError) -> None:
        """Notes why a host was not reached."""
        self.refused += 1
        self._failures[host] = refusal

    def failure_of(self, host: str) -> PageRefusedError | None:
        """Returns why the host was not reached at the last try, at this port or, if not tried, at another."""
        if host in self._failures:
            return self._failures[host]
        name = host.rpartition(":")[0]
        return next((found for tried, found in self._failures.items() if tried.rpartition(":")[0] == name), None)

    async def end(self) -> None:
        """Ends every connection of the page."""
        self.ended = True
        if self.expiry is not None:
            self.expiry.cancel()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
