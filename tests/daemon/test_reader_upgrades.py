"""The database of a version that read pages otherwise, in a daemon of this one: no false change, none lost."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from msgspec.structs import replace

from pollerd.api.inputs import check_selections
from pollerd.detection.detect import ANEW
from pollerd.detection.noise.learning import fingerprint_of
from pollerd.detection.selection.comparing import resealed
from pollerd.model import OutcomeKind, SelectionDetection, StoredReading
from pollerd.scheduling.settings import SchedulingSettings
from tests.daemon.conftest import Running, Start
from tests.detection.reader_kinds import FINGERPRINTS, KINDS, Kind
from tests.storage.samples import query
from tests.support.origin import Handler, Origin, Page

SOON = SchedulingSettings(min_interval_seconds=0.2, host_interval_seconds=0, backoff_base_seconds=0.1)


class Served:
    """A page of each kind, at a host of its own, with an ETag that always fits."""

    def __init__(self, origin: Origin) -> None:
        self.origin, self.bodies = origin, dict[str, bytes]()
        self.conditional = dict.fromkeys((kind.name for kind in KINDS), 0)
        for n, kind in enumerate(KINDS):
            origin.pages[f"/{n}"] = Page(handler=self._handler(kind))

    def _handler(self, kind: Kind) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            self.conditional[kind.name] += "If-None-Match" in request.headers
            headers = {"ETag": '"same"', "Content-Type": kind.content_type or "text/html"}
            return web.Response(body=self.bodies[kind.name], headers=headers)

        return answer

    def serve(self, stage: str) -> None:
        self.bodies = {kind.name: getattr(kind, stage) for kind in KINDS}

    async def add(self, running: Running) -> dict[str, int]:
        urls = [self.origin.url(f"/{n}", host=n) for n in range(len(KINDS))]
        return dict(zip((kind.name for kind in KINDS), await running.add(*urls), strict=True))


async def polled_again(running: Running, sites: dict[str, int], times: int) -> None:
    counts = {site: len(await running.polls(site)) for site in sites.values()}
    await asyncio.gather(*(running.polled(site, count + times) for site, count in counts.items()))


async def changes(running: Running, sites: dict[str, int]) -> dict[str, list[str]]:
    names = {site: name for name, site in sites.items()}
    found: dict[str, list[str]] = {name: [] for name in sites}
    for change in await running.changes():
        found[names[change.site_id]].append(change.summary)
    return found


async def as_the_version_before(url: str, sites: dict[str, int]) -> None:
    """Makes the rows what that version stored."""
    prefix, suffix = ("X'", "'") if url.startswith("sqlite") else ("'\\x", "'")
    for name, site in sites.items():
        fingerprint = f"{prefix}{FINGERPRINTS[name]}{suffix}"
        rows = f"fingerprint = {fingerprint}, reader = NULL, no_text = NULL"
        await query(url, f"UPDATE site_state SET {rows} WHERE site_id = {site}")
        await query(url, f"UPDATE content SET fingerprint = {fingerprint} WHERE site_id = {site}")
    no_feed = sites["rss with a date that is none"]
    await query(url, f"UPDATE site_state SET media = 'text', items = NULL WHERE site_id = {no_feed}")


@pytest.mark.parametrize("since", ["nothing", "a change"])
async def test_forty_kinds_of_page(start: Start, origin: Origin, any_database: str, since: str) -> None:
    served = Served(origin)
    served.serve("before")
    async with start(url=any_database, scheduling=SOON, budget=400.0) as running:
        sites = await served.add(running)
        await asyncio.gather(*(running.polled(site, 1) for site in sites.values()))
    await as_the_version_before(any_database, sites)
    served.conditional = dict.fromkeys(served.conditional, 0)
    served.serve("same" if since == "nothing" else "after")
    async with start(url=any_database, scheduling=SOON, budget=400.0) as running:
        if since == "nothing":
            await polled_again(running, sites, 3)
            assert {name: found for name, found in (await changes(running, sites)).items() if found} == {}
            for kind in KINDS:
                polls = await running.polls(sites[kind.name])
                said = [poll.detail for poll in polls if ANEW in poll.detail]
                assert len(said) == kind.sees_more, f"{kind.name}: {said}"
            read = await query(any_database, "SELECT DISTINCT reader FROM site_state")
            assert read == [(2,)]
            served.serve("after")
        await polled_again(running, sites, 6)
        found = await changes(running, sites)
        assert {name: len(of) for name, of in found.items()} == dict.fromkeys(found, 1), found
        await polled_again(running, sites, 2)
    # The second start after the upgrade, and the change back.
    served.serve("before")
    async with start(url=any_database, scheduling=SOON, budget=400.0) as running:
        await polled_again(running, sites, 6)
        found = await changes(running, sites)
        assert {name: len(of) for name, of in found.items()} == dict.fromkeys(found, 2), found


async def test_the_first_request_is_a_whole_one_and_a_304_before_is_none(
    start: Start, origin: Origin, database: str
) -> None:
    origin.pages["/p"] = Page(body='<p>One</p><img alt="words">', etag='"1"')
    async with start(scheduling=SOON) as running:
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 3)
        assert (await running.polls(site))[2].outcome is OutcomeKind.NOT_MODIFIED
    await query(database, "UPDATE site_state SET reader = NULL")
    seen = len(origin.hits("/p"))
    async with start(scheduling=SOON) as running:
        await polled_again(running, {"p": site}, 2)
        hits = origin.hits("/p")[seen:]
        assert "If-None-Match" not in hits[0].headers
        assert "If-None-Match" in hits[1].headers
        assert await running.changes() == []


async def test_a_server_that_says_304_to_all_is_asked_as_before(start: Start, origin: Origin, database: str) -> None:
    origin.pages["/p"] = Page(etag='"1"')
    async with start(scheduling=SOON) as running:
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 1)
    await query(database, "UPDATE site_state SET reader = NULL")

    async def not_modified(_: web.Request) -> web.Response:
        return web.Response(status=304)

    origin.pages["/p"] = Page(handler=not_modified)
    async with start(scheduling=SOON) as running:
        await polled_again(running, {"p": site}, 3)
        outcomes = [poll.outcome for poll in await running.polls(site)]
        assert OutcomeKind.NOT_MODIFIED in outcomes[-2:]


async def test_values_are_read_anew_and_conditions_do_not_compare_two_readings(
    start: Start, origin: Origin, database: str
) -> None:
    def shop(price: str, heading: str = "Shop") -> Page:
        return Page(body=f'<html lang="en"><body><h1>{heading}</h1><p id="price">{price}</p></body></html>')

    value = {"kind": "price", "from": {"css": "#price"}}
    condition = {"value": "price", "crosses_above": 100}
    settings = check_selections({"default": {"values": {"price": value}, "conditions": condition}})
    origin.pages["/p"] = shop("1.299 €")
    async with start(scheduling=SOON) as running:
        (site,) = await running.add(origin.url("/p"), selections=settings)
        await running.polled(site, 1)
        (state,) = await running.store.history.selection_states(site)
    # As the version before read the price, and sealed the content with it.
    wrong = {"price": StoredReading("1.299", 1.299, None, "EUR")}
    part = SelectionDetection("default", state.version, OutcomeKind.FIRST, state.baseline, readings=wrong)
    bare = replace(state.baseline, fingerprint=fingerprint_of("Shop\n1.299 €".encode(), b""))
    sealed = (resealed(settings, part, bare).fingerprint or b"").hex()
    stored = json.dumps({"price": {"text": "1.299", "number": 1.299, "currency": "EUR"}})
    rows = f"reader = NULL, readings = '{stored}', announced = '{stored}', fingerprint = X'{sealed}'"
    await query(database, f"UPDATE selection_state SET {rows}")
    async with start(scheduling=SOON) as running:
        await polled_again(running, {"p": site}, 3)
        assert await running.changes() == []
        (state,) = await running.store.history.selection_states(site)
        assert (state.readings["price"].text, state.announced["price"].text) == ("1299", "1299")
        origin.pages["/p"] = shop("1.199 €")
        await polled_again(running, {"p": site}, 4)
        (change,) = await running.changes()
        assert (change.matters, "1299 EUR → 1199 EUR" in change.summary) == (False, True)
