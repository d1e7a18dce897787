"""The served copy of a generated topical web: what a crawler meets on it is what the graph says."""

from __future__ import annotations

from urllib.parse import urljoin

import aiohttp
import numpy as np
import pytest

from pollerd.crawler.controllers import like_hub, path_depth
from pollerd.crawler.topics import Topic, Vocabulary
from pollerd.crawler.traps import trap
from pollerd.detection.html import visible_text
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.topical_web.graph import generate
from pollerd.lab.environments.topical_web.life import LivingWeb
from pollerd.lab.environments.topical_web.server import TopicalWeb
from pollerd.lists.links import page_links

GRAPH = generate(200, np.random.SeedSequence((6, 1)))


def topic(web: TopicalWeb) -> Topic:
    vocabulary = Vocabulary()
    for text in (*web.examples(), *web.background()):
        vocabulary.add(text)
    return Topic(web.examples(), web.keywords(), vocabulary)


async def test_every_page_shows_its_links_and_its_relevance() -> None:
    scores = list[float]()
    async with TopicalWeb(GRAPH) as web, aiohttp.ClientSession() as session:
        about = topic(web)
        for page in range(len(GRAPH)):
            async with session.get(web.url(page)) as response:
                html = await response.read()
            found = page_links(html, web.url(page))
            assert [link.url for link in found.links] == [web.url(int(target)) for target in GRAPH.links(page)]
            told = np.array([link.anchor != "more" for link in found.links], np.bool_)
            assert told.tolist() == (GRAPH.anchors(page) > 0).tolist()
            scores.append(about.score(visible_text(html).decode()))
        assert web.visits().tolist() == list(range(len(GRAPH)))
        assert web.requests() == len(GRAPH)
    # 0.90 to 0.97 for the graphs of ten other seeds.
    assert np.corrcoef(scores, GRAPH.relevance)[0, 1] > 0.8


async def test_urls_are_those_of_pages_and_look_as_the_graph_says() -> None:
    async with TopicalWeb(GRAPH) as web:
        urls = [web.url(page) for page in range(len(GRAPH))]
    assert len(set(urls)) == len(urls)
    assert not any(map(trap, urls))
    below = GRAPH.depth > 0
    assert np.array(list(map(path_depth, urls)))[below].tolist() == GRAPH.depth[below].tolist()
    assert np.array(list(map(like_hub, urls)))[below].tolist() == GRAPH.hub_hint[below].tolist()


async def test_pages_change_and_go_while_they_are_watched() -> None:
    now = 0.0
    life = LivingWeb(GRAPH, 20_000, np.random.default_rng(1))
    async with (
        TopicalWeb(GRAPH, life, steps_per_second=100.0, clock=lambda: now) as web,
        aiohttp.ClientSession() as session,
    ):

        async def ask(page: int, **headers: str) -> tuple[int, str, str]:
            async with session.get(web.url(page), headers=headers) as response:
                return response.status, response.headers.get("ETag", ""), await response.text()

        first = [await ask(page) for page in range(len(GRAPH))]
        assert {status for status, _, _ in first} == {200}
        assert (await ask(5, **{"If-None-Match": first[5][1]}))[0] == 304
        now = 200.0
        statuses = [(await ask(page))[0] for page in range(len(GRAPH))]
        assert statuses == np.where(life.alive, 200, 410).tolist()
        assert 410 in statuses
        changed = int(np.flatnonzero(life.alive & (life.version > 0))[0])
        status, tag, text = await ask(changed, **{"If-None-Match": first[changed][1]})
        assert (status, tag) == (200, f'"{changed}-{life.version[changed]}"')
        assert text != first[changed][2]
        assert len(life.quality) == len(web.visits())


async def test_the_log_tells_of_rapid_fire() -> None:
    now = 0.0
    async with TopicalWeb(GRAPH, clock=lambda: now) as web, aiohttp.ClientSession() as session:
        assert web.least_gap() == float("inf")
        one, other = web.url(1), web.url(0)
        for moment, url in ((0.0, one), (3.0, one), (4.0, other), (5.5, one), (6.0, urljoin(one, "/robots.txt"))):
            now = moment
            async with session.get(url):
                pass
        assert (web.least_gap(), web.overlaps(), web.requests()) == (0.5, 0, 4)
        assert web.visits().tolist() == [1, 1, 0, 1]


def test_a_pace_is_above_zero() -> None:
    with pytest.raises(InvalidValueError, match="steps_per_second"):
        TopicalWeb(GRAPH, steps_per_second=0.0)
