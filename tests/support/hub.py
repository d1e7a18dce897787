"""A WebSub hub on loopback, as W3C WebSub has it: verifies intent, and sends signed content."""

from __future__ import annotations

import asyncio
import hmac
import io
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import aiohttp
from aiohttp import web

from tests.support.ports import free_port

CHALLENGE = "a-challenge-0123456789"


@dataclass
class Answered:
    """What a callback answered."""

    status: int
    body: str


@dataclass
class Hub:
    """Takes requests at any path; verifies at once, after its answer.

    Before that `refuses` (a status), `redirects` (a status and a place, by path) are looked at.
    """

    lease_seconds: int | None = 1_000
    refuses: int | None = None
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    verifies: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    verified: list[Answered] = field(default_factory=list)
    port: int = 0
    _runner: web.AppRunner | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Hub:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port or free_port()).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        for task in self._tasks:
            task.cancel()
        await self._runner.cleanup()

    def url(self, path: str = "/hub") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def modes(self) -> list[str]:
        """What was asked for so far."""
        return [one["hub.mode"] for one in self.asked]

    async def _serve(self, request: web.Request) -> web.Response:
        if request.path in self.redirects:
            status, place = self.redirects[request.path]
            return web.Response(status=status, headers={"Location": place})
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked.append({"path": request.path, **form})
        if self.refuses is not None:
            return web.Response(status=self.refuses, text="not here")
        if self.verifies:
            task = asyncio.create_task(self._verify_later(form))
            self._tasks.add(task)
        return web.Response(status=202)

    async def _verify_later(self, form: dict[str, str]) -> None:
        self.verified.append(await self.verify(form["hub.callback"], form["hub.mode"], form["hub.topic"]))

    async def verify(self, callback: str, mode: str, topic: str, **more: str) -> Answered:
        """Asks a callback to confirm."""
        asked = {"hub.mode": mode, "hub.topic": topic, "hub.challenge": CHALLENGE, **more}
        if self.lease_seconds is not None:
            asked["hub.lease_seconds"] = str(self.lease_seconds)
        async with aiohttp.ClientSession() as session, session.get(callback, params=asked) as answer:
            return Answered(answer.status, await answer.text())

    async def publish(
        self,
        body: str | bytes,
        media: str = "application/atom+xml",
        *,
        method: str = "sha256",
        secret: str | None = None,
        signature: str | None = None,
        callback: str | None = None,
    ) -> Answered:
        """Sends content to the callback that subscribed last, signed with its secret unless told otherwise."""
        last = [one for one in self.asked if one["hub.mode"] == "subscribe"][-1]
        raw = body.encode() if isinstance(body, str) else body
        if signature is None:
            signature = f"{method}={hmac.new((secret or last['hub.secret']).encode(), raw, method).hexdigest()}"
        headers = {"Content-Type": media, **({"X-Hub-Signature": signature} if signature else {})}
        async with (
            aiohttp.ClientSession() as session,
            session.post(callback or last["hub.callback"], data=io.BytesIO(raw), headers=headers) as answer,
        ):
            return Answered(answer.status, await answer.text())
