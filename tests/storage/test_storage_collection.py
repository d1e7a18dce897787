"""The focused crawler's collection: the frontier, sites on trial, what polls find of pages, on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import event
from sqlalchemy.engine import Engine, make_url

from pollerd.errors import ConfigError
from pollerd.model import PageState
from pollerd.site_settings import SiteSpec
from pollerd.storage.crawler import collection
from pollerd.storage.crawler.collection import StoredPage
from pollerd.storage.page_values import CrawlUpdate, OutLinkDraft, PageRecord, PageRow, Trial
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import record

SEED = "http://a/"


def by_anchor(row: PageRow) -> float:
    """Value: the mean score of links' texts."""
    return row.anchor_sum / max(row.anchors, 1)


async def value(store: Store, rows: Sequence[PageRow], of: Callable[[PageRow], float] = by_anchor) -> None:
    """Values pages of the frontier."""
    await store.frontier.write_values([(row, of(row)) for row in rows if row.value is not None])


async def promote(store: Store, most: int = 10, per_host: int = 1, pages_per_host: int = 100) -> list[Trial]:
    return await store.frontier.promote(most, per_host, pages_per_host, 0.5, 2.0)


async def begin(store: Store) -> Trial:
    """A collection whose seed is on trial."""
    await store.frontier.begin("hats", 1.0)
    assert await store.frontier.add_seeds([SEED, SEED], 1.0) == 1
    (trial,) = await promote(store)
    return trial


async def answer(store: Store, trial: Trial, out_links: dict[str, float], at: float = 10.0, **page: Any) -> Batch:
    """Commits the answer of a page on trial: collected, unless `page` says otherwise."""
    values = {"state": PageState.COLLECTED, "relevance": 0.8, "weight": 0.8, "on_trial": True, **page}
    drafts = tuple(OutLinkDraft(url, score) for url, score in out_links.items())
    kept = PageRecord(page_id=trial.page_id, depth=trial.depth, out_links=drafts, **values)
    context = (await store.sites.contexts([trial.site_id]))[trial.site_id]
    batch = Batch([replace(record(context, at), page=kept)], findings=CrawlUpdate(1))
    committed = await store.commit(batch)
    await value(store, await store.frontier.link_context.around(committed.stale_pages))
    return batch


async def pages_of(store: Store) -> dict[str, StoredPage]:
    return {page.url: page async for page in store.collection.iter_pages()}


async def test_a_seed_becomes_a_site_on_trial(store: Store) -> None:
    trial = await begin(store)
    assert (trial.url, trial.host, trial.state, trial.own, trial.depth) == (SEED, "a:80", PageState.ASKED, True, 0)
    assert (await store.sites.get(trial.site_id)).spec == SiteSpec(SEED, weight=0.5)
    assert await promote(store) == []
    assert [held.page_id async for held in store.frontier.held()] == [trial.page_id]


async def test_the_newest_urls_are_read_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "PIECE", 2)
    urls = [f"http://a/{n}" for n in range(5)]
    await store.frontier.begin("hats", 1.0)
    assert [piece async for piece in store.collection.newest_urls(3)] == []
    await store.frontier.add_seeds(urls, 1.0)
    assert [piece async for piece in store.collection.newest_urls(3)] == [urls[2:4], urls[4:]]
    assert [piece async for piece in store.collection.newest_urls(5)] == [urls[:2], urls[2:4], urls[4:]]
    assert [url async for piece in store.collection.newest_urls(100) for url in piece] == urls


async def test_a_database_holds_one_topic(store: Store) -> None:
    await begin(store)
    assert (await store.frontier.begin("hats", 5.0)).requests == 0
    with pytest.raises(ConfigError, match=r"topic: .*'hats', not on 'shoes'"):
        await store.frontier.begin("shoes", 5.0)


async def test_what_a_page_leads_to_is_the_fringe_best_first(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {"http://a/1": 0.2, "http://a/2": 0.6, "http://b/": 0.4})
    found = await pages_of(store)
    assert (found[SEED].state, found[SEED].relevance, found[SEED].worth) == (PageState.COLLECTED, 0.8, None)
    child = found["http://a/2"]
    assert (child.state, child.depth, child.parent_id, child.worth) == (PageState.FRONTIER, 1, seed.page_id, 0.6)
    assert [page.url for page in await promote(store)] == ["http://a/2", "http://b/"]
    assert await promote(store) == []
    assert [page.url for page in await promote(store, per_host=2)] == ["http://a/1"]
    links = [link async for link in store.collection.iter_links()]
    assert links == [(seed.page_id, found[url].id, score) for url, score in
                     [("http://a/1", 0.2), ("http://a/2", 0.6), ("http://b/", 0.4)]]  # fmt: skip
    assert (await store.sites.get(seed.site_id)).spec.weight == 0.8


async def test_no_more_pages_of_a_host_than_its_share(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {f"http://a/{n}": 0.5 for n in range(5)})
    (second,) = await promote(store, pages_per_host=2, per_host=4)
    assert await promote(store, pages_per_host=2, per_host=4) == []
    await answer(store, second, {})
    assert await promote(store, pages_per_host=2, per_host=4) == []
    assert len(await promote(store, pages_per_host=3, per_host=4)) == 1


async def test_a_rejected_page_leaves_no_site_and_is_never_asked_again(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {}, state=PageState.REJECTED, reason="irrelevant", weight=None, ended=True)
    assert await store.sites.count() == 0
    found = (await pages_of(store))[SEED]
    assert (found.state, found.reason, found.site_id) == (PageState.REJECTED, "irrelevant", None)
    assert await store.frontier.add_seeds([SEED], 20.0) == 0
    assert await promote(store) == []
    status = await store.collection.status()
    assert status is not None
    assert (status.requests, status.enrolled, status.mean_relevance) == (1, 0, 0.0)
    assert status.pages[PageState.REJECTED] == 1


async def test_a_batch_that_is_repeated_counts_once(store: Store) -> None:
    seed = await begin(store)
    batch = await answer(store, seed, {"http://b/": 0.4})
    await store.commit(batch)
    status = await store.collection.status()
    assert status is not None
    assert (status.requests, status.enrolled, sum(status.pages.values())) == (1, 1, 2)


async def test_more_links_to_a_page_make_it_worth_another(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {"http://b/": 0.2, "http://c/": 0.6, "http://d/": 0.0})
    (best,) = await promote(store, most=1)
    await answer(store, best, {"http://b/": 0.6, "http://d/": 0.5, SEED: 0.1})
    value = {url: page.worth for url, page in (await pages_of(store)).items() if page.worth is not None}
    assert value == {"http://b/": pytest.approx(0.4), "http://d/": 0.5}
    around = {trial.url: trial.around for trial in await promote(store)}
    assert around["http://b/"].parents == 2
    assert around["http://b/"].parents_sum == pytest.approx(1.6)
    assert (around["http://d/"].child_count, around["http://d/"].children_retrieved) == (3, 1)


async def test_links_that_are_no_more_go(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {"http://b/": 0.2, "http://c/": 0.6})
    await answer(store, seed, {"http://c/": 0.6, "http://e/": 0.3}, at=20.0, on_trial=False)
    ids = {page.id: url for url, page in (await pages_of(store)).items()}
    assert [ids[target] async for _, target, _ in store.collection.iter_links()] == ["http://c/", "http://e/"]
    around = {trial.url: trial.around for trial in await promote(store)}
    assert around["http://b/"].parents == 0


async def test_what_changed_on_a_page_reaches_those_it_links_to(store: Store) -> None:
    """Its relevance and its links' texts count as they are, the best of the parents' among those that are left."""
    seed = await begin(store)
    await answer(store, seed, {"http://b/": 0.2, "http://c/": 0.6})
    (other,) = await promote(store, most=1)
    await answer(store, other, {"http://b/": 0.4}, relevance=0.5, weight=0.5)
    await answer(store, seed, {"http://b/": 0.0}, at=20.0, on_trial=False, relevance=0.3, weight=0.3)
    around = {trial.url: trial.around for trial in await promote(store)}["http://b/"]
    assert around.parents_sum == pytest.approx(0.8)
    assert (around.parents_best, around.parents) == (0.5, 2)
    assert around.anchors == 1
    assert around.anchor_sum == pytest.approx(0.4)
    links = [link async for link in store.collection.iter_links()]
    assert links == [(seed.page_id, links[0][1], 0.0), (other.page_id, links[0][1], 0.4)]


async def test_under_other_words_what_is_held_is_unread_until_it_is_seen(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {"http://b/": 0.6, "http://c/": 0.2})
    (best,) = await promote(store, most=1)
    await answer(store, best, {}, relevance=0.5, weight=0.5)
    assert [trial.unread async for trial in store.frontier.held()] == [False, False]
    await store.frontier.begin("hats", 50.0, "others")
    assert [trial.unread async for trial in store.frontier.held()] == [True, True]
    await answer(store, seed, {"http://b/": 0.6, "http://c/": 0.2}, at=60.0, on_trial=False)
    await store.frontier.begin("hats", 70.0, "others")
    assert {trial.url: trial.unread async for trial in store.frontier.held()} == {SEED: False, "http://b/": True}
    (next_one,) = await promote(store, most=1)
    assert (next_one.around.child_count, next_one.around.children_retrieved) == (2, 0)


async def test_what_was_learned_reaches_the_next_pages_first_and_all_in_turn(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {"http://b/1": 0.6, "http://b/2": 0.2, "http://c/": 0.4})

    async def sweep(after: int) -> int:
        rows, left = await store.frontier.sweep(after)
        await value(store, rows, lambda row: 1.0 - by_anchor(row))
        return left

    def values(pages: dict[str, StoredPage]) -> dict[str, float]:
        return {url: round(page.worth, 9) for url, page in pages.items() if page.worth is not None}

    assert await sweep(1_000) == 0
    assert values(await pages_of(store)) == {"http://b/1": 0.4, "http://b/2": 0.2, "http://c/": 0.6}
    assert await sweep(0) == 0
    assert values(await pages_of(store)) == {"http://b/1": 0.4, "http://b/2": 0.8, "http://c/": 0.6}
    assert [trial.url for trial in await promote(store)] == ["http://b/2", "http://c/"]


async def test_pages_that_make_room_lose_their_sites(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {"http://b/": 0.4})
    findings = CrawlUpdate(1, dropped=((seed.page_id, seed.site_id),), learned=b"known")
    await store.commit(Batch(findings=findings))
    assert await store.sites.count() == 0
    found = (await pages_of(store))[SEED]
    assert (found.state, found.reason) == (PageState.REJECTED, "crowded out")
    assert (await store.frontier.begin("hats", 1.0)).learned == b"known"


async def test_without_the_robot_trials_go_back_to_the_fringe(store: Store) -> None:
    await begin(store)
    assert await store.frontier.recall() == 1
    assert await store.sites.count() == 0
    assert await store.frontier.recall() == 0
    (trial,) = await promote(store)
    assert trial.url == SEED


async def test_a_users_site_is_held_as_it_is(store: Store) -> None:
    await store.frontier.begin("hats", 1.0)
    added = await store.sites.add([SiteSpec(SEED, weight=3.0)], ["a:80"], 1.0, respect_deleted=True)
    await store.frontier.add_seeds([SEED], 1.0)
    (held,) = await promote(store)
    assert (held.site_id, held.own, held.state) == (added.added[0][0], False, PageState.COLLECTED)
    assert await store.sites.delete_missing([]) == [held.site_id]


async def test_the_users_word_counts(store: Store) -> None:
    """A list that is the truth says nothing of the crawler's sites; what the user deletes is not asked for again."""
    seed = await begin(store)
    assert await store.sites.delete_missing([]) == []
    await store.sites.delete(seed.site_id, 5.0)
    found = (await pages_of(store))[SEED]
    assert (found.state, found.reason) == (PageState.REJECTED, "its site was deleted")
    assert [held async for held in store.frontier.held()] == []
    assert await promote(store) == []


async def test_a_page_whose_site_the_user_deleted_before_is_rejected(store: Store) -> None:
    ids = await store.sites.add([SiteSpec(SEED)], ["a:80"], 1.0, respect_deleted=True)
    await store.sites.delete(ids.added[0][0], 2.0)
    await store.frontier.begin("hats", 1.0)
    await store.frontier.add_seeds([SEED], 1.0)
    assert await promote(store) == []
    assert (await pages_of(store))[SEED].state is PageState.REJECTED


async def test_pages_are_listed_by_state_host_and_relevance(store: Store) -> None:
    seed = await begin(store)
    await answer(store, seed, {f"http://b/{n}": 0.4 for n in range(5)})
    first = await store.collection.list_pages(PageState.FRONTIER, host="b:80", limit=3)
    rest = await store.collection.list_pages(PageState.FRONTIER, host="b:80", limit=3, cursor=first.next_cursor)
    assert [len(first.items), len(rest.items), rest.next_cursor] == [3, 2, None]
    assert [page.url for page in (await store.collection.list_pages(min_relevance=0.5)).items] == [SEED]
    assert (await store.collection.list_pages(host="c:80")).items == []


async def test_the_robot_looks_pages_up_by_index(sqlite_url: str) -> None:
    """Whatever it does in its course: there may be ten million of them."""
    store, asked = await Store.open(sqlite_url), dict[str, Any]()

    def note(_connection: Any, _cursor: Any, statement: str, given: Any, _context: Any, many: bool) -> None:
        if statement.split()[0] in ("SELECT", "UPDATE", "DELETE"):
            asked[statement] = given[0] if many else given

    seed = await begin(store)
    event.listen(Engine, "before_cursor_execute", note)
    try:
        await answer(store, seed, {"http://b/": 0.2, "http://c/": 0.6})
        trials = await promote(store, most=1)
        await store.frontier.link_context.around([trials[0].page_id])
        await answer(store, trials[0], {"http://b/": 0.3})
        await answer(store, seed, {"http://c/": 0.5}, at=20.0, on_trial=False, relevance=0.4)
        rows, _ = await store.frontier.sweep(0)
        await value(store, rows)
        await store.frontier.promote(1, 1, 100, 0.5, 2.0, at=0.0)
        assert await store.frontier.known([SEED, "http://new/"]) == {SEED}
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    await store.close()
    path = make_url(sqlite_url).database
    assert path is not None
    with closing(sqlite3.connect(path)) as database:
        plans = {
            statement: [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
            for statement, given in asked.items()
        }
    scanned = {statement: plan for statement, plan in plans.items() if any("SCAN page" in step for step in plan)}
    assert len(plans) > 20
    assert scanned == {}


async def test_exploring_takes_a_page_of_some_host(store: Store) -> None:
    await store.frontier.begin("hats", 1.0)
    await store.frontier.add_seeds([f"http://h{n}/" for n in range(4)], 1.0)
    (trial,) = await store.frontier.promote(1, 1, 100, 0.5, 2.0, at=1.0)
    assert trial.url == "http://h3/"
