"""Twelve example sites that the daemon serves to itself on loopback, so that a newcomer sees it at work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import numpy as np

from pollerd.fetching.guard import close_own, open_own

SITES = 12
_DAYS = 3
"""For so long after their start the sites change."""


class ExampleSites:
    """The web of the demonstration; it is loaded and served from `start` to `stop`."""

    def __init__(self) -> None:
        self._serving: AsyncExitStack | None = None
        self._places: frozenset[tuple[str, int]] = frozenset()
        self._urls: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it is served."""
        return self._serving is not None

    async def start(self) -> Sequence[str]:
        """Serves the sites, and opens their addresses to this process; returns their URLs, also if it was running.

        Raises `ConfigError` if the system does not serve all of 127.0.0.0/8.
        """
        if self._serving is None:
            from pollerd.app.demo_web import DemoWeb

            web = DemoWeb(SITES, np.random.default_rng(), horizon_seconds=_DAYS * 86_400.0)
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(web)
                self._serving = stack.pop_all()
            self._urls = tuple(site.url for site in web.sites)
            self._places = frozenset((site.host, int(site.url.split(":")[2].partition("/")[0])) for site in web.sites)
            open_own(self._places)
        return self._urls

    async def stop(self) -> None:
        """Ends serving; may be called twice."""
        serving, self._serving = self._serving, None
        close_own(self._places)
        if serving is not None:
            await serving.aclose()
