"""WebSub: a daemon with its API, its databases, and a hub on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import text

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.daemon.settings import SignalSettings
from pollerd.errors import InvalidValueError
from pollerd.storage.hubs import HubState, HubSubscription
from pollerd.storage.settings import StorageSettings
from pollerd.storage.signals import SignalSource, SignalSourceSpec
from tests.api.conftest import listening, served_at
from tests.daemon.conftest import Running, Start
from tests.daemon.test_signals import Recorder, recorder, slot_of
from tests.support.hub import CHALLENGE, Hub
from tests.support.origin import Origin, Page, until

__all__ = ["recorder"]

TOPIC = "https://publisher.invalid/as-written?b&a"
SECRETS = StorageSettings(secret_key="q" * 43 + "=")
Begin = Callable[..., contextlib.AbstractAsyncContextManager[Running]]


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with Hub() as running:
        yield running


@pytest.fixture
def begin(start: Start) -> Begin:
    """Starts a daemon that hubs can call."""

    @contextlib.asynccontextmanager
    async def begun(**options: Any) -> AsyncIterator[Running]:
        with listening() as listener:
            root = f"http://127.0.0.1:{listener.getsockname()[1]}"
            signals = SignalSettings(callback_url=f"{root}/")
            async with start(signals=signals, storage=SECRETS, **options) as running:
                app = create_api(running.control, running.store, running.registry, ApiSettings(), "test")
                async with served_at(app, listener):
                    yield running

    return begun


def entry(url: str, at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC).isoformat()
    return f"<entry><id>{url}</id><link href='{url}'/><updated>{moment}</updated><title>t</title></entry>"


def atom(*entries: str, head: str = "") -> str:
    return f"<feed xmlns='http://www.w3.org/2005/Atom'><title>f</title>{head}{''.join(entries)}</feed>"


def offer(origin: Origin, hub_url: str | None, *entries: str) -> None:
    """Serves a feed that offers the hub in its header; None: no more."""
    links = {} if hub_url is None else {"Link": f'<{hub_url}>; rel="hub", <{TOPIC}>; rel=self'}
    body = atom(*entries)

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, content_type="application/atom+xml", headers=links)

    origin.pages["/feed"] = Page(handler=answer)


async def follow(running: Running, origin: Origin) -> SignalSource:
    """Makes the feed a signal source."""
    (site_id,) = await running.add(origin.url("/feed"))
    return await running.control.signals.add(SignalSourceSpec("feed", site_id))


async def subscribed(running: Running, state: HubState = HubState.ACTIVE) -> HubSubscription:
    """The only subscription, once it is in this state."""
    found: list[HubSubscription] = []
    for _ in range(1_000):
        found = await running.store.hubs.all()
        if [one.state for one in found] == [state]:
            return found[0]
        await asyncio.sleep(0.02)
    raise AssertionError(f"no subscription is {state}: {found}")


async def at_rest(running: Running, source: SignalSource) -> None:
    """Polls the source no more: it goes on to say what it said before its hub sent something."""
    await running.control.sites.pause(source.spec.site_id or 0, True)
    sites = running.daemon.parts.scheduler.sites
    slot = sites.slot_of(source.spec.site_id or 0)
    await until(lambda: not sites.in_flight[slot])
    await running.daemon.parts.journal.flush()


async def set_all(running: Running, assignments: str) -> None:
    """Changes every subscription in the database, and has the daemon look."""
    statement = text(f"UPDATE hub_subscription SET {assignments}")
    await running.store.database.write(lambda connection: connection.execute(statement))
    running.daemon.parts.hubs.look_again()


async def test_a_hub_is_subscribed_to_and_what_it_sends_is_a_signal(
    origin: Origin, hub: Hub, begin: Begin, any_database: str, recorder: Recorder
) -> None:
    page = origin.url("/a")
    offer(origin, hub.url(), entry(page, 1e9))
    async with begin(url=any_database) as running:
        (a,) = await running.add(page)
        source = await follow(running, origin)
        one = await subscribed(running)
        (asked,) = hub.asked
        assert (asked["hub.mode"], asked["hub.topic"]) == ("subscribe", TOPIC)
        assert asked["hub.callback"].endswith(f"/websub/{one.callback}")
        assert 32 <= len(asked["hub.secret"].encode()) < 200
        await until(lambda: len(hub.verified) == 1)
        assert (hub.verified[0].status, hub.verified[0].body) == (200, CHALLENGE)
        assert one.lease_ends_at is not None
        assert 900 < one.lease_ends_at - (one.verified_at or 0) <= 1_000
        assert await running.store.signals.of_site(a) != []
        await at_rest(running, source)
        before = len(recorder.signals)
        assert (await hub.publish(atom(entry(page, 1.5e9)))).status == 202
        (got,) = recorder.signals[before:]
        assert got[:3] == (source.id, slot_of(running, a), 1.5e9)
        assert running.metric("pollerd_hub_deliveries_total", result="accepted") == 1
        assert running.metric("pollerd_hub_subscriptions", state="active") == 1
        # While its hub is alive the allocator knows the source as pushed.
        await until(lambda: recorder.polled_as[source.id] is None)


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_the_methods_of_the_protocol_are_known(
    origin: Origin, hub: Hub, begin: Begin, recorder: Recorder, method: str
) -> None:
    page = origin.url("/a")
    offer(origin, hub.url(), entry(page, 1e9))
    async with begin() as running:
        await running.add(page)
        await follow(running, origin)
        await subscribed(running)
        assert (await hub.publish(atom(entry(page, 1.5e9)), method=method)).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="accepted") == 1


async def test_what_is_forged_or_sent_again_has_no_effect(
    origin: Origin, hub: Hub, begin: Begin, recorder: Recorder
) -> None:
    page = origin.url("/a")
    offer(origin, hub.url(), entry(page, 1e9))
    async with begin() as running:
        await running.add(page)
        source = await follow(running, origin)
        one = await subscribed(running)
        await at_rest(running, source)
        news, old = atom(entry(page, 1.5e9)), atom(entry(page, 1.2e9))
        before = len(recorder.signals)
        right = hub.asked[0]["hub.secret"]
        for fields in (
            {"signature": ""},
            {"signature": "sha256=" + "0" * 64},
            {"signature": "md5=" + "0" * 32},
            {"signature": "sha256"},
            {"signature": "sha256=\u00e9"},
            {"secret": "another"},
            {"secret": right[:-1]},
        ):
            assert (await hub.publish(news, **fields)).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="forged") == 7
        assert (len(recorder.signals), (await subscribed(running)).received) == (before, 0)
        assert (await hub.publish(old)).status == 202
        assert (await hub.publish(news)).status == 202
        assert len(recorder.signals) == before + 2
        for body in (old, news):
            assert (await hub.publish(body)).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="repeated") == 2
        # Also one that is no longer remembered, as after a restart, takes nothing back.
        assert (await hub.publish(old + "\n")).status == 202
        assert (await running.store.signals.said(source.id))[0].date == 1.5e9
        assert len(recorder.signals) == before + 2
        assert (await hub.publish("no feed at all")).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="unreadable") == 1
        assert (await subscribed(running)).id == one.id


async def test_only_what_was_asked_for_is_confirmed(origin: Origin, hub: Hub, begin: Begin, any_database: str) -> None:
    hub.verifies = False
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin(url=any_database) as running:
        await follow(running, origin)
        await until(lambda: len(hub.asked) == 1)
        callback = hub.asked[0]["hub.callback"]
        root = callback.rsplit("/", 1)[0]
        one = (await running.store.hubs.all())[0]
        unknown = f"{root}/{one.callback[::-1]}"
        for place, mode, topic in (
            (callback, "subscribe", "https://publisher.invalid/other"),
            (callback, "unsubscribe", TOPIC),
            (callback, "rumour", TOPIC),
            (callback, "", TOPIC),
            (unknown, "subscribe", TOPIC),
            (f"{root}/1", "subscribe", TOPIC),
            (f"{root}/{'%00' * 43}", "subscribe", TOPIC),
            (f"{root}/{'a' * 5_000}", "subscribe", TOPIC),
        ):
            assert (await hub.verify(place, mode, topic)).status == 404
        for challenge in ("", "x" * 1_001):
            assert (await hub.verify(callback, "subscribe", TOPIC, **{"hub.challenge": challenge})).status == 404
        for place in (unknown, f"{root}/1"):
            assert (await hub.publish("x", callback=place)).status == 404
        # Not verified: what comes has no effect.
        assert (await hub.publish(atom(entry(origin.url("/a"), 1.5e9)))).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="unwanted") == 1
        # A request is good for an hour.
        await set_all(running, "asked_at = asked_at - 3700")
        assert (await hub.verify(callback, "subscribe", TOPIC)).status == 404
        await set_all(running, "asked_at = asked_at + 3700")
        assert (await hub.verify(callback, "subscribe", TOPIC)).body == CHALLENGE
        await subscribed(running)


async def test_leases_are_renewed_and_end(origin: Origin, hub: Hub, begin: Begin, recorder: Recorder) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        first = await subscribed(running)
        await until(lambda: recorder.polled_as[source.id] is None)
        await set_all(running, "next_at = 0")
        await until(lambda: hub.modes() == ["subscribe", "subscribe"])
        assert {one["hub.callback"] for one in hub.asked} == {hub.asked[0]["hub.callback"]}
        assert len({one["hub.secret"] for one in hub.asked}) == 1
        await until(lambda: len(hub.verified) == 2)
        renewed = await subscribed(running)
        assert (renewed.lease_ends_at or 0) > (first.lease_ends_at or 0)
        # A hub that refuses renewal is asked again, and polled again when the lease is over.
        hub.refuses = 503
        await set_all(running, "next_at = 0, lease_ends_at = 1")
        over = await subscribed(running, HubState.PENDING)
        assert over.next_at > 0
        await until(lambda: recorder.polled_as[source.id] == slot_of(running, source.spec.site_id or 0))
        await until(lambda: len(hub.asked) >= 3)
        hub.refuses = None
        await set_all(running, "next_at = 0")
        await subscribed(running)


async def test_a_silent_hub_counts_as_none(origin: Origin, hub: Hub, begin: Begin, recorder: Recorder) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        await subscribed(running)
        await until(lambda: recorder.polled_as[source.id] is None)
        now = running.daemon.parts.runtime.clock()
        await set_all(running, f"last_received_at = {now - 301}, longest_gap = 100")
        await until(lambda: recorder.polled_as[source.id] is not None)
        assert (await hub.publish(atom(entry(origin.url("/b"), 1.5e9)))).status == 202
        await until(lambda: recorder.polled_as[source.id] is None)
        one = await subscribed(running)
        assert one.longest_gap > 300
        assert one.silent_at > now


async def test_a_subscription_survives_a_kill(
    origin: Origin, hub: Hub, begin: Begin, any_database: str, recorder: Recorder
) -> None:
    page = origin.url("/a")
    offer(origin, hub.url(), entry(page, 1e9))
    async with begin(url=any_database, kill=True) as running:
        await running.add(page)
        source = await follow(running, origin)
        before = await subscribed(running)
        await at_rest(running, source)
    async with begin(url=any_database) as running:
        assert await running.store.hubs.all() == [before]
        end = hub.asked[0]["hub.callback"].rsplit("/", 1)[1]
        root = running.daemon.parts.hubs.callback("")
        reply = await hub.publish(atom(entry(page, 1.5e9)), callback=f"{root}{end}")
        assert reply.status == 202
        assert (await running.store.signals.said(source.id))[0].date == 1.5e9
        assert hub.modes() == ["subscribe"]


async def test_a_source_that_goes_is_unsubscribed(origin: Origin, hub: Hub, begin: Begin, any_database: str) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin(url=any_database) as running:
        source = await follow(running, origin)
        await subscribed(running)
        callback = hub.asked[0]["hub.callback"]
        hub.verifies = False
        await running.control.signals.delete(source.id)
        await until(lambda: hub.modes() == ["subscribe", "unsubscribe"])
        assert (await hub.publish("x")).status == 410
        assert "hub.secret" not in hub.asked[1]
        assert (await hub.verify(callback, "subscribe", TOPIC)).status == 404
        assert (await hub.verify(callback, "unsubscribe", TOPIC)).body == CHALLENGE
        assert await running.store.hubs.all() == []
        assert (await hub.verify(callback, "unsubscribe", TOPIC)).status == 404
        assert (await hub.publish("x")).status == 404


async def test_another_hub_or_none_ends_a_subscription(origin: Origin, hub: Hub, begin: Begin) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        await subscribed(running)
        offer(origin, hub.url("/other"), entry(origin.url("/a"), 1e9))
        await running.control.sites.poll_now(source.spec.site_id or 0)
        await until(lambda: sorted(hub.modes()) == ["subscribe", "subscribe", "unsubscribe"])
        assert (await subscribed(running)).hub == hub.url("/other")
        assert {one["path"]: one["hub.mode"] for one in hub.asked[1:]} == {"/hub": "unsubscribe", "/other": "subscribe"}
        offer(origin, None, entry(origin.url("/a"), 1e9))
        await running.control.sites.poll_now(source.spec.site_id or 0)
        await until(lambda: sorted(hub.modes())[-2:] == ["unsubscribe", "unsubscribe"])


async def test_a_hub_may_deny(origin: Origin, hub: Hub, begin: Begin, recorder: Recorder) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        one = await subscribed(running)
        await until(lambda: recorder.polled_as[source.id] is None)
        callback = hub.asked[0]["hub.callback"]
        assert (await hub.verify(callback, "denied", "https://publisher.invalid/other")).status == 404
        reply = await hub.verify(callback, "denied", TOPIC, **{"hub.reason": "no\nmore " + "x" * 5_000})
        assert reply.status == 200
        denied = await subscribed(running, HubState.DENIED)
        assert denied.last_detail.startswith("the hub denies it: no more xxx")
        assert len(denied.last_detail) < 300
        assert denied.next_at > (one.asked_at or math.inf) + 80_000
        await until(lambda: recorder.polled_as[source.id] is not None)
        assert (await hub.publish(atom(entry(origin.url("/a"), 1.5e9)))).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="unwanted") == 1


@pytest.mark.parametrize("status", [307, 308])
async def test_redirects_of_hubs_are_followed_through_the_guard(
    origin: Origin, hub: Hub, begin: Begin, status: int
) -> None:
    hub.redirects = {"/moved": (status, "/hub"), "/loop": (status, "/loop"), "/inside": (status, METADATA)}
    offer(origin, hub.url("/moved"), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        await subscribed(running)
        assert [one["path"] for one in hub.asked] == ["/hub"]
        for place, reason in (("/loop", "redirects more than 3 times"), ("/inside", "cannot be asked")):
            offer(origin, hub.url(place), entry(origin.url("/a"), 1e9))
            await running.control.sites.poll_now(source.spec.site_id or 0)
            await until_said(running, reason)
        assert hub.modes().count("subscribe") == 1
        assert running.metric("pollerd_hub_requests_total", result="refused") == 2


METADATA = "http://169.254.169.254/latest/"
"""Closed also where private addresses are open."""


async def until_said(running: Running, reason: str) -> None:
    for _ in range(1_000):
        said = [one.last_detail for one in await running.store.hubs.all()]
        if any(reason in one for one in said):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(said)


async def test_other_redirects_and_refusals_are_no_subscription(origin: Origin, hub: Hub, begin: Begin) -> None:
    hub.redirects = {"/moved": (302, "/hub")}
    offer(origin, hub.url("/moved"), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        await until_said(running, "refuses with status 302")
        hub.refuses = 400
        offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
        await running.control.sites.poll_now(source.spec.site_id or 0)
        await until_said(running, "refuses with status 400: not here")
        pending = await running.store.hubs.all()
        assert {one.state for one in pending if one.source_id is not None} == {HubState.PENDING}


async def test_dates_of_1970_and_2100_and_other_hosts_in_what_a_hub_sends(
    origin: Origin, hub: Hub, begin: Begin, recorder: Recorder
) -> None:
    old, new, foreign = origin.url("/a"), origin.url("/b"), origin.url("/c", 7)
    offer(origin, hub.url(), entry(old, -1.0), entry(new, 1e9), entry(foreign, 1e9))
    async with begin() as running:
        a, b, _ = await running.add(old, new, foreign)
        source = await follow(running, origin)
        await subscribed(running)
        await at_rest(running, source)
        before = len(recorder.signals)
        everything = atom(entry(old, 0.0), entry(new, 4_102_444_800.0), entry(foreign, 1.5e9))
        assert (await hub.publish(everything)).status == 202
        got = {slot: (at, now) for _, slot, at, now in recorder.signals[before:]}
        assert got.keys() == {slot_of(running, a), slot_of(running, b)}
        assert got[slot_of(running, a)][0] == 0.0
        assert got[slot_of(running, b)][0] == got[slot_of(running, b)][1]


async def test_a_bomb_from_a_hub_says_nothing(origin: Origin, hub: Hub, begin: Begin, recorder: Recorder) -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '" + "&a;" * 1_000 + "'>]>"
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        await running.add(origin.url("/a"))
        source = await follow(running, origin)
        await subscribed(running)
        await at_rest(running, source)
        before = len(recorder.signals)
        for body in (bomb + atom(entry("&b;" * 1_000, 1.5e9)), "<feed>" * 300_000, "\0" * 300_000, ""):
            assert (await hub.publish(body)).status == 202
        assert running.metric("pollerd_hub_deliveries_total", result="unreadable") == 4
        assert len(recorder.signals) == before


async def test_too_much_at_once_is_refused_and_sent_again(
    origin: Origin, hub: Hub, begin: Begin, recorder: Recorder
) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        source = await follow(running, origin)
        await subscribed(running)
        await at_rest(running, source)
        go = asyncio.Event()
        secret_of = running.store.hubs.secret_of

        async def late(subscription_id: int) -> bytes | None:
            await go.wait()
            return await secret_of(subscription_id)

        running.store.hubs.secret_of = late  # type: ignore[assignment]
        waiting = [asyncio.create_task(hub.publish(atom(entry(origin.url(f"/{n}"), 1e9)))) for n in range(40)]
        done, _ = await asyncio.wait(waiting, timeout=60.0, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result().status for task in done} == {429}
        go.set()
        found = sorted(answer.status for answer in await asyncio.gather(*waiting))
        assert found == [202] * 16 + [429] * 24


async def test_a_huge_body_is_not_read(origin: Origin, hub: Hub, begin: Begin, recorder: Recorder) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with begin() as running:
        await follow(running, origin)
        await subscribed(running)
        assert (await hub.publish(b"x" * (10 * 1024 * 1024 + 1))).status == 413
        assert (await subscribed(running)).received == 0


async def test_an_address_may_call_only_so_often(origin: Origin, hub: Hub, begin: Begin) -> None:
    async with begin() as running:
        callback = running.daemon.parts.hubs.callback("x" * 43)
        hub.asked.append({"hub.mode": "subscribe", "hub.secret": "s", "hub.callback": callback})
        found: list[int] = []
        while 429 not in found and len(found) < 5_000:  # more than the address may make, however slow this machine is
            found += [one.status for one in await asyncio.gather(*(hub.publish("x") for _ in range(20)))]
        assert found.count(404) >= 300
        assert set(found) == {404, 429}


async def test_without_a_callback_url_nothing_is_asked(
    origin: Origin, hub: Hub, start: Start, recorder: Recorder
) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    async with start() as running:
        source = await follow(running, origin)
        await until(lambda: len(recorder.fetched) > 0)
        assert (await running.store.hubs.all(), hub.asked) == ([], [])
        assert recorder.polled_as[source.id] is not None
        assert await running.control.hubs.at("x" * 43) is None


async def test_without_a_key_postgres_keeps_no_subscription(
    origin: Origin, hub: Hub, start: Start, any_database: str
) -> None:
    offer(origin, hub.url(), entry(origin.url("/a"), 1e9))
    signals = SignalSettings(callback_url="http://127.0.0.1:1")
    async with start(url=any_database, signals=signals) as running:
        await follow(running, origin)
        if any_database.startswith("sqlite"):
            await until(lambda: len(hub.asked) == 1)
            raw = await running.store.database.read(
                lambda c: c.execute(text("SELECT secret FROM hub_subscription")).scalar_one()
            )
            assert hub.asked[0]["hub.secret"].encode() not in bytes(raw)
        else:
            await until(lambda: running.metric("pollerd_signal_reads_total", result="unchanged") >= 1)
            assert await running.store.hubs.all() == []


@pytest.mark.parametrize("given", ["", "ftp://a", "https://", "https://u:p@a/", "https://a/?q", "https://\u00e9/"])
def test_a_callback_url_is_one(given: str) -> None:
    with pytest.raises(InvalidValueError, match="callback_url"):
        SignalSettings(callback_url=given)
