"""What rules tell, from a poll to a webhook's receiver."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pollerd.daemon import notifier
from pollerd.daemon.announcer import Announcer
from pollerd.daemon.notifier import FailingWatch
from pollerd.daemon.process import BlindCause, BlindPeriod
from pollerd.daemon.rules_in_force import RulesInForce
from pollerd.daemon.stages import SiteCache
from pollerd.errors import InvalidValueError
from pollerd.events import EventKind, Notice, NoticeState
from pollerd.notifications.rules import parse_rule
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.keys import new_key
from pollerd.storage.notification_values import NoticeFilter
from pollerd.storage.settings import StorageSettings
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until, until_found

SLOWLY = SchedulingSettings(
    min_interval_seconds=0.1, min_saving_seconds=0, host_interval_seconds=0, backoff_base_seconds=0.2
)


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
        found = (await running.store.notifications.log.notices(NoticeFilter(change_id=change.id))).items
        assert [one.event_id for one in found] == receiver.ids
        await until(lambda: running.metric("pollerd_delivery_attempts_total", outcome="sent") == 1)


async def test_messages_link_to_an_address_that_is_set_meanwhile(
    start: Start, origin: Origin, receiver: Receiver
) -> None:
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        await hook(running, receiver)
        site = await changed(running, origin)
        await until(lambda: len(receiver.got) == 1)
        assert "https://" not in json.dumps(receiver.got[0])
        for n, address in enumerate(("https://watch.example.org/", "https://other.example.org"), 2):
            await running.control.notifications.link_to(address, by="test")
            assert running.control.notifications.public_url == address.rstrip("/")
            origin.pages["/p"] = Page(f"<p>text {n}</p>")
            await until(lambda n=n: len(receiver.got) == n)  # type: ignore[misc]
            change = (await running.changes())[-1]
            assert f"{address.rstrip('/')}/changes/{change.id}" in json.dumps(receiver.got[-1])
        with pytest.raises(InvalidValueError):
            await running.control.notifications.link_to("nowhere", by="test")
        assert running.control.notifications.public_url == "https://other.example.org"
        assert len(await running.polls(site)) >= 4


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
        assert await running.store.notifications.rules.incidents() == []


async def test_a_page_without_text_is_told_once(start: Start, origin: Origin, receiver: Receiver) -> None:
    script = '<html><title>Shop</title><body><div id="root"></div><script src="/{}.js"></script></body></html>'
    origin.pages["/p"] = Page(body=script.format(1))
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        await hook(running, receiver, events=["site.no_text"])
        (site,) = await running.add(origin.url("/p"))
        await until(lambda: len(receiver.got) == 1)
        origin.pages["/p"].body = script.format(2)
        await running.polled(site, len(await running.polls(site)) + 3)
        assert running.control.allocation.view().sites_without_text == 1
        for poll in await running.polls(site):
            assert "set render" in poll.detail, "each poll says so"
        assert "set render" in (await running.site(site)).last_detail
        assert "set render" in receiver.got[0]["data"]["details"]["detail"]
        origin.pages["/p"].body = "<title>Shop</title><p>Open</p>"
        await until_found(running.changes)
        await running.polled(site, len(await running.polls(site)) + 1)
        assert running.control.allocation.view().sites_without_text == 0
        assert (await running.site(site)).last_detail == ""
        assert receiver.kinds() == ["site.no_text"]


async def test_refused_credentials_pause_the_channel_and_keep_its_queue(
    start: Start, origin: Origin, receiver: Receiver
) -> None:
    receiver.answers = [401]
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        channel = await hook(running, receiver)
        await changed(running, origin)
        for _ in range(3_000):
            row = await running.store.notifications.channels.get(channel)
            if row.paused_at is not None:
                break
            await asyncio.sleep(0.02)
        assert "401" in row.paused_reason
        (notice,) = (await running.store.notifications.log.notices()).items
        assert notice.state is NoticeState.WAITING
        await until(lambda: bool(receiver.got))  # the first probe comes after five seconds

        async def is_resumed() -> bool:
            return (await running.store.notifications.channels.get(channel)).paused_at is None

        await until_found(is_resumed)  # noted once its answer is here


async def test_a_dead_message_lets_the_next_pass_and_can_be_sent_again(
    start: Start, origin: Origin, receiver: Receiver
) -> None:
    receiver.answers = [400]
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        channel = await hook(running, receiver)
        await changed(running, origin)
        for _ in range(3_000):
            dead = (await running.store.notifications.log.notices(NoticeFilter(state=NoticeState.DEAD))).items
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
        for _ in range(3_000):
            if len(await running.changes()) == 3:
                break
            await asyncio.sleep(0.02)
        assert [one["data"]["site"]["url"].rpartition("/")[2] for one in receiver.got] == ["a"]


async def test_a_private_channel_needs_the_flag(start: Start, receiver: Receiver) -> None:
    async with start(scheduling=SLOWLY) as running:
        control = running.control.notifications
        channel = await control.add_channel("hook", "webhook", {"url": receiver.url})
        answer = await control.try_channel(channel.id)
        assert answer.kind == "dead"
        assert answer.detail == "loopback address 127.0.0.1, not reached without --allow-private-channels"
        assert (await running.store.notifications.channels.get(channel.id)).last_error == answer.detail
        (logged,) = (await running.store.notifications.log.attempts(channel.id)).items
        assert (logged.outcome, logged.events, logged.detail) == ("dead", 1, answer.detail)
        assert receiver.got == []


async def test_a_storm_is_one_message_and_nothing_is_dropped(start: Start, origin: Origin, receiver: Receiver) -> None:
    paths = [f"/{n}" for n in range(40)]
    origin.pages |= {path: Page("<p>one</p>") for path in paths}
    async with start(scheduling=SLOWLY, private_channels=True, budget=500.0) as running:
        await hook(running, receiver)
        sites = await running.add(*(origin.url(path, host=n) for n, path in enumerate(paths)))
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == len(paths))
        origin.pages |= {path: Page("<p>two</p>") for path in paths}

        async def told() -> set[int]:
            found = (await running.store.notifications.log.notices(limit=1000)).items
            return {one.site_id or 0 for one in found if one.state in (NoticeState.SENT, NoticeState.WAITING)}

        for _ in range(3_000):
            if await told() == set(sites):
                break
            await asyncio.sleep(0.05)
        assert await told() == set(sites)
        await until(lambda: running.metric("pollerd_notices_sent_total") >= 10)
        singles = [one for one in receiver.got if one["type"] == "site.changed"]
        assert len(receiver.got) <= 11, "then a minute passes before the rest comes as a group"
        assert len(singles) <= 10


async def sent(running: Running, number: int) -> None:
    """Waits until so many notices have been sent."""
    await until(lambda: running.metric("pollerd_notices_sent_total") >= number)


async def put_many(running: Running, channel: int, number: int, *, digest: str = "") -> list[str]:
    """Puts events of different sites into the outbox; returns their ids, in order."""
    ids = [f"gone-{n}" for n in range(number)]
    data = '{"detail": "' + "x" * 300 + '"}'
    gone = EventKind.GONE
    notices = [Notice(one, gone, float(n), 1, channel, 5.0, data=data, digest=digest) for n, one in enumerate(ids)]
    await running.store.notifications.outbox.put(notices)
    return ids


def told(receiver: Receiver) -> list[str]:
    """Returns the ids of all events that came, in order."""
    bodies = [one["data"].get("events", [one]) for one in receiver.got]
    return [event["data"]["id"] for events in bodies for event in events]


@pytest.mark.parametrize("digest", ["", "1 2026-01-01T08"])
async def test_a_list_that_one_message_does_not_hold_goes_into_several_at_once(
    start: Start, receiver: Receiver, digest: str
) -> None:
    async with start(private_channels=True) as running:
        channel = await hook(running, receiver, events=["daemon.blind"])
        ids = await put_many(running, channel, 300, digest=digest)
        blindness = running.daemon.parts.runtime.blindness
        blindness.note(BlindPeriod(BlindCause.LINK, 2_000.0, 2_120.0))  # wakes the sender
        await until(lambda: len(told(receiver)) >= 300)
        assert [one for one in told(receiver) if one in ids] == ids
        assert len(set(receiver.ids)) == len(receiver.ids)
        assert not any(one["data"].get("cut") for one in receiver.got)
        assert len(receiver.got) < 20
        await sent(running, 300)


async def test_parts_of_a_list_keep_their_ids_after_a_kill(start: Start, receiver: Receiver) -> None:
    async with start(private_channels=True, kill=True) as running:
        channel = await hook(running, receiver)
        running.task.cancel()  # so that nothing else claims them
        await asyncio.wait({running.task})
        ids = await put_many(running, channel, 200)
        store = running.store.notifications
        claim = await store.outbox.claim(channel, 10.0, group_from=2)
        assert claim is not None
        claim = await store.outbox.part(claim, 30)  # and is killed before it is sent
    async with start(private_channels=True) as running:
        await until(lambda: bool(receiver.got))
        assert receiver.ids[0] == claim.message_id
        assert told(receiver) == ids[:30]
        found = (await running.store.notifications.log.notices(limit=1000)).items
        waiting = {one.event_id for one in found if one.state is not NoticeState.SENT}
        assert waiting - set(ids[:30]) == set(ids[30:]), "a minute after the first part"


async def test_the_pace_of_a_channel_outlives_the_process(start: Start, origin: Origin, receiver: Receiver) -> None:
    limited = {"url": receiver.url, "delivery": {"per_minute": 2, "group_from": 1000}}
    async with start(private_channels=True) as running:
        channel = await running.control.notifications.add_channel("hook", "webhook", limited)
        await running.control.notifications.add_rule({"name": "all", "channels": ["hook"], "events": ["daemon.blind"]})
        blindness = running.daemon.parts.runtime.blindness
        for n in range(2):
            blindness.note(BlindPeriod(BlindCause.LINK, n * 1_000.0, n * 1_000.0 + 100))
            await sent(running, n + 1)
    async with start(private_channels=True) as running:
        await put_many(running, channel.id, 1)
        running.daemon.parts.runtime.blindness.note(BlindPeriod(BlindCause.LINK, 5_000.0, 5_100.0))
        for _ in range(50):
            await asyncio.sleep(0.01)
        assert len(receiver.got) == 2
        assert len((await running.store.notifications.log.notices()).items) == 4


async def test_that_the_budget_is_too_small_is_told_once_over_restarts(
    start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "LATE_SECONDS", 0.02)
    hourly = SchedulingSettings(
        min_interval_seconds=0.01, min_saving_seconds=0, host_interval_seconds=0, max_interval_seconds=0.02
    )
    for _ in range(2):
        async with start(scheduling=hourly, private_channels=True, budget=0.01) as running:
            if not (await running.store.notifications.rules.all()):
                await hook(running, receiver, events=["daemon.over_budget"])
                await running.add("http://127.0.0.1:9/a", "http://127.0.0.1:9/b")
            while not running.control.explainer.late_sites() or not receiver.got:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
    assert receiver.kinds() == ["daemon.over_budget"]


async def test_a_channel_that_stalls_holds_up_no_other(start: Start, origin: Origin, receiver: Receiver) -> None:
    async def stall(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    origin.pages["/stall"] = Page(handler=stall)
    async with start(scheduling=SLOWLY, private_channels=True) as running:
        control = running.control.notifications
        await control.add_channel("slow", "webhook", {"url": origin.url("/stall")})
        await control.add_rule({"name": "slow", "channels": ["slow"]})
        await hook(running, receiver)
        site = await changed(running, origin)
        await until(lambda: bool(receiver.got))
        before = len(await running.polls(site))
        await running.polled(site, before + 2)


async def test_a_site_that_fails_for_long_is_found_between_its_polls(start: Start, origin: Origin) -> None:
    rarely = SchedulingSettings(
        min_interval_seconds=0.1, min_saving_seconds=0, host_interval_seconds=0, backoff_base_seconds=3600.0
    )
    async with start(scheduling=rarely) as running:
        channel = await running.control.notifications.add_channel("hook", "webhook", {"url": "https://a.example/"})
        patience = {"after_polls": None, "after": 1.0}
        document = {"name": "down", "channels": ["hook"], "events": ["site.failing"], "failing": patience}
        row = await running.control.notifications.add_rule(document)
        origin.pages["/p"] = Page()
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 1)
        origin.pages["/p"] = Page(status=500)
        for _ in range(3_000):
            if (await running.site(site)).failures:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(1.1)
        parts = running.daemon.parts
        filled = asyncio.Event()
        announcer = Announcer(
            sites=parts.store.sites, contents=parts.store.contents, filled=filled, runtime=parts.runtime
        )
        announcer.put_in_force([parse_rule(document, id=row.id)], {"hook": channel.id})
        watch = FailingWatch(
            store=parts.store,
            scheduler=parts.scheduler,
            announcer=announcer,
            journal=parts.journal,
            site_cache=SiteCache(parts.store.sites, 10),
            filled=filled,
            runtime=parts.runtime,
        )
        assert announcer.rules is not None
        for _ in range(2):  # the second look finds the incident open
            await watch.look(announcer.rules, 1.0)
        (told,) = (await running.store.notifications.log.notices()).items
        assert (told.kind, told.site_id, filled.is_set()) == (EventKind.FAILING, site, True)
        assert [one.site_id for one in await running.store.notifications.rules.incidents()] == [site]


async def test_what_concerns_the_daemon_is_told(start: Start, receiver: Receiver) -> None:
    async with start(private_channels=True) as running:
        await hook(running, receiver, events=["daemon.blind"])
        blindness = running.daemon.parts.runtime.blindness
        blindness.note(BlindPeriod(BlindCause.LINK, 1_000.0, 1_030.0))  # too short to be told
        blindness.note(BlindPeriod(BlindCause.LINK, 2_000.0, 2_120.0))
        await until(lambda: bool(receiver.got))
        (told,) = receiver.got
        assert told["type"] == "daemon.blind"
        assert told["data"]["details"]["from"] == "1970-01-01T00:33:20.000Z"


async def test_a_daemon_without_rules_and_channels_loads_nothing_of_them(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys, numpy as np\n"
        "from prometheus_client import CollectorRegistry\n"
        "from pollerd.app.build import LiveSettings, live_daemon\n"
        "from pollerd.storage.store import Store\n"
        "from pollerd.telemetry import Instruments\n"
        "async def main():\n"
        f"    store = await Store.open('sqlite:///{tmp_path}/poll.db')\n"
        "    instruments = Instruments(CollectorRegistry(), '1')\n"
        "    async with live_daemon(store, LiveSettings(), instruments, np.random.default_rng(1)): pass\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
        "unwanted = ('jinja2', 'apprise', 'nats', 'aiosmtplib', 're2', 'pollerd.notifications.rules',\n"
        "    'pollerd.notifications.channels', 'pollerd.notifications.messages', 'pollerd.notifications.delivery')\n"
        "print([name for name in sys.modules if name.startswith(unwanted)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_digest_that_went_out_takes_nothing_more_in() -> None:
    rules = RulesInForce()
    daily = {"name": "all", "channels": ["hook"], "digest": {"every": "day", "at": "00:00", "zone": "UTC"}}
    rules.replace([parse_rule(daily, id=1)], {"hook": 1})
    notice = Notice(event_id="e", kind=EventKind.CHANGED, at=0.0, rule_id=1, channel_id=1, due_at=0.0)
    (first,) = rules.notices(rules.all, notice, now=1_800_000_000.0)
    rules.close_digests([first.digest])
    (second,) = rules.notices(rules.all, notice, now=1_800_000_000.0)
    assert second.due_at == first.due_at + 86_400.0
