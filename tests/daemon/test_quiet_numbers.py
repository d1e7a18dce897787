"""The quiet numbers of the pages against the truth of a served web."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from aiohttp import web
from numpy.typing import NDArray

from pollerd.cli.demo.score import detection_delays, uniform_mean_delay
from pollerd.daemon.yields import YieldLog
from pollerd.web.quiet import sooner
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page


def _log(running: Running) -> YieldLog:
    runtime, control = running.daemon.parts.runtime, running.control
    return YieldLog(
        explainer=control.explainer,
        history=running.store.history,
        clock=runtime.clock,
        instruments=runtime.instruments,
        by_state=lambda: control.health.status().by_state,
    )


def _served(origin: Origin, path: str, text: Callable[[], str]) -> list[str]:
    """Serves a page with this text; returns the list of all bodies that were sent."""
    sent: list[str] = []

    async def answer(_: web.Request) -> web.Response:
        sent.append(f"<html><body><h1>News</h1><p>{text()}</p></body></html>")
        return web.Response(text=sent[-1], content_type="text/html")

    origin.pages[path] = Page(handler=answer)
    return sent


async def test_what_is_ignored_and_used_is_what_the_web_saw(start: Start, origin: Origin) -> None:
    served = 0

    def views() -> str:
        nonlocal served
        served += 1
        return f"{served // 2:,} views"

    sent, began = _served(origin, "/noisy", views), time.process_time()
    async with start(budget=40.0) as running:
        log = _log(running)
        (site,) = await running.add(origin.url("/noisy"))
        await running.polled(site, 15)
        await running.control.sites.pause(site, True)
        await running.settled()
        await log.note(30.0)
        work = await running.store.history.work_since(time.time() - 3_600.0)
        polls = await running.polls(site)
        assert work.polls == len(polls)
        assert work.polls == len(sent)
        assert work.bytes == sum(len(body.encode()) for body in sent)
        differing = sum(before != after for before, after in pairwise(sent))
        assert differing > 2
        assert work.ignored == (await running.site(site)).hidden_changes
        assert 0 <= differing - work.ignored <= 1, "all that differs is noise; the first time it had to be learned"
        assert 0 < work.cpu <= time.process_time() - began
        assert work.site_seconds == 0 == work.changes
        await running.control.sites.pause(site, False)
        await log.note(30.0)
        again = await running.store.history.work_since(time.time() - 3_600.0)
        assert again.seconds == pytest.approx(60.0)
        assert again.site_seconds == pytest.approx(30.0)
        assert again.ignored >= work.ignored, "each call writes what was done since the one before"


WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath", "inlet", "jetty", "knoll", "larch")
LINES = 40


async def test_how_soon_changes_are_seen_is_what_the_web_knows(start: Start, origin: Origin) -> None:
    """Five lively pages among fifteen, polled by what is learned: the figures against the true times of changes."""
    rng, begin = np.random.default_rng(), time.time()
    times = {f"/{n}": begin + np.cumsum(rng.exponential(1.0, 1_000)) for n in range(5)}
    times |= {f"/{n}": np.empty(0) for n in range(5, 15)}

    def text(happen: NDArray[np.float64]) -> str:
        """One line of many differs at a time: a change that falls between a check and its proof looks like noise."""
        version = int(np.searchsorted(happen, time.time()))
        lines = [WORDS[(version - n) // LINES % len(WORDS)] for n in range(LINES)]
        return "</p><p>".join(f"{word} {WORDS[n % 12]} {WORDS[n // 12]}" for n, word in enumerate(lines))

    for path, happen in times.items():
        _served(origin, path, partial(text, happen))
    async with start(budget=40.0, allocator="whittle") as running:
        ids = await running.add(*map(origin.url, times))
        log = _log(running)
        noted = time.monotonic()
        async with asyncio.timeout(120):
            while running.control.health.status().changes < 100:
                await asyncio.sleep(0.25)
                since, noted = noted, time.monotonic()
                await log.note(noted - since)
        for site in ids:
            await running.control.sites.pause(site, True)
        await running.settled()
        polls = {path: await running.polls(site) for path, site in zip(times, ids, strict=True)}
        work = await running.store.history.work_since(begin - 60.0)
        figure = sooner(work, await running.store.history.gaps_of_changes(begin, 10_000))
    found = {path: [poll.at for poll in made if poll.changed] for path, made in polls.items()}
    happened = [
        happen[(happen > polls[path][0].at) & (happen < max(found[path], default=0.0))]
        for path, happen in times.items()
    ]
    true = np.concatenate(list(map(detection_delays, happened, found.values())))
    period = sum(made[-1].at - made[0].at for made in polls.values()) / sum(len(made) - 1 for made in polls.values())
    equal = uniform_mean_delay(happened, period, time.time())
    assert figure is not None
    # Over six runs .88 to 1.02, .92 to 1.20 and 1.01 to 1.28 of the truth: a half that is forgotten is beyond.
    assert figure.changes >= 90
    assert figure.delay == pytest.approx(float(true.mean()), rel=0.45)
    assert figure.half_within == pytest.approx(float(np.median(true)), rel=0.7)
    assert figure.ratio == pytest.approx(equal / float(true.mean()), rel=0.7)
    assert figure.ratio > 1.2, "it is sooner"
