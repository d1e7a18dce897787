"""Roles of this process: all of them, or, as one of several nodes, those that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine

from pollerd.partitions import NodeRole

Work = Callable[[], Coroutine[None, None, None]]


class Roles:
    """Runs the work of each role while this process has it."""

    def __init__(self, *, alone: bool) -> None:
        """alone: there are no other nodes, so every role is held for ever."""
        self._alone = alone
        self._held = {role: asyncio.Event() for role in NodeRole}
        self._lost = {role: asyncio.Event() for role in NodeRole}
        self._idle = {role: asyncio.Event() for role in NodeRole}
        for role in NodeRole:
            self._lost[role].set()
            self._idle[role].set()

    def hold(self, held: Collection[NodeRole]) -> None:
        """Begins the work of newly held roles, and ends that of others."""
        for role in NodeRole:
            begins, ends = (self._held[role], self._lost[role])[:: 1 if role in held else -1]
            ends.clear()
            begins.set()

    async def left(self, role: NodeRole) -> None:
        """Returns once nothing of a role that is not held is under way."""
        await self._idle[role].wait()

    async def while_held(self, role: NodeRole, work: Work) -> None:
        """Runs `work` whenever the role is held, and cancels it when it is lost. Ends when `work` ends by itself."""
        if self._alone:
            await work()
            return
        while True:
            await self._held[role].wait()
            if self._lost[role].is_set():  # lost before this task's turn: another node may have begun
                continue
            self._idle[role].clear()
            try:
                if await self._until_lost(role, work):
                    return
            finally:
                self._idle[role].set()

    async def _until_lost(self, role: NodeRole, work: Work) -> bool:
        """Returns whether the work ended by itself. Raises what it raises, also while it is being cancelled."""
        working = asyncio.create_task(work(), name=role.value)
        losing = asyncio.create_task(self._lost[role].wait())
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            losing.cancel()
            await asyncio.wait({working, losing})
        if working.cancelled():
            return False
        await working
        return True
