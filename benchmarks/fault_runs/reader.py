"""A reader of events that goes on at another node whenever it wants to, or has to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence

import aiohttp

from fault_runs.nodes import Node

_STAY_SECONDS = 20.0


class Reader:
    """Follows the changes; keeps them in the order in which they came."""

    def __init__(self, nodes: Sequence[Node], token: str, rng: random.Random) -> None:
        self._nodes, self._token, self._rng = nodes, token, rng
        self.changes: list[dict[str, object]] = []
        self.moves = 0
        self._last = 0

    async def run(self) -> None:
        """Follows until cancelled."""
        timeout = aiohttp.ClientTimeout(total=None, connect=2.0, sock_read=25.0)
        headers = {"Authorization": f"Bearer {self._token}"}
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            while True:
                node = self._rng.choice(self._nodes)
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                    async with asyncio.timeout(_STAY_SECONDS):
                        await self._follow(session, node)
                self.moves += 1
                await asyncio.sleep(0.2)

    async def _follow(self, session: aiohttp.ClientSession, node: Node) -> None:
        query = {"last_event_id": str(self._last)}
        async with session.get(f"{node.base}/api/v1/events", params=query) as answer:
            if answer.status != 200:
                await asyncio.sleep(1.0)
                return
            kind = ""
            async for line in answer.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "change":
                    change = json.loads(value)
                    self.changes.append(change)
                    self._last = int(change["id"])
                elif not name:
                    kind = ""
