"""What rules tell, from a poll to a webhook's receiver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from pollerd.events import NoticeState
from pollerd.scheduling import SchedulingSettings
from pollerd.storage import NoticeFilter, StorageSettings, new_key
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

SLOWLY = SchedulingSettings(min_interval_seconds=0.1, host_interval_seconds=0, backoff_base_seconds=0.2)


class Receiver:
    """A webhook's receiver: what came, and how it answers."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.answers: list[int] = []
        self.url = ""

    async def receive(self, request: web.Request) -> web.Response:
        status = self.answers.pop(0) if self.answers else 200
        if status == 200:
            self.got.append(json.loads(await request.read()))
            self.ids.append(request.headers["webhook-id"])
        return web.Response(status=status, text="said")

    def kinds(self) -> list[str]:
        return [one["type"] for one in self.got]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    app = web.Application()
    app.router.add_post("/hook", found.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield found
    await runner.cleanup()


async def hook(running: Running, receiver: Receiver, **rule: Any) -> int:
    """Adds a channel and a rule; returns the channel's id."""
    control = running.control.notifications
    channel = await control.add_channel("hook", "webhook", {"url": receiver.url})
    await control.add_rule({"name": "all", "channels": ["hook"], **rule})
    return channel.id


async def changed(running: Running, origin: Origin, path: str = "/p") -> int:
    """A site that has changed once."""
    origin.pages[path] = Page("<p>one</p>")
    (site,) = await running.add(origin.url(path))
    await running.polled(site, 1)
    origin.pages[path] = Page("<p>two</p>")
    return site


async def test_a_change_is_told(start: Start, origin: Origin, receiver: Receiver, any_database: str) -> None:
    kept = StorageSettings(secret_key=new_key())  # PostgreSQL keeps no secrets without one
    async with start(scheduling=SLOWLY, url=any_database, storage=kept, private_channels=True) as running:
        await hook(running, receiver)
        site = await changed(running, origin)
        await until(lambda: bool(receiver.got))
        (told,) = receiver.got
        assert told["type"] == "site.changed"
        assert told["data"]["site"]["id"] == site
        assert told["data"]["change"]["added"] == ["two"]
        (change,) = await running.changes()
        found = (await running.store.notifications.list_notices(NoticeFilter(change_id=change.id))).items
        assert [one.event_id for one in found] == receiver.ids
        await until(lambda: running.metric("pollerd_delivery_attempts_total", outcome="sent") == 1)


async def test_what_was_not_sent_is_sent_after_a_kill(start: Start, origin: Origin, receiver: Receiver) -> None:
    receiver.answers = [503] * 100
    async with start(scheduling=SLOWLY, private_channels=True, kill=True) as running:
        await hook(running, receiver)
        await changed(running, origin)
        await until(lambda: len(receiver.answers) < 100)
    receiver.answers = []
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        await until(lambda: bool(receiver.got))
        assert receiver.kinds() == ["site.changed"]


async def test_a_site_that_fails_and_answers_again(start: Start, origin: Origin, receiver: Receiver) -> None:
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        rule = {"events": ["site.failing", "site.recovered"], "failing": {"after_polls": 2}}
        await hook(running, receiver, **rule)
        origin.pages["/p"] = Page(status=500)
        (site,) = await running.add(origin.url("/p"))
        await until(lambda: bool(receiver.got))
        origin.pages["/p"] = Page("<p>fine</p>")
        await until(lambda: len(receiver.got) == 2)
        failing, recovered = receiver.got
        assert receiver.kinds() == ["site.failing", "site.recovered"]
        assert failing["data"]["details"]["incident"] == recovered["data"]["details"]["incident"]
        assert failing["data"]["details"]["failures"] == 2
        assert failing["data"]["site"]["id"] == site
        assert await running.store.notifications.incidents() == []


async def test_refused_credentials_pause_the_channel_and_keep_its_queue(
    start: Start, origin: Origin, receiver: Receiver
) -> None:
    receiver.answers = [401]
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        channel = await hook(running, receiver)
        await changed(running, origin)
        for _ in range(500):
            row = await running.store.notifications.channel(channel)
            if row.paused_at is not None:
                break
            await asyncio.sleep(0.02)
        assert "401" in row.paused_reason
        (notice,) = (await running.store.notifications.list_notices()).items
        assert notice.state is NoticeState.WAITING
        await until(lambda: bool(receiver.got), 20.0)  # the first probe comes after five seconds
        row = await running.store.notifications.channel(channel)
        assert row.paused_at is None


async def test_a_dead_message_lets_the_next_pass_and_can_be_sent_again(
    start: Start, origin: Origin, receiver: Receiver
) -> None:
    receiver.answers = [400]
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        channel = await hook(running, receiver)
        await changed(running, origin)
        for _ in range(500):
            dead = (await running.store.notifications.list_notices(NoticeFilter(state=NoticeState.DEAD))).items
            if dead:
                break
            await asyncio.sleep(0.02)
        assert dead[0].last_detail.startswith("HTTP 400") or "400" in dead[0].last_detail
        origin.pages["/p"] = Page("<p>three</p>")
        await until(lambda: len(receiver.got) == 1)
        assert await running.control.notifications.resend(channel_id=channel) == 1
        await until(lambda: len(receiver.got) == 2)


async def test_rules_name_tags_and_words(start: Start, origin: Origin, receiver: Receiver) -> None:
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        await hook(running, receiver, sites={"tags": ["news"]}, words={"added": [{"text": "SALE"}]})
        for path, tags in (("/a", ("news",)), ("/b", ()), ("/c", ("news",))):
            origin.pages[path] = Page("<p>one</p>")
            (site,) = await running.add(origin.url(path), tags=tags)
            await running.polled(site, 1)
        for path, words in (("/a", "a sale"), ("/b", "a sale"), ("/c", "nothing")):
            origin.pages[path] = Page(f"<p>{words}</p>")
        await until(lambda: len(receiver.got) == 1)
        for _ in range(300):
            if len(await running.changes()) == 3:
                break
            await asyncio.sleep(0.02)
        assert [one["data"]["site"]["url"].rpartition("/")[2] for one in receiver.got] == ["a"]


async def test_a_private_channel_needs_the_flag(start: Start, receiver: Receiver) -> None:
    async with start(scheduling=SLOWLY) as running:
        control = running.control.notifications
        channel = await control.add_channel("hook", "webhook", {"url": receiver.url})
        answer = await control.try_channel(channel.id)
        assert answer.kind == "retry"
        assert "loopback" in answer.detail
        assert receiver.got == []
