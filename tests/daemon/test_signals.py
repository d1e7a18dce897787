"""Signal sources: a daemon, its databases, lists on a loopback server, and an allocator that records calls."""

from __future__ import annotations

import asyncio
import gzip
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from numpy.typing import NDArray

from pollerd.allocation.baselines import Uniform
from pollerd.daemon import signal_reader
from pollerd.errors import DuplicateError, InvalidValueError, TooManyError
from pollerd.storage.signals import ListedDate, SignalSource, SignalSourceSpec
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

YEAR_2100 = 4_102_444_800.0


class Recorder:
    """The calls about signals that reached the allocator."""

    def __init__(self) -> None:
        self.sources: dict[int, set[int]] = {}
        self.polled_as: dict[int, int | None] = {}
        self.signals: list[tuple[int, int, float, float]] = []
        self.fetched: list[tuple[int, float]] = []
        self.removed: list[int] = []


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Records the calls to the allocators of this test's daemons."""
    seen = Recorder()

    def add_source(_: Any, source: int, slots: NDArray[np.int64], *, polled_as: int | None = None) -> None:
        seen.sources[source], seen.polled_as[source] = set(slots.tolist()), polled_as

    def signal(_: Any, slots: NDArray[np.int64], source: int, at: NDArray[np.float64], now: float) -> None:
        assert set(slots.tolist()) <= seen.sources[source], "a source speaks only for slots that it was added with"
        seen.signals += [(source, slot, when, now) for slot, when in zip(slots.tolist(), at.tolist(), strict=True)]

    monkeypatch.setattr(Uniform, "add_source", add_source)
    monkeypatch.setattr(Uniform, "signal", signal)
    monkeypatch.setattr(Uniform, "fetched", lambda _, source, now: seen.fetched.append((source, now)))
    monkeypatch.setattr(Uniform, "remove_source", lambda _, source: seen.removed.append(source))
    return seen


def day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def urlset(entries: Iterable[tuple[str, float | None]]) -> str:
    rows = (
        f"<url><loc>{url}</loc>{'' if at is None else f'<lastmod>{day(at)}</lastmod>'}</url>" for url, at in entries
    )
    return f"<urlset>{''.join(rows)}</urlset>"


class Lists:
    """A list on the origin that a test changes; each version has an ETag of its own."""

    def __init__(self, origin: Origin, path: str = "/map") -> None:
        self.origin, self.path, self._version = origin, path, 0

    def show(self, **dates: float | None) -> None:
        self.say(urlset((self.origin.url(f"/{name}"), at) for name, at in dates.items()))

    def say(self, body: str | bytes, media: str = "application/xml") -> None:
        self._version += 1
        raw, etag = body.encode() if isinstance(body, str) else body, f'"{self._version}"'

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.headers.get("If-None-Match") == etag:
                return web.Response(status=304, headers={"ETag": etag})
            return web.Response(body=raw, content_type=media, headers={"ETag": etag})

        self.origin.pages[self.path] = Page(handler=answer)


@pytest.fixture
def lists(origin: Origin) -> Lists:
    for name in "abc":
        origin.pages[f"/{name}"] = Page(f"page {name}")
    return Lists(origin)


async def follow(running: Running, lists: Lists, kind: Any = "sitemap", **fields: Any) -> SignalSource:
    """Adds the list as a site and as a signal source, and waits until it was read."""
    (site_id,) = await running.add(lists.origin.url(lists.path))
    source = await running.control.signals.add(SignalSourceSpec(kind, site_id, **fields))
    await read_again(running, source.id)
    return await running.store.signals.get(source.id)


async def read_again(running: Running, source_id: int) -> SignalSource:
    """Polls the source's site, and waits until what it says is passed on."""
    before = await running.store.signals.get(source_id)
    assert before.spec.site_id is not None
    polls = len(await running.polls(before.spec.site_id))
    await running.control.sites.poll_now(before.spec.site_id)
    await running.polled(before.spec.site_id, polls + 2)
    return await running.store.signals.get(source_id)


def slot_of(running: Running, site_id: int) -> int:
    slot = running.daemon.parts.scheduler.sites.slot_of(site_id)
    assert slot is not None
    return slot


async def test_a_moved_date_is_a_signal_and_a_first_one_is_not(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    lists.show(a=1e9, b=1e9 + 5, unknown=1e9)
    async with start(url=any_database) as running:
        a, b = await running.add(origin.url("/a"), origin.url("/b"))
        source = await follow(running, lists)
        assert (source.pages, source.signals, recorder.signals) == (2, 0, [])
        assert recorder.sources[source.id] == {slot_of(running, a), slot_of(running, b)}
        assert recorder.polled_as[source.id] == slot_of(running, source.spec.site_id or 0)
        fetched = len(recorder.fetched)
        assert fetched >= 1
        lists.show(a=1.5e9, b=1e9 + 5)
        await until(lambda: len(recorder.signals) > 0)
        ((number, slot, at, now),) = recorder.signals
        assert (number, slot, at) == (source.id, slot_of(running, a), 1.5e9)
        again = await read_again(running, source.id)
        assert (again.signals, len(recorder.signals)) == (1, 1)
        assert again.last_signal_at == now
        # Polls that answer 304 are signs of life, too.
        assert len(recorder.fetched) > fetched
        assert running.metric("pollerd_signals_total", kind="sitemap") == 1
        (said,) = await running.store.signals.of_site(a)
        assert (said.source, said.date, said.signals) == (source.url, 1.5e9, 1)


async def test_dates_of_1970_and_2100_and_whole_regenerations_are_passed_on(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    lists.show(a=1e9, b=1e9)
    async with start() as running:
        a, b = await running.add(origin.url("/a"), origin.url("/b"))
        await follow(running, lists)
        lists.show(a=0.0, b=YEAR_2100)
        await until(lambda: len(recorder.signals) == 2)
        found = {slot: (at, now) for _, slot, at, now in recorder.signals}
        assert found[slot_of(running, a)][0] == 0.0
        assert found[slot_of(running, b)][0] == found[slot_of(running, b)][1]
        recorder.signals.clear()
        lists.show(a=1.6e9, b=1.6e9)  # all alike: a deploy
        await until(lambda: len(recorder.signals) == 2)
        assert {at for _, _, at, _ in recorder.signals} == {1.6e9}


async def test_what_waits_is_passed_on_again_after_a_kill(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    lists.show(a=1e9, b=1e9 + 1)
    async with start(url=any_database, kill=True) as running:
        a, b = await running.add(origin.url("/a"), origin.url("/b"))
        source = await follow(running, lists)
        await running.control.sites.pause(a, True)
        lists.show(a=1.5e9, b=1.5e9 + 1)
        await until(lambda: len(recorder.signals) == 2)
        after = len(await running.polls(b))
        await running.polled(b, after + 2)
        (first,) = [now for _, slot, _, now in recorder.signals if slot == slot_of(running, a)]
    recorder.signals.clear()
    recorder.sources.clear()
    async with start(url=any_database) as running:
        # That of b was used up by its poll, that of a was not.
        (only,) = recorder.signals
        assert only == (source.id, slot_of(running, a), 1.5e9, first)
        fetches = len(recorder.fetched)
        await read_again(running, source.id)
        assert (len(recorder.signals), len(recorder.fetched) > fetches) == (1, True)


async def test_a_list_is_read_though_a_conditional_poll_was_under_way_when_it_became_a_source(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    lists.show(a=1e9)
    answer, asked, go_on = origin.pages[lists.path].handler, asyncio.Event(), asyncio.Event()
    assert answer is not None

    async def answer_late(request: web.Request) -> web.StreamResponse:
        if "If-None-Match" in request.headers and not go_on.is_set():
            asked.set()
            await go_on.wait()
        return await answer(request)

    origin.pages[lists.path] = Page(handler=answer_late)
    async with start() as running:
        await running.add(origin.url("/a"))
        (site_id,) = await running.add(origin.url(lists.path))
        await running.polled(site_id, 1)
        await running.control.sites.poll_now(site_id)
        await asked.wait()
        source = await running.control.signals.add(SignalSourceSpec("sitemap", site_id))
        go_on.set()
        assert (await read_again(running, source.id)).pages == 1


async def test_a_source_speaks_for_its_own_host_only_unless_the_user_says_otherwise(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    foreign = [f"https://other{n}.invalid/{n}" for n in range(50_000)]
    lists.say(urlset([(url, 1e9) for url in foreign]))
    async with start() as running:
        await running.add(foreign[7])
        source = await follow(running, lists)
        assert (source.pages, recorder.sources[source.id]) == (0, set())
        assert "50,000 skipped: of another host" in source.last_detail
        await running.control.signals.delete(source.id)
        assert recorder.removed == [source.id]
        assert source.spec.site_id is not None
        wide = await running.control.signals.add(SignalSourceSpec("sitemap", source.spec.site_id, hosts="any"))
        assert (await read_again(running, wide.id)).pages == 1


@pytest.mark.parametrize(
    ("kind", "first", "then"),
    [
        ("list", '["{}"]', '[{{"url": "{}", "date": "2020-01-01T00:00:00Z"}}]'),
        ("list", "{}\n", "# now\n{} 2020-01-01\n"),
        ("feed", '{{"version": "https://jsonfeed.org/version/1", "items": []}}', None),
        ("links", "<a href='/b'>b</a>", "<a href='/b'>b</a><a href='{}'>new</a>"),
    ],
)
async def test_other_kinds(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder, kind: str, first: str, then: str | None
) -> None:
    url = origin.url("/a")
    item = f'{{"id": "1", "url": "{url}", "date_modified": "2040-01-01T00:00:00Z"}}'
    feed = f'{{"version": "https://jsonfeed.org/version/1", "items": [{item}]}}'
    lists.say(first.format(url), "text/html" if kind == "links" else "text/plain")
    async with start() as running:
        (a,) = await running.add(url)
        await running.polled(a, 1)
        await follow(running, lists, kind)
        assert recorder.signals == []
        lists.say(feed if then is None else then.format(url), "text/html" if kind == "links" else "text/plain")
        await until(lambda: len(recorder.signals) > 0)
        (_, slot, at, now) = recorder.signals[0]
        assert slot == slot_of(running, a)
        expected = {"list": 1_577_836_800.0, "feed": now}.get(kind)
        assert math.isnan(at) if expected is None else at == expected


async def test_a_large_gzipped_sitemap_that_is_none_says_nothing(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    bomb = gzip.compress(b"<urlset>" + b" " * 60_000_000)
    lists.say(bomb, "application/gzip")
    async with start() as running:
        await running.add(origin.url("/a"))
        (site_id,) = await running.add(origin.url(lists.path))
        await running.control.signals.add(SignalSourceSpec("sitemap", site_id))
        await until(lambda: running.metric("pollerd_signal_reads_total", result="failed") >= 1)
        assert (recorder.signals, recorder.fetched) == ([], [])
        lists.show(a=1e9)
        await until(lambda: len(recorder.fetched) > 0)


async def test_reports_are_evidence_and_coalesced(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    async with start(url=any_database) as running:
        (a,) = await running.add(origin.url("/a"))
        await running.polled(a, 1)
        await running.control.sites.pause(a, True)
        source = await running.control.signals.add(SignalSourceSpec("push", name="cms", hosts="any"))
        url, other = origin.url("/a"), origin.url("/none")
        control = running.control.signals
        assert await control.report("cms", [ListedDate(url), ListedDate(url), ListedDate(other)]) == (1, 2)
        assert await control.report("cms", [ListedDate(url)]) == (0, 1)
        assert await control.report("cms", [ListedDate(url, 1.5e9)]) == (1, 0)
        assert await control.report("cms", [ListedDate(url, 1.5e9)]) == (0, 1)
        assert [(slot, math.isnan(at) or at) for _, slot, at, _ in recorder.signals] == [
            (slot_of(running, a), True),
            (slot_of(running, a), 1.5e9),
        ]
        assert len(recorder.fetched) == 4
        assert (await running.store.signals.get(source.id)).signals == 2
        with pytest.raises(InvalidValueError, match="source: must be the name of a signal source"):
            await control.report("other", [ListedDate(url)])
        with pytest.raises(DuplicateError):
            await control.add(SignalSourceSpec("push", name="cms", hosts="any"))


async def test_a_flood_of_reports_is_refused_before_it_is_looked_up(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    async with start() as running:
        await running.control.signals.add(SignalSourceSpec("push", name="cms", hosts="any"))
        many = [ListedDate(f"https://a.invalid/{n}") for n in range(10_000)]
        taken = 0
        refused: TooManyError | None = None
        while refused is None and taken < 100:
            try:
                await running.control.signals.report("cms", many)
                taken += 1
            except TooManyError as error:
                refused = error
        assert 5 <= taken < 100
        assert refused is not None
        assert 0 < refused.seconds <= 20
        assert running.metric("pollerd_signal_reports_refused_total") == 1


async def test_a_new_allocator_knows_the_sources_and_what_waits(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    lists.show(a=1e9)
    async with start() as running:
        (a,) = await running.add(origin.url("/a"))
        source = await follow(running, lists)
        await running.control.sites.pause(a, True)
        lists.show(a=1.5e9)
        await until(lambda: len(recorder.signals) == 1)
        recorder.sources.clear()
        await running.control.allocation.set(allocator="proportional")
        await running.control.allocation.set(allocator="uniform")
        await read_again(running, source.id)
        assert recorder.sources[source.id] == {slot_of(running, a)}
        assert [at for _, _, at, _ in recorder.signals] == [1.5e9, 1.5e9]


async def test_a_signal_waits_on_after_a_poll_that_failed(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    async with start(url=any_database) as running:
        (a,) = await running.add(origin.url("/a"))
        await running.polled(a, 1)
        await running.control.sites.pause(a, True)
        await running.control.signals.add(SignalSourceSpec("push", name="cms", hosts="any"))
        await running.control.signals.report("cms", [ListedDate(origin.url("/a"), 1.5e9)])
        origin.pages["/a"] = Page("", status=500)
        await running.control.sites.pause(a, False)
        await until(lambda: running.metric("pollerd_polls_total", outcome="server_error") >= 1)
        await running.control.sites.pause(a, True)
    recorder.signals.clear()
    async with start(url=any_database):
        assert [at for _, _, at, _ in recorder.signals] == [1.5e9]


@pytest.mark.parametrize("kind", ["sitemap", "list"])
async def test_a_source_no_longer_speaks_for_a_page_that_left_its_list(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder, kind: str
) -> None:
    def show(*names: str) -> None:
        if kind == "sitemap":
            lists.show(**dict.fromkeys(names, 1e9))
        else:
            lists.say("".join(f"{origin.url(f'/{name}')} 2020-01-01\n" for name in names), "text/plain")

    show("a", "b")
    async with start(url=any_database) as running:
        a, b = await running.add(origin.url("/a"), origin.url("/b"))
        source = await follow(running, lists, kind)
        assert recorder.sources[source.id] == {slot_of(running, a), slot_of(running, b)}
        show("a")
        await until(lambda: recorder.sources[source.id] == {slot_of(running, a)})
        assert [one.site_id for one in await running.store.signals.said(source.id)] == [a]
        show("a", "b")
        await until(lambda: recorder.sources[source.id] == {slot_of(running, a), slot_of(running, b)})


async def test_a_page_that_fell_out_of_a_feed_is_still_spoken_for(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    def show(*names: str) -> None:
        items = ", ".join(f'{{"id": "{name}", "url": "{origin.url(f"/{name}")}"}}' for name in names)
        lists.say(f'{{"version": "https://jsonfeed.org/version/1", "items": [{items}]}}', "application/json")

    show("a", "b")
    async with start() as running:
        sites = await running.add(origin.url("/a"), origin.url("/b"))
        source = await follow(running, lists, "feed")
        show("b", "c")
        (c,) = await running.add(origin.url("/c"))
        await until(lambda: slot_of(running, c) in recorder.sources[source.id])
        assert recorder.sources[source.id] == {slot_of(running, one) for one in (*sites, c)}


async def test_a_source_does_not_speak_for_the_site_that_took_a_removed_ones_slot(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    lists.show(a=1e9, b=1e9 + 5)
    async with start() as running:
        a, b = await running.add(origin.url("/a"), origin.url("/b"))
        source = await follow(running, lists)
        slot = slot_of(running, a)
        await running.control.sites.delete(a)
        other, c = await running.add(origin.url("/other"), origin.url("/c"))
        assert slot_of(running, other) == slot
        lists.show(b=1e9 + 5, c=1e9 + 6)
        await until(lambda: slot_of(running, c) in recorder.sources[source.id])
        assert recorder.sources[source.id] == {slot_of(running, b), slot_of(running, c)}


async def test_what_was_learned_of_a_source_outlives_a_restart(origin: Origin, lists: Lists, start: Start) -> None:
    lists.show(a=1e9, b=1e9)
    async with start(allocator="whittle") as running:
        a, _ = await running.add(origin.url("/a"), origin.url("/b"))
        source = await follow(running, lists)
        origin.pages["/a"] = Page("another page a")
        lists.show(a=1e9 + 1, b=1e9)
        await read_again(running, source.id)
        await running.polled(a, len(await running.polls(a)) + 2)
        before = running.control.signals.quality(source.id)
    assert before is not None
    assert before.polls > 0
    async with start(allocator="whittle") as running:
        after = running.control.signals.quality(source.id)
    assert after is not None
    assert after.polls > 0.9 * before.polls


LONG = 2_000
"""URLs of a list that is read beside other polls."""


class Held:
    """Holds back what is stored of lists, until it is let go."""

    def __init__(self, running: Running) -> None:
        self.waiting, self._go = 0, asyncio.Event()
        note = running.store.signals.note

        async def late(*given: Any, **more: Any) -> Any:
            self.waiting += 1
            await self._go.wait()
            return await note(*given, **more)

        running.store.signals.note = late  # type: ignore[assignment]

    def let_go(self) -> None:
        self._go.set()


async def begin_long(running: Running, lists: Lists) -> tuple[SignalSource, Held]:
    """Adds a source whose list is long, and waits until it is being read."""
    held = Held(running)
    (site_id,) = await running.add(lists.origin.url(lists.path))
    source = await running.control.signals.add(SignalSourceSpec("sitemap", site_id))
    await until(lambda: held.waiting > 0)
    return source, held


def say_long(lists: Lists, at: float) -> None:
    lists.say(urlset([(lists.origin.url("/a"), at), *((lists.origin.url(f"/n{n}"), 1e9) for n in range(LONG))]))


async def test_other_polls_are_committed_while_a_long_list_is_read(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    say_long(lists, 1e9)
    async with start(url=any_database) as running:
        (a,) = await running.add(origin.url("/a"))
        source, held = await begin_long(running, lists)
        site_id = source.spec.site_id or 0
        before = len(await running.polls(a))
        await running.polled(a, before + 3)
        assert (await running.polls(site_id), recorder.fetched) == ([], [])
        held.let_go()
        await running.polled(site_id, 2)
        assert (await running.store.signals.get(source.id)).pages == 1
        say_long(lists, 1.5e9)
        await until(lambda: len(recorder.signals) == 1)


async def test_a_reading_in_pieces_is_one_reading_as_of_its_poll(
    origin: Origin,
    lists: Lists,
    start: Start,
    any_database: str,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal_reader, "PIECE", 1)
    lists.show(a=1e9, b=1e9, c=1e9)
    async with start(url=any_database) as running:
        await running.add(origin.url("/a"), origin.url("/b"), origin.url("/c"))
        source = await follow(running, lists)
        lists.show(a=1.5e9, b=1.5e9, c=1.5e9)
        await until(lambda: len(recorder.signals) == 3)
        await read_again(running, source.id)
        assert len({now for *_, now in recorder.signals}) == 1
        polls = {poll.at for poll in await running.polls(source.spec.site_id or 0)}
        times = [at for _, at in recorder.fetched]
        assert len(set(times)) == len(times)
        assert set(times) <= polls


async def test_a_poll_whose_long_list_is_not_stored_is_repeated_after_a_kill(
    origin: Origin, lists: Lists, start: Start, any_database: str, recorder: Recorder
) -> None:
    say_long(lists, 1e9)
    async with start(url=any_database, kill=True) as running:
        await running.add(origin.url("/a"))
        source, _ = await begin_long(running, lists)
    assert recorder.fetched == []
    async with start(url=any_database) as running:
        await running.polled(source.spec.site_id or 0, 1)
        assert (await running.store.signals.get(source.id)).pages == 1


async def test_a_daemon_that_stops_waits_for_the_list(
    origin: Origin, lists: Lists, start: Start, any_database: str
) -> None:
    say_long(lists, 1e9)
    async with start(url=any_database) as running:
        await running.add(origin.url("/a"))
        source, held = await begin_long(running, lists)
        running.daemon.stop()
        await asyncio.sleep(0.2)
        assert not running.task.done()
        held.let_go()
        await running.task
        assert len(await running.polls(source.spec.site_id or 0)) == 1
        assert (await running.store.signals.get(source.id)).pages == 1


async def test_a_list_under_another_url_meanwhile_is_not_committed(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    say_long(lists, 1e9)
    async with start() as running:
        source, held = await begin_long(running, lists)
        site_id = source.spec.site_id or 0
        origin.pages["/other"] = Page("<urlset/>")
        await running.control.sites.update(site_id, {"url": origin.url("/other")})
        held.let_go()
        found = await running.polled(site_id, 1)
        assert {poll.bytes for poll in found} == {len("<urlset/>")}


async def test_a_fault_while_a_list_is_read_ends_the_daemon(
    origin: Origin, lists: Lists, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    async def until_it_ends() -> None:
        async with start() as running:
            monkeypatch.setattr(running.store.signals, "note", broken)
            (site_id,) = await running.add(lists.origin.url(lists.path))
            await running.control.signals.add(SignalSourceSpec("sitemap", site_id))
            await asyncio.wait([running.task])

    say_long(lists, 1e9)
    with pytest.raises(ExceptionGroup) as caught:
        await until_it_ends()
    assert caught.value.subgroup(RuntimeError) is not None


async def test_a_sitemap_of_50_mb_is_read_to_its_limits_beside_other_polls(
    origin: Origin, lists: Lists, start: Start, recorder: Recorder
) -> None:
    """Gzipped, as it must be to pass the limit of a body; of 60,000 entries the first 50,000 of 50 MiB count."""
    filler = "x" * 900
    urls = [origin.url("/a"), *(origin.url(f"/{n}?{filler}") for n in range(60_000))]
    document = urlset((url, 1e9) for url in urls).encode()
    assert len(document) > 55_000_000
    lists.say(gzip.compress(document, 1), "application/gzip")
    async with start() as running:
        (a,) = await running.add(origin.url("/a"))
        (site_id,) = await running.add(origin.url(lists.path))
        source = await running.control.signals.add(SignalSourceSpec("sitemap", site_id))
        await running.polled(site_id, 1, seconds=120.0)
        read = await running.store.signals.get(source.id)
        assert read.pages == 1
        assert recorder.sources[source.id] == {slot_of(running, a)}
        (of_urls,) = [int(word.replace(",", "")) for word in read.last_detail.split() if word[0].isdigit()][1:2]
        assert 40_000 < of_urls <= 50_000
        # Cut off: what it does not name it may name beyond the limits, so it still speaks for it.
        lists.say(gzip.compress(document[: -len("</urlset>")].replace(b"/a</loc>", b"/b</loc>"), 1), "application/gzip")
        await read_again(running, source.id)
        assert {one.site_id for one in await running.store.signals.said(source.id)} == {a}
