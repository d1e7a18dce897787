"""Sitemaps of an index that is a signal source: they become sites and signal sources, and go when they leave it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pollerd.daemon.signal_reader import MAX_CHILDREN
from pollerd.storage.signals import SignalOrigin, SignalSource, SignalSourceSpec
from tests.daemon.conftest import Running, Start
from tests.daemon.test_signals import Lists, Recorder, lists, read_again, recorder, slot_of, urlset
from tests.lists.test_listed_sources import take
from tests.support.origin import Origin, Page, until

__all__ = ["lists", "recorder"]


def index(*urls: str) -> str:
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in urls)}</sitemapindex>"


async def begin(running: Running, lists: Lists) -> SignalSource:
    (site_id,) = await running.add(lists.origin.url(lists.path))
    return await running.control.signals.add(SignalSourceSpec("sitemap", site_id))


async def children(running: Running, wanted: set[str]) -> dict[str, SignalSource]:
    """The sitemaps that an index made signal sources, once they are these."""
    found: dict[str, SignalSource] = {}
    for _ in range(1_000):
        found = {one.key: one for one in await running.store.signals.all() if one.index_id is not None}
        if found.keys() == wanted:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"{sorted(found)} instead of {sorted(wanted)}")


async def urls_of(running: Running) -> set[str]:
    return {site.spec.url async for site in running.store.sites.iterate()}


async def test_sitemaps_of_an_index_come_and_go(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    one, two, three = (origin.url(f"/map{n}") for n in (1, 2, 3))
    page = origin.url("/a")
    origin.pages["/map1"] = Page(urlset([(page, 1e9)]), headers={"Content-Type": "application/xml"})
    lists.say(index(one, two))
    async with start(url=any_database) as running:
        (a, mine) = await running.add(page, two)
        source = await begin(running, lists)
        made = await children(running, {one, two})
        assert {(c.spec.kind, c.spec.hosts, c.origin, c.index_id) for c in made.values()} == {
            ("sitemap", "same", SignalOrigin.INDEX, source.id)
        }
        assert (made[one].made_site, made[two].made_site, made[two].spec.site_id) == (True, False, mine)
        # They are read like others, and what they list is signalled.
        await until(lambda: slot_of(running, a) in recorder.sources.get(made[one].id, set()))
        origin.pages["/map1"] = Page(urlset([(page, 1.5e9)]), headers={"Content-Type": "application/xml"})
        await until(lambda: len(recorder.signals) > 0)
        # One that leaves is none any more, and its site goes if it was made for that.
        lists.say(index(three))
        await read_again(running, source.id)
        await children(running, {three})
        assert await urls_of(running) == {page, two, three, origin.url(lists.path)}
        # An index that is cut off says nothing of what is missing.
        lists.say(index(one)[:-10])
        await read_again(running, source.id)
        await children(running, {one, three})
        await running.control.signals.delete(source.id)
        await children(running, set())
        assert await urls_of(running) == {page, two, origin.url(lists.path)}


async def test_other_hosts_and_indexes_within_are_left_out(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    here, foreign, deep = origin.url("/map1"), origin.url("/map2", 5), origin.url("/deep")
    origin.pages["/map1"] = Page(index(deep), headers={"Content-Type": "application/xml"})
    lists.say(index(here, foreign))
    async with start() as running:
        source = await begin(running, lists)
        made = await children(running, {here})
        await running.polled(made[here].spec.site_id or 0, 2)
        assert await urls_of(running) == {origin.url(lists.path), here}
        await running.control.signals.delete(source.id)
        await children(running, set())
        again = SignalSourceSpec("sitemap", source.spec.site_id, hosts="any")
        await running.control.signals.add(again)
        assert {one.spec.hosts for one in (await children(running, {here, foreign})).values()} == {"any"}


async def test_no_more_than_some_hundred_become_sites(origin: Origin, lists: Lists, start: Start) -> None:
    many = [origin.url(f"/m{n}") for n in range(MAX_CHILDREN + 20)]
    lists.say(index(*many))
    async with start(budget=1.0) as running:
        await begin(running, lists)
        await children(running, set(many[:MAX_CHILDREN]))


async def test_what_a_user_deleted_does_not_come_back_and_a_synced_list_removes_no_sitemaps(
    origin: Origin, lists: Lists, start: Start, tmp_path: Path
) -> None:
    one, two = origin.url("/map1"), origin.url("/map2")
    lists.say(index(one, two))
    async with start() as running:
        source = await begin(running, lists)
        made = await children(running, {one, two})
        await running.control.sites.delete(made[one].spec.site_id or 0)
        await children(running, {two})
        lists.say(index(two, one))
        await read_again(running, source.id)
        await take(running, tmp_path / "x.yaml", f"sites: ['{origin.url(lists.path)}']", sync=True)
        await children(running, {two})
        assert await urls_of(running) == {origin.url(lists.path), two}
        # One that the list names is the list's, and stays when it leaves the index.
        named = f"signal_sources: ['{origin.url(lists.path)}', '{two}']"
        await take(running, tmp_path / "x.yaml", named, sync=True)
        await children(running, set())
        lists.say(index(origin.url("/map3")))
        await read_again(running, source.id)
        await children(running, {origin.url("/map3")})
        assert two in await urls_of(running)


async def test_sitemaps_of_an_index_whose_site_is_gone_go_with_the_next_start(
    origin: Origin, lists: Lists, start: Start, any_database: str
) -> None:
    one = origin.url("/map1")
    lists.say(index(one))
    async with start(url=any_database) as running:
        source = await begin(running, lists)
        await children(running, {one})
        await running.control.sites.delete(source.spec.site_id or 0)
    async with start(url=any_database) as running:
        await children(running, set())
        assert await urls_of(running) == set()
