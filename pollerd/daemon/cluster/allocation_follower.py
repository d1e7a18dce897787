"""Follows the allocation that somebody set for all nodes, in a task of its own: a new allocator learns for a while."""

from __future__ import annotations

import asyncio

import structlog

from pollerd.daemon.cluster.grants import GrantFollower
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.errors import DatabaseUnavailableError, InvalidValueError

_RETRY_SECONDS = 1.0


class AllocationFollower:
    """Brings this node in step whenever it may have changed."""

    def __init__(self, control: AllocationControl, grants: GrantFollower) -> None:
        self._control, self._grants = control, grants
        self._wanted = asyncio.Event()
        self._log = structlog.get_logger("pollerd.cluster")

    def look_again(self) -> None:
        """Asks for a look at what is stored."""
        self._wanted.set()

    async def run(self) -> None:
        """Follows until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._grants.adopt_budget()
                await self._control.adopt()
            except DatabaseUnavailableError as error:
                self._log.warning("allocation_put_off", reason=str(error))
                self._wanted.set()
                await asyncio.sleep(_RETRY_SECONDS)
            except InvalidValueError as error:  # it holds sites that the allocator cannot hold
                self._log.error("allocation_not_followed", reason=str(error), polling="goes on as before")
