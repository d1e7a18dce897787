"""The focused crawler live: the real daemon crawls a served copy of a topical web, compared with simulated schedules.

Recall of the web's relevance by requests of pages, including refreshes: of the daemon, of breadth-first, of
frontier-greedy, which knows the relevance of pages before they are requested, and of the bound without constraints.
Those have no politeness: they request from any host at any time. The server's log shows whether the daemon was polite.

    python benchmarks/crawl.py [--pages 1000] [--kind open|gated] [--number 0] [--budget 10] [--host-interval 0.1]
        [--min-interval S] [--requests N] [--seconds 150] [--living] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import numpy as np
from numpy.typing import NDArray
from scale import Api, Process, daemon

from pollerd.crawler.quality import recall_by_request
from pollerd.lab.environments.topical_web import traversals
from pollerd.lab.environments.topical_web.graph import GATED, TopicalGraph, generate
from pollerd.lab.environments.topical_web.life import LivingWeb
from pollerd.lab.environments.topical_web.server import TopicalWeb

SEED = 9_241
"""Seed of this benchmark's webs: crawlers are developed, tested and trained on those of other seeds."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
RELEVANCE_MIN = 0.1
EVERY_SECONDS = 0.5
IDLE_SECONDS = 30.0
"""After this time without a request of a page the crawler counts as finished."""
LIFE_STEPS = 100_000
LOG_LINES = 20
"""Lines of the daemon's log to show after a crash."""


def write_topic(web: TopicalWeb, work: Path) -> tuple[Path, Path]:
    """Writes the topic file and the seeds: the start document alone."""
    topic, seeds = work / "topic.toml", work / "seeds.txt"
    told = {
        "name": "crawl",
        "keywords": web.keywords(),
        "examples": web.examples(),
        "background": web.background(),
        "relevance_min": RELEVANCE_MIN,
        "max_depth": 30,
    }
    # JSON of these values is valid TOML.
    topic.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items()))
    seeds.write_text(f"{web.url(0)}\n")
    return topic, seeds


async def watch(web: TopicalWeb, process: Process, requests: int, seconds: float) -> None:
    """Waits until `requests` pages were requested, for at most `seconds`, or until requests stop.

    Raises OSError if the daemon died.
    """
    deadline = time.monotonic() + seconds
    last, since = 0, time.monotonic()
    while web.requests() < requests and time.monotonic() < deadline:
        await asyncio.sleep(EVERY_SECONDS)
        process.cpu()  # FileNotFoundError if the process is gone
        if web.requests() > last:
            last, since = web.requests(), time.monotonic()
        elif time.monotonic() - since > IDLE_SECONDS:
            return


def recall_of(web: TopicalWeb) -> NDArray[np.float64]:
    """Returns recall after each request of a page, float64[k]; repeated requests and non-pages add nothing."""
    asked = [visit.page if visit.status == 200 else -1 for visit in web.log if visit.path != "/robots.txt"]
    seen = np.zeros(len(web.graph), np.bool_)
    gain = np.zeros(len(asked))
    for place, page in enumerate(asked):
        if page >= 0 and not seen[page]:
            seen[page], gain[place] = True, web.graph.relevance[page]
    return np.asarray(np.cumsum(gain) / web.graph.relevance.sum())


def recall_of_firsts(web: TopicalWeb) -> NDArray[np.float64]:
    """Returns recall after each first request of a page, float64[k]: without refreshes."""
    order = list(dict.fromkeys(web.visits().tolist()))
    return recall_by_request(web.graph.relevance, np.array(order, np.int64))


def at(recall: NDArray[np.float64], places: Sequence[int]) -> list[float]:
    """Returns recall after the given numbers of requests; nan if there were fewer."""
    return [float(recall[place - 1]) if 0 < place <= len(recall) else float("nan") for place in places]


def beside(graph: TopicalGraph) -> dict[str, NDArray[np.float64]]:
    """Returns recall by request of the schedules to compare with."""
    schedules = {
        "breadth-first": traversals.breadth_first(graph),
        "parent-greedy": traversals.parent_greedy(graph),
        "fringe-greedy, told": traversals.frontier_greedy(graph),
        "bound": traversals.unconstrained(graph),
    }
    return {name: recall_by_request(graph.relevance, schedule) for name, schedule in schedules.items()}


async def crawl(given: argparse.Namespace, graph: TopicalGraph) -> dict[str, object]:
    """Runs the daemon; returns the figures."""
    life = LivingWeb(graph, LIFE_STEPS, np.random.default_rng(given.number)) if given.living else None
    with tempfile.TemporaryDirectory(prefix="pollerd-crawl-") as folder:
        work = Path(folder)
        async with TopicalWeb(graph, life, steps_per_second=given.budget, seed=given.number) as web:
            topic, seeds = write_topic(web, work)
            arguments = (
                *("--topic", str(topic), "--seeds", str(seeds)),
                *("--host-interval", str(given.host_interval), "--min-interval", str(given.min_interval)),
            )
            async with daemon(work, "crawl", given.budget, *arguments) as (process, api):
                began = time.monotonic()
                try:
                    await watch(web, process, given.requests or len(graph), given.seconds)
                    taken, cpu = time.monotonic() - began, process.cpu()
                    collection = await status(api)
                except (OSError, aiohttp.ClientError) as error:
                    raise RuntimeError(f"the daemon died or does not answer; its log ends:\n{end_of(work)}") from error
            recall = recall_of(web)
            places = [round(share * len(graph)) for share in SHARES]
            table = {"daemon": at(recall, places), "daemon, first requests": at(recall_of_firsts(web), places)}
            table |= {name: at(found, places) for name, found in beside(graph).items()}
            return {
                "pages": len(graph),
                "hosts": len(set(graph.host.tolist())),
                "requests": len(recall),
                "distinct": len({visit.page for visit in web.log if visit.page >= 0}),
                "robots_txt": len(web.log) - len(recall),
                "seconds": taken,
                "cpu_seconds": cpu,
                "least_gap": web.least_gap(),
                "overlaps": web.overlaps(),
                "quality": None if life is None else life.performance,
                "collection": collection,
                "log": end_of(work) if not len(recall) else "",
                "places": places,
                "recall": table,
            }


def end_of(work: Path) -> str:
    """Returns the last lines of the daemon's log."""
    return "\n".join((work / "crawl.log").read_text(errors="replace").splitlines()[-LOG_LINES:])


async def status(api: Api) -> object:
    """Returns the daemon's status of the collection, after the last batch was committed."""
    await asyncio.sleep(2.0)
    return json.loads(await api.get("/api/v1/collection"))


def show(found: dict[str, object], interval: float) -> None:
    """Prints the figures."""
    print(
        f"{found['pages']} pages on {found['hosts']} hosts; {found['requests']} requests of pages "
        f"({found['distinct']} different ones) and {found['robots_txt']} of robots.txt in {found['seconds']:.0f} s, "
        f"{found['cpu_seconds']:.1f} s CPU"
    )
    print(
        f"least time between two requests to a host {found['least_gap']:.3f} s (asked for: {interval:g}), "
        f"overlapping: {found['overlaps']}"
    )
    if found["quality"] is not None:
        print(f"mean of min(R, F) over its requests: {found['quality']:.3f}")
    print(f"collection: {json.dumps(found['collection'])}")
    if found["log"]:
        print(found["log"])
    places, table = found["places"], found["recall"]
    assert isinstance(places, list)
    assert isinstance(table, dict)
    print(f"\nrecall after so many requests\n{'':22}" + "".join(f"{place:>8}" for place in places))
    for name, values in table.items():
        print(f"{name:22}" + "".join(f"{value:8.3f}" for value in values))


def main() -> None:
    """Runs the benchmark and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--kind", choices=("open", "gated"), default="open")
    parser.add_argument("--number", type=int, default=0, help="which web")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--host-interval", type=float, default=0.1)
    parser.add_argument("--min-interval", type=float, default=30.0, help="of a page; 30 s is the daemon's default")
    parser.add_argument("--requests", type=int, default=0, help="all pages once where left out")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--living", action="store_true", help="pages change and go")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    seed = np.random.SeedSequence((SEED, given.number))
    graph = generate(given.pages, seed, GATED if given.kind == "gated" else None)
    found = asyncio.run(crawl(given, graph))
    show(found, given.host_interval)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
