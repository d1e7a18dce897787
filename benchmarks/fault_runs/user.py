"""What a user does meanwhile: edits of sites, budgets, drained nodes, and a channel with its receiver."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from fault_runs.namespaces import PAGES
from fault_runs.nodes import Node

RECEIVER_PORT = 18_001


class Receiver:
    """The receiver of a channel: keeps what it was sent, and refuses for a while now and then."""

    def __init__(self) -> None:
        self.received: list[tuple[str, int]] = []
        """(message's id, change's id) of each event."""
        self.refuses = False

    @property
    def url(self) -> str:
        """Where it is, for nodes in their namespaces."""
        return f"http://{PAGES}.250.250:{RECEIVER_PORT}/"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serves while the block runs."""
        app = web.Application()
        app.router.add_post("/", self._take)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", RECEIVER_PORT).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        document = await request.json()
        if self.refuses:
            return web.Response(status=503)
        events = document["data"]["events"] if document["type"] == "group" else [document]
        for event in events:
            data = event["data"]
            if "change" in data:
                self.received.append((str(data["id"]), int(data["change"]["id"])))
        return web.Response()


class User:
    """Changes things at any node, and knows what should be in force then."""

    def __init__(self, nodes: Sequence[Node], token: str, rng: random.Random) -> None:
        self._nodes, self._token, self._rng = nodes, token, rng
        self.weights: dict[int, set[float]] = {}
        """Site -> the weights that may be in force: several where nobody answered."""
        self.refused: list[str] = []
        self._paused_perhaps: set[int] = set()
        """Sites whose pause nobody answered: it may come into force later."""

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer of any node; 0: none answered."""
        # The older version knows no drained nodes.
        asked = [one for one in self._nodes if one.code is None] if path.startswith("/cluster/") else self._nodes
        base = self._rng.choice(asked).base
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(8)) as session,
                session.request(method, f"{base}/api/v1{path}", json=body) as answer,
            ):
                text = await answer.text()
                found = json.loads(text) if text else None
        except (aiohttp.ClientError, TimeoutError):
            return 0, None
        if 400 <= answer.status < 500 and answer.status != 409:
            self.refused.append(f"{method} {path} {body}: {found}")
        return answer.status, found

    async def must(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of any node, asked until one answers well."""
        while True:
            status, found = await self.call(method, path, body)
            if status in (200, 201, 202, 204, 409):  # 409: an answer was lost before
                return found
            if 400 <= status < 500:
                raise SystemExit(f"{method} {path} is refused: {found}")
            await asyncio.sleep(1.0)

    async def edit(self, sites: int) -> None:
        """Sets the weight of a site, and has it polled, or pauses it for a moment. sites: their ids are 1 to this."""
        site = self._rng.randint(1, sites)
        weight = self._rng.choice((0.5, 1.0, 1.5, 2.0))
        before = self.weights.get(site, {1.0})
        self.weights[site] = before | {weight}
        status, _ = await self.call("PATCH", f"/sites/{site}", {"weight": weight})
        if status == 200:
            self.weights[site] = {weight}
        if self._rng.random() < 0.5:
            await self.call("POST", f"/sites/{site}/poll")
        else:
            if (await self.call("POST", f"/sites/{site}/pause"))[0] == 0:
                self._paused_perhaps.add(site)
            await asyncio.sleep(self._rng.uniform(0, 3))
            await self.must("POST", f"/sites/{site}/resume")

    async def resume_all(self) -> None:
        """Resumes what may be paused, after all that was asked before came into force or was given up."""
        for site in self._paused_perhaps:
            await self.must("POST", f"/sites/{site}/resume")

    async def wrong_edits(self) -> list[str]:
        """What of its edits is not in force in the end."""
        wrong = []
        for site, weights in self.weights.items():
            found = await self.must("GET", f"/sites/{site}")
            if found["weight"] not in weights or found["state"] == "paused":
                wrong.append(f"site {site}: {found['weight']} {found['state']}, not {weights}")
        return wrong
