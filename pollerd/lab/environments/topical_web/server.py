"""Server of a generated topical web: many hosts on loopback, one port, with a log of requests and the true state.

The text of a page has the relevance in the graph, its links have texts of the scores in the graph, and pages change and
vanish as in `environments.topical_web.life`. Time there is counted in requests: here in seconds times
`steps_per_second`.
"""

from __future__ import annotations

import ipaddress
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from types import TracebackType

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.lab.environments.topical_web.graph import TopicalGraph
from pollerd.lab.environments.topical_web.life import LivingWeb
from pollerd.lab.environments.topical_web.texts import Language

TEXT_WORDS, ANCHOR_WORDS = 400, 8
EXAMPLES, EXAMPLE_RELEVANCE, BACKGROUNDS = 5, 0.8, 40
_FIRST_ADDRESS = int(ipaddress.IPv4Address("127.16.0.1"))
_EXAMPLE_SEED = 40_111


@dataclass(frozen=True)
class Visit:
    """A request as seen by the server. began, ended: seconds of the monotonic clock; page: -1 if there is none."""

    began: float
    ended: float
    host: str
    path: str
    page: int
    status: int


class TopicalWeb:
    """Serves a graph on 127.16.0.0/12. An async context manager.

    graph: the graph served. life: its changes, which only this object advances; None: it is static. steps_per_second >
    0: steps of `life` per second. seed >= 0: of the texts. `clock`: monotonic seconds.
    """

    def __init__(
        self,
        graph: TopicalGraph,
        life: LivingWeb | None = None,
        *,
        steps_per_second: float = 1.0,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not steps_per_second > 0:
            raise InvalidValueError("steps_per_second", "above 0", steps_per_second)
        self.graph, self.log = graph, list[Visit]()
        self._life, self._pace, self._seed, self._clock = life, steps_per_second, seed, clock
        self._language = Language()
        self._pages: dict[tuple[str, str], int] = {}
        self._runner: web.AppRunner | None = None
        self._began = 0.0
        self.port = 0

    async def __aenter__(self) -> TopicalWeb:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "0.0.0.0", 0).start()
        self.port = self._runner.addresses[0][1]
        self._pages = {(self._host(page), self._path(page)): page for page in range(len(self.graph))}
        self._began = self._clock()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def url(self, page: int) -> str:
        """Returns the URL of a page. Page 0 is the start document."""
        return f"http://{self._host(page)}:{self.port}{self._path(page)}"

    def keywords(self) -> list[str]:
        """Returns words of the topic."""
        return self._language.keywords(10)

    def examples(self) -> list[str]:
        """Returns texts on the topic that are on no page."""
        return self._apart(EXAMPLES, EXAMPLE_RELEVANCE)

    def background(self) -> list[str]:
        """Returns texts on other subjects that are on no page."""
        return self._apart(BACKGROUNDS, 0.0)

    def visits(self) -> NDArray[np.int64]:
        """Returns the pages served, in the order of their requests, int64[k], including answers of 304."""
        return np.array([visit.page for visit in self.log if visit.status in (200, 304)], np.int64)

    def requests(self) -> int:
        """Returns the number of requests of pages so far, whatever their result."""
        return sum(1 for visit in self.log if visit.path != "/robots.txt")

    def least_gap(self) -> float:
        """Returns the minimum time, s, between two request starts at one host, robots.txt included; inf without any."""
        by_host = defaultdict[str, list[float]](list)
        for visit in self.log:
            by_host[visit.host].append(visit.began)
        gaps = (later - earlier for times in by_host.values() for earlier, later in pairwise(sorted(times)))
        return min(gaps, default=float("inf"))

    def overlaps(self) -> int:
        """Returns how many requests began while another to the same host was being answered."""
        by_host = defaultdict[str, list[Visit]](list)
        for visit in sorted(self.log, key=lambda visit: visit.began):
            by_host[visit.host].append(visit)
        return sum(later.began < earlier.ended for visits in by_host.values() for earlier, later in pairwise(visits))

    def _host(self, page: int) -> str:
        # The start document's host is -1.
        return str(ipaddress.IPv4Address(_FIRST_ADDRESS + 1 + int(self.graph.host[page])))

    def _path(self, page: int) -> str:
        depth = int(self.graph.depth[page])
        if not depth:
            return "/"
        folders = "".join(f"/level{level}" for level in range(1, depth))
        return f"{folders}/{'links' if self.graph.hub_hint[page] else 'text'}-{page}.html"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        began = self._clock()
        host = request.host.partition(":")[0]
        page = self._pages.get((host, request.path), -1)
        if self._life is not None:
            self._life.advance(int((began - self._began) * self._pace))
        response = self._answer(page, request)
        if self._life is not None and response.status in (200, 304):
            self._life.retrieve(page)
        self.log.append(Visit(began, self._clock(), host, request.path, page, response.status))
        return response

    def _answer(self, page: int, request: web.Request) -> web.Response:
        if page < 0:
            return web.Response(status=404, text="there is no such page\n")
        version, relevance = 0, float(self.graph.relevance[page])
        if self._life is not None:
            if not self._life.alive[page]:
                return web.Response(status=410, text="the page is gone\n")
            version, relevance = int(self._life.version[page]), float(self._life.relevance[page])
        tag = f'"{page}-{version}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        html = self._html(page, version, relevance)
        return web.Response(text=html, content_type="text/html", charset="utf-8", headers={"ETag": tag})

    def texts(self, page: int, version: int = 0, relevance: float | None = None) -> tuple[str, list[str]]:
        """Returns a page's text, title and paragraphs a line each, and the texts of its links, in the graph's order.

        relevance: the current one; None: that of the graph.
        """
        relevance = float(self.graph.relevance[page]) if relevance is None else relevance
        rng = np.random.default_rng([self._seed, page, version])
        lines = [self._language.text(relevance, words, rng) for words in (4, *(TEXT_WORDS // 5,) * 5)]
        scored = zip(self.graph.links(page).tolist(), self.graph.anchors(page).tolist(), strict=True)
        return "\n".join(lines), [self._anchor(page, target, score) for target, score in scored]

    def _html(self, page: int, version: int, relevance: float) -> str:
        text, anchors = self.texts(page, version, relevance)
        title, *paragraphs = text.split("\n")
        links = [
            f'<li><a href="{escape(self._reference(page, target))}">{anchor}</a></li>\n'
            for target, anchor in zip(self.graph.links(page).tolist(), anchors, strict=True)
        ]
        body = "".join(f"<p>{paragraph}</p>\n" for paragraph in paragraphs)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
            f"<body><h1>{title}</h1>\n{body}<ul>\n{''.join(links)}</ul></body></html>\n"
        )

    def _anchor(self, page: int, target: int, score: float) -> str:
        """Returns the text of a link with about this score, as far as a few words allow; "more" without a score."""
        if not score:
            return "more"
        return self._language.text(score, ANCHOR_WORDS, np.random.default_rng([self._seed, page, target, 1]))

    def _reference(self, page: int, target: int) -> str:
        return self._path(target) if self.graph.host[page] == self.graph.host[target] else self.url(target)

    def _apart(self, number: int, relevance: float) -> list[str]:
        rng = np.random.default_rng([self._seed, _EXAMPLE_SEED, round(relevance * 100)])
        return [self._language.text(relevance, TEXT_WORDS, rng) for _ in range(number)]
