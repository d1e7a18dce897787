"""Shares worker processes among hosts: who has used least goes first."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

_REMEMBERED = 1_000


class FairTurns:
    """Permits to use one of several processes, given to hosts by start-time fair queueing.

    Goyal, Vin and Cheng, "Start-time fair queueing", SIGCOMM 1996. A host's turn comes by the time that it has used so
    far and by what its work is expected to take, counted from the time used by the host that started last: who was away
    saves nothing up. A host that has a process already waits for those that have none.
    """

    def __init__(self, processes: int) -> None:
        self._free = processes
        self._waiting: dict[str, deque[tuple[float, asyncio.Future[None]]]] = {}
        self._running = Counter[str]()
        self._used: dict[str, float] = {}
        """Host -> seconds used, in virtual time; absent: `_virtual`."""
        self._virtual = 0.0
        """Virtual time at which the last work started, s."""

    async def take(self, host: str, expected: float = 0.0) -> None:
        """Waits for a process. `expected`: how long it will be used, as far as is known, s."""
        if self._free:
            self._start(host)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append((expected, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came at the same moment
                self.give_back(host, 0.0)
            raise

    def give_back(self, host: str, seconds: float) -> None:
        """Frees a process that the host used for `seconds`."""
        self._used[host] = self._start_of(host) + seconds
        self._running[host] -= 1
        if not self._running[host]:
            del self._running[host]
        self._free += 1
        self._start_next()
        if len(self._used) > _REMEMBERED:
            self._used = {host: used for host, used in self._used.items() if used > self._virtual}

    def _start_next(self) -> None:
        while self._free and self._waiting:
            host = min(self._waiting, key=self._turn_of)
            turns = self._waiting[host]
            _, turn = turns.popleft()
            if not turns:
                del self._waiting[host]
            if not turn.done():  # else it was called off
                self._start(host)
                turn.set_result(None)

    def _turn_of(self, host: str) -> tuple[int, float]:
        return self._running[host], self._start_of(host) + self._waiting[host][0][0]

    def _start(self, host: str) -> None:
        self._free -= 1
        self._running[host] += 1
        self._virtual = self._used[host] = self._start_of(host)

    def _start_of(self, host: str) -> float:
        return max(self._used.get(host, 0.0), self._virtual)
