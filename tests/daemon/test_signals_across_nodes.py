"""Several nodes: what one is told or reads of pages is passed to the allocator of the node that polls them, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.baselines import Uniform
from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.daemon.settings import SignalSettings
from pollerd.storage.signals import ListedDate, SignalSourceSpec
from tests.api.conftest import listening, served_at
from tests.daemon.conftest import Running
from tests.daemon.test_hubs import atom, entry, offer
from tests.daemon.test_nodes import add_pages, node, shared_out, sites_of
from tests.daemon.test_signals import urlset
from tests.support.hub import Hub
from tests.support.origin import Origin, Page, until
from tests.support.postgres import postgres_database

Signalled = tuple[int, int, float]


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


class NodeRecorder:
    """The signals that each allocator got: (source, slot, when it was news)."""

    def __init__(self) -> None:
        self._of: defaultdict[int, list[Signalled]] = defaultdict(list)
        self.sources: defaultdict[int, dict[int, set[int]]] = defaultdict(dict)

    def note(self, allocator: Uniform, slots: NDArray[np.int64], source: int, now: float) -> None:
        assert set(slots.tolist()) <= self.sources[id(allocator)][source]
        self._of[id(allocator)] += [(source, slot, now) for slot in slots.tolist()]

    def sites(self, running: Running) -> list[int]:
        """The sites of the signals that this node's allocator got, in order."""
        table = running.daemon.parts.scheduler.sites
        got = self._of[id(running.daemon.parts.scheduler.allocator)]
        assert len(set(got)) == len(got), "a signal is passed on once"
        return [int(table.site_id[slot]) for _, slot, _ in got]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> NodeRecorder:
    seen = NodeRecorder()

    def add_source(of: Uniform, source: int, slots: NDArray[np.int64], *, polled_as: int | None = None) -> None:
        seen.sources[id(of)][source] = set(slots.tolist())

    def signal(of: Uniform, slots: NDArray[np.int64], source: int, at: NDArray[np.float64], now: float) -> None:
        seen.note(of, slots, source, now)

    monkeypatch.setattr(Uniform, "add_source", add_source)
    monkeypatch.setattr(Uniform, "signal", signal)
    monkeypatch.setattr(
        Uniform, "remove_source", lambda of, source: seen.sources[id(of)].pop(source, None), raising=True
    )
    return seen


async def pause(a: Running, b: Running, ids: Collection[int]) -> None:
    """Polls the pages no more: else their polls use signals up."""
    for site_id in ids:
        await a.control.sites.pause(site_id, True)
    await until(lambda: all(n.daemon.parts.scheduler.is_paused(i) for n in (a, b) for i in sites_of(n) & set(ids)))


async def pages_of_both(a: Running, b: Running, origin: Origin) -> dict[int, str]:
    """Adds pages of which both nodes poll some; returns their URLs by id."""
    ids = await add_pages(a, origin)
    await shared_out(ids, a, b)
    return {site_id: (await a.site(site_id)).spec.url for site_id in ids}


async def test_a_report_reaches_the_node_that_polls_the_page(
    database: str, origin: Origin, recorder: NodeRecorder
) -> None:
    async with node("a", database) as a, node("b", database) as b:
        urls = await pages_of_both(a, b, origin)
        await pause(a, b, urls.keys())
        source = await a.control.signals.add(SignalSourceSpec("push", name="cms", hosts="any"))
        await until(lambda: b.daemon.parts.signals.knows(source.id))
        reports = [ListedDate(url, 1.5e9) for url in urls.values()]
        assert await a.control.signals.report("cms", reports) == (len(urls), 0)
        await until(lambda: set(recorder.sites(b)) == sites_of(b))
        assert set(recorder.sites(a)) == sites_of(a)
        assert await b.control.signals.report("cms", reports) == (0, len(urls))
        assert await b.control.signals.report("cms", [ListedDate(url, 1.6e9) for url in urls.values()]) == (
            len(urls),
            0,
        )
        await until(lambda: len(recorder.sites(a)) == 2 * len(sites_of(a)))
        assert len(recorder.sites(b)) == 2 * len(sites_of(b))
        await b.control.signals.delete(source.id)
        await until(lambda: not a.daemon.parts.signals.knows(source.id))


async def test_a_list_is_read_by_one_node_and_passed_on_by_all(
    database: str, origin: Origin, recorder: NodeRecorder
) -> None:
    async with node("a", database) as a, node("b", database) as b:
        urls = await pages_of_both(a, b, origin)
        origin.pages["/map"] = Page(urlset((url, 1e9) for url in urls.values()))
        (site_id,) = await a.add(origin.url("/map", host="127.0.9.9"))
        source = await a.control.signals.add(SignalSourceSpec("sitemap", site_id, hosts="any"))
        await until(lambda: all(_speaks_for(recorder, n, source.id) == len(sites_of(n) - {site_id}) for n in (a, b)))
        await pause(a, b, urls.keys())
        before = {n: len(recorder.sites(n)) for n in (a, b)}
        origin.pages["/map"] = Page(urlset((url, 1.5e9) for url in urls.values()))
        for n in (a, b):
            wanted = sites_of(n) - {site_id}
            await until(lambda n=n, wanted=wanted: set(recorder.sites(n)[before[n] :]) >= wanted)  # type: ignore[misc]


async def test_one_node_asks_a_hub_and_any_of_them_takes_what_it_sends(
    database: str, origin: Origin, recorder: NodeRecorder
) -> None:
    with listening() as listener:
        settings = SignalSettings(callback_url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        more = {"signals": settings, "secret_key": "q" * 43 + "="}
        async with Hub() as hub, node("a", database, **more) as a, node("b", database, **more) as b:  # type: ignore[arg-type]
            app = create_api(b.control, b.store, b.registry, ApiSettings(), "test")
            async with served_at(app, listener):
                urls = await pages_of_both(a, b, origin)
                offer(origin, hub.url(), *(entry(url, 1e9) for url in urls.values()))
                (feed,) = await a.add(origin.url("/feed", host="127.0.9.9"))
                source = await a.control.signals.add(SignalSourceSpec("feed", feed, hosts="any"))
                await until(lambda: len(hub.verified) == 1)
                await until(
                    lambda: all(_speaks_for(recorder, n, source.id) == len(sites_of(n) - {feed}) for n in (a, b))
                )
                await pause(a, b, urls.keys() | {feed})
                before = {n: len(recorder.sites(n)) for n in (a, b)}
                assert (await hub.publish(atom(*(entry(url, 1.5e9) for url in urls.values())))).status == 202
                for n in (a, b):
                    wanted = sites_of(n) - {feed}
                    await until(lambda n=n, wanted=wanted: set(recorder.sites(n)[before[n] :]) >= wanted)  # type: ignore[misc]
                assert hub.modes() == ["subscribe"]
                await a.control.signals.delete(source.id)
                await until(lambda: hub.modes() == ["subscribe", "unsubscribe"])


def _speaks_for(recorder: NodeRecorder, running: Running, source_id: int) -> int:
    found: dict[int, Any] = recorder.sources[id(running.daemon.parts.scheduler.allocator)]
    return len(found.get(source_id, ()))
