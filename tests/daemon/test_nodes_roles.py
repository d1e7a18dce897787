"""What one node does for all: each role is lost and taken again, and its work goes on each time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import select, text

from pollerd.daemon.settings import SignalSettings
from pollerd.model import JobAction
from pollerd.partitions import NodeRole
from pollerd.storage.jobs import JobSpec
from pollerd.storage.keys import new_key
from pollerd.storage.schema import holding
from pollerd.storage.signals import SignalSourceSpec
from pollerd.storage.sources import SourceSpec
from pollerd.storage.values import SiteFilter
from tests.daemon.conftest import Running
from tests.daemon.test_nodes import node, shared_out, sites_of
from tests.daemon.test_notifications import Receiver, hook, receiver
from tests.daemon.test_sources import urlset
from tests.support import postgres
from tests.support.hub import Hub
from tests.support.origin import Origin, Page, until, until_found
from tests.support.postgres import postgres_database

__all__ = ["receiver"]

CALLED_AT = SignalSettings(callback_url="https://pollerd.invalid/")


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


async def lose_roles(running: Running, database: str) -> None:
    """The session ends, as if another node had taken and released all roles meanwhile; then they are taken again."""
    nobody = text("UPDATE holding SET node_id = 0 WHERE unit < 0")
    await running.store.database.write(lambda connection: connection.execute(nobody))
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name = 'pollerd node' AND datname = '{database.rpartition('/')[2]}'"
    )
    await until_found(lambda: holds_all_roles(running))


async def holds_all_roles(running: Running) -> bool:
    assert running.store.cluster is not None
    me = running.store.cluster.node_id
    mine = select(holding.c.unit).where(holding.c.unit < 0, holding.c.node_id == me)
    found = await running.store.database.read(lambda connection: list(connection.execute(mine).scalars()))
    return len(found) == len(NodeRole)


async def told_of_a_change(running: Running, origin: Origin, receiver: Receiver, site_id: int, body: str) -> None:
    """The page changes, and a message of it arrives."""
    before = len(receiver.got)
    origin.pages["/told"] = Page(f"<p>{body}</p>")
    await running.control.sites.poll_now(site_id)
    await until(lambda: len(receiver.got) > before)


def feed_with_hub(origin: Origin, path: str, hub: Hub) -> None:
    moment = datetime.fromtimestamp(1e9, UTC).isoformat()
    entry = f"<entry><id>e</id><link href='{origin.url('/told')}'/><updated>{moment}</updated><title>t</title></entry>"
    body = f"<feed xmlns='http://www.w3.org/2005/Atom'><title>f</title>{entry}</feed>"
    links = {"Link": f'<{hub.url()}>; rel="hub", <https://publisher.invalid{path}>; rel=self'}

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, content_type="application/atom+xml", headers=links)

    origin.pages[path] = Page(handler=answer)


async def follow_a_list(running: Running, origin: Origin, name: str) -> None:
    """A new source is read, and read again."""
    before = len(sites_of(running))
    origin.pages[f"/listed-{name}"] = Page()
    origin.pages[f"/{name}.xml"] = Page(urlset([origin.url(f"/listed-{name}")]))
    source = await running.control.sources.add(SourceSpec(origin.url(f"/{name}.xml"), interval=0.3))
    await until(lambda: len(sites_of(running)) > before)
    read_at = (await running.store.sources.get(source.id)).last_read_at or 0.0

    async def read_again() -> bool:
        return ((await running.store.sources.get(source.id)).last_read_at or 0.0) > read_at

    await until_found(read_again)


async def tag_all(running: Running, tag: str) -> None:
    """A job is started, and ends."""
    spec = JobSpec(JobAction.TAG, {"tag": tag}, filter=SiteFilter())
    job = await running.control.jobs.start(spec, by="a test")

    async def ended() -> bool:
        return (await running.store.jobs.get(job.id)).ended_at is not None

    await until_found(ended)


async def subscribe(running: Running, origin: Origin, hub: Hub, path: str) -> None:
    """A new signal source offers a hub, which is asked."""
    before = len(hub.asked)
    feed_with_hub(origin, path, hub)
    (feed,) = await running.add(origin.url(path))
    await running.control.signals.add(SignalSourceSpec("feed", feed))
    await until(lambda: len(hub.asked) == before + 1)


async def test_every_role_is_lost_and_taken_again_twice(
    database: str, origin: Origin, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"signals": CALLED_AT, "secret_key": new_key(), "maintenance_seconds": 0.2}
    async with Hub() as hub, node("a", database, host_seconds=0.0, **options) as running:
        await hook(running, receiver)
        origin.pages["/told"] = Page("<p>first</p>")
        (told,) = await running.add(origin.url("/told"))
        await running.polled(told, 1)
        for turn in range(3):
            if turn:
                await lose_roles(running, database)
            await told_of_a_change(running, origin, receiver, told, f"turn {turn}")
            await follow_a_list(running, origin, f"list{turn}")
            await tag_all(running, f"turn{turn}")
            await subscribe(running, origin, hub, f"/feed{turn}")
            capsys.readouterr()
            await until(lambda: "pruned" in capsys.readouterr().out)
            assert (await running.control.notifications.try_channel(1)).status == 200
        assert not running.task.done()


async def test_messages_are_sent_although_nodes_come_and_go(database: str, origin: Origin, receiver: Receiver) -> None:
    key = new_key()
    async with node("a", database, host_seconds=0.0, secret_key=key) as a:
        await hook(a, receiver)
        origin.pages["/told"] = Page("<p>first</p>")
        (told,) = await a.add(origin.url("/told"))
        await a.polled(told, 1)
        await told_of_a_change(a, origin, receiver, told, "alone")
        for turn in range(2):
            async with node("b", database, host_seconds=0.0, secret_key=key) as b:
                await shared_out({told}, a, b)
                await told_of_a_change(b, origin, receiver, told, f"two, {turn}")
                assert (await b.control.notifications.try_channel(1)).status == 200
            await until(lambda: sites_of(a) == {told})
            await told_of_a_change(a, origin, receiver, told, f"alone again, {turn}")
    assert receiver.ids == sorted(set(receiver.ids), key=receiver.ids.index), "each once"
