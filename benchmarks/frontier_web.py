"""Bulk-writes a database of a focused crawler with N known pages, for `frontier.py`, which measures their cost."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.crawler.controllers import FrontierRows, FrontierValue, RequestSettings
from pollerd.storage.crawler.frontier import url_key
from pollerd.storage.store import Store

PIECE = 20_000
PAGES_A_HOST = 50
BROOD_MEAN, BROOD_SIGMA = 25.0, 1.2
FURTHER_LINKS = 0.6
"""Number of links to known pages per discovered page."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def hosts_of(pages: int) -> int:
    """Returns the number of hosts for this number of pages."""
    return max(pages // PAGES_A_HOST, 10)


class KnownWeb:
    """A crawler's knowledge of a web: arrays by page, the page with id i at place i - 1.

    Pages per host follow Zipf's law, pages discovered by a page are log-normal with mean 25. About one page in 25 was
    requested, and three in ten of these were relevant.
    """

    def __init__(self, pages: int, rng: np.random.Generator) -> None:
        self.hosts = hosts_of(pages)
        share = np.cumsum(1.0 / np.arange(1, self.hosts + 1))
        self.host = np.searchsorted(share / share[-1], rng.random(pages)).astype(np.int32)
        sizes = rng.lognormal(np.log(BROOD_MEAN) - BROOD_SIGMA**2 / 2, BROOD_SIGMA, pages)
        starts = np.unique(np.cumsum(np.ceil(sizes)).astype(np.int64))
        starts = np.append(1, starts[starts < pages])
        by = np.maximum((starts * rng.random(len(starts))).astype(np.int64), 0)
        self.asked = np.zeros(pages, np.bool_)
        self.asked[by] = True
        self.relevance = np.where(rng.random(pages) < 0.3, rng.beta(2, 3, pages), 0.05 * rng.random(pages))
        self.parent = np.repeat(by, np.diff(np.append(starts, pages)))
        self.parent = np.append(-1, self.parent)
        at_home = (rng.random(pages) < 0.6) & (self.parent >= 0)
        self.host[at_home] = self.host[self.parent[at_home]]
        further = int(FURTHER_LINKS * pages)
        source = self.parent[rng.integers(1, pages, further)]
        target = np.minimum((pages * rng.random(further) ** 2).astype(np.int64), pages - 1)
        source = np.append(self.parent[1:], source)
        target = np.append(np.arange(1, pages), target)
        order = np.lexsort((target, source))
        self.source, self.target = source[order], target[order]
        self.anchor = np.where(rng.random(len(source)) < 0.7, rng.beta(1, 6, len(source)), 0.0)
        self._count(pages)

    def _count(self, pages: int) -> None:
        by = self.relevance[self.source]
        self.parents = np.bincount(self.target, minlength=pages)
        self.parents_sum = np.bincount(self.target, by, pages).astype(np.float64)
        self.parents_best = np.zeros(pages)
        np.maximum.at(self.parents_best, self.target, by)
        self.anchors = np.bincount(self.target, self.anchor > 0, pages)
        self.anchor_sum = np.bincount(self.target, self.anchor, pages).astype(np.float64)
        child = np.arange(1, pages)
        self.child_count = np.bincount(self.parent[child], minlength=pages)
        self.children_retrieved = np.bincount(self.parent[child], self.asked[child], pages)
        self.children_relevance = np.bincount(self.parent[child], self.asked[child] * self.relevance[child], pages)

    def host_name(self, host: int) -> str:
        """Returns the host as politeness counts it, without the port."""
        return f"www.{LETTERS[host % 26]}{LETTERS[host // 26 % 26]}site{host}.example"

    def urls(self, places: NDArray[np.int64]) -> list[str]:
        """Returns the URLs of pages."""
        hosts = self.host[places].tolist()
        return [
            f"https://{self.host_name(host)}/{_SECTIONS[page % 97]}/{_WORDS[page % 4_999]}-{page}"
            for host, page in zip(hosts, places.tolist(), strict=True)
        ]

    def around(self, places: NDArray[np.int64], urls: list[str]) -> FrontierRows:
        """Returns the frontier rows of pages."""
        by = self.parent[places]
        return FrontierRows(
            urls,
            self.parents[places].astype(np.float64),
            self.parents_sum[places],
            self.parents_best[places],
            self.anchors[places].astype(np.float64),
            self.anchor_sum[places],
            self.host[places] == self.host[by],
            self.child_count[by].astype(np.float64),
            self.children_retrieved[by].astype(np.float64),
            self.children_relevance[by],
        )


def _words(number: int) -> list[str]:
    rng = random.Random(number)
    return ["".join(rng.choices(LETTERS, k=rng.randint(3, 9))) for _ in range(number)]


_SECTIONS, _WORDS = _words(97), _words(4_999)


def fill(path: Path, pages: int, seed: int) -> None:
    """Writes the database at `path`, with the daemon's own schema; indices are created at the end."""
    asyncio.run(_begin(path))
    web = KnownWeb(pages, np.random.default_rng(seed))
    connection = sqlite3.connect(path)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-2000000", "temp_store=FILE"):
        connection.execute(f"PRAGMA {pragma}")
    indices = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name LIKE 'page%'"
    ).fetchall()
    for name, _ in indices:
        connection.execute(f"DROP INDEX {name}")
    names = ((host + 1, f"{web.host_name(host)}:443") for host in range(web.hosts))
    connection.executemany("INSERT INTO page_host (id, name) VALUES (?, ?)", names)
    for columns in _page_columns(web, pages):
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO page ({', '.join(columns)}) VALUES ({marks})"
        connection.executemany(statement, zip(*columns.values(), strict=True))
    for start in range(0, len(web.source), PIECE):
        some = slice(start, start + PIECE)
        ends = (web.source[some] + 1).tolist(), (web.target[some] + 1).tolist(), web.anchor[some].tolist()
        connection.executemany("INSERT OR IGNORE INTO page_link VALUES (?, ?, ?)", zip(*ends, strict=True))
    for _, sql in indices:
        connection.execute(sql)
    connection.execute("""
        UPDATE page_host SET best = (SELECT max(value) FROM page WHERE host_id = page_host.id),
            asked = (SELECT count(*) FROM page WHERE host_id = page_host.id AND value IS NULL)
    """)
    connection.commit()
    connection.close()


async def _begin(path: Path) -> None:
    store = await Store.open(f"sqlite:///{path}")
    await store.frontier.begin("benchmark", 1.0)
    await store.close()


def _page_columns(web: KnownWeb, pages: int) -> Iterator[dict[str, list[Any]]]:
    """Yields columns of the table `page`, some rows at a time."""
    frontier_value = FrontierValue(RequestSettings())
    for start in range(0, pages, PIECE):
        places = np.arange(start, min(start + PIECE, pages))
        urls = web.urls(places)
        around = web.around(places, urls)
        asked = web.asked[places]
        by = web.parent[places] + 1
        yield {
            "id": (places + 1).tolist(),
            "key": list(map(url_key, urls)),
            "url": urls,
            "host_id": (web.host[places] + 1).tolist(),
            "state": np.where(asked, "rejected", "fringe").tolist(),
            "depth": [3] * len(urls),
            "parent_id": _where(by > 0, by),
            "discovered_at": [1.0] * len(urls),
            "step": (places // 25).tolist(),
            "value": _where(~asked, frontier_value.value(around.states())),
            "relevance": _where(asked, web.relevance[places]),
            "anchor": around.anchor_sum.tolist(),
            "parents": web.parents[places].tolist(),
            "parents_sum": web.parents_sum[places].tolist(),
            "parents_best": web.parents_best[places].tolist(),
            "anchors": web.anchors[places].astype(int).tolist(),
            "anchor_sum": web.anchor_sum[places].tolist(),
            "child_count": web.child_count[places].tolist(),
            "children_retrieved": web.children_retrieved[places].astype(int).tolist(),
            "children_relevance": web.children_relevance[places].tolist(),
        }


def _where(there: NDArray[np.bool_], values: NDArray[Any]) -> list[Any]:
    """Returns the values, None where there is none."""
    return [value if is_there else None for is_there, value in zip(there.tolist(), values.tolist(), strict=True)]
