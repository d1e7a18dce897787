"""The quiet numbers of the pages against the truth of a served web."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from aiohttp import web

from pollerd.daemon.yields import YieldLog
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
