"""Pictures of the pages in four states, light and dark, at desk and phone width.

`make screenshots` keeps them all (SCREENSHOTS=folder), to be looked at, and copies those of README and docs. Else only
the pages of a month are drawn.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.daemon.settings import DaemonSettings
from pollerd.detection.summary import summarise
from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.history import YieldMinute
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext
from pollerd.telemetry import Instruments
from pollerd.web.application import add_pages
from tests.api.conftest import Api, served
from tests.web.conftest import SMALL_OR_CUT, NewReader, Web

DAY = 86_400.0
DAYS = 30
PAGES: tuple[
    tuple[str, str, str, float, tuple[str, ...]], ...
] = (  # title, address, tag, changes a day, what it says in turn
    ("Price of the lamp", "https://shop.example.org/lamp", "shop", 2.0, ("€ 49.90", "€ 44.90", "€ 46.50")),
    ("Price of the desk", "https://shop.example.org/desk", "shop", 0.7, ("€ 349.00", "€ 299.00")),
    (
        "Headlines",
        "https://news.example.net/feed",
        "news",
        9.0,
        (
            "Council votes on the bridge",
            "Night trains to the coast return",
            "River below its usual level",
            "Museum opens late",
        ),
    ),
    (
        "Press releases",
        "https://agency.example.com/press",
        "news",
        1.5,
        ("Report on harvests is out", "New head of the agency", "Figures of the third quarter"),
    ),
    (
        "Privacy policy",
        "https://pay.example.com/privacy",
        "policy",
        0.1,
        ("We keep data for 12 months", "We keep data for 6 months"),
    ),
    ("Terms of service", "https://pay.example.com/terms", "policy", 0.05, ("Fees: 1.2 %", "Fees: 1.4 %")),
    ("Release notes", "https://docs.example.org/releases", "docs", 0.8, ("Version 3.0", "Version 3.1", "Version 3.2")),
    ("Status page", "https://status.example.org/", "docs", 3.0, ("All systems work", "Mail is delayed")),
)
SHOTS = {
    "today": "/",
    "budget": "/budget",
    "changes": "/changes?show=all",
    "change": "/changes/{change}",
    "sites": "/sites",
}
SHOTS |= {"site": "/sites/1?days=30", "rules": "/rules", "system": "/system"}
MORE_SHOTS = {
    "add": "/sites/add",
    "import": "/sites/import",
    "counts": "/sites/1/counts",
    "when": "/sites/1/when",
    "polls": "/sites/1/polls",
    "text": "/sites/1/text",
    "rule": "/rules/new",
    "channel": "/rules/channels/new?kind=email",
    "plan": "/plan",
    "accounts": "/system/accounts",
}
"""Whole pages that README and docs do not show."""
_UNREAD = 7
_ALL = bool(os.environ.get("SCREENSHOTS"))
STATES = ("month", "empty", "minutes", "trouble")
TROUBLE: Mapping[int, tuple[OutcomeKind, int | None, str]] = {
    2: (OutcomeKind.CLIENT_ERROR, 401, "asks for a password"),
    3: (OutcomeKind.GONE, 410, "410 Gone"),
    5: (OutcomeKind.TIMEOUT, None, "no answer within 30 s"),
    7: (OutcomeKind.SERVER_ERROR, 503, "503 Service Unavailable"),
}
"""Site -> how its last polls ended, in the state "trouble"."""


def first_polls(now: float) -> list[list[PollRecord]]:
    """Polls of ten minutes: each site was read twice, and one has changed."""
    batches = []
    for n, at in enumerate((now - 540.0, now - 60.0)):
        records = []
        for site_id, (_, url, _, _, texts) in enumerate(PAGES, 1):
            outcome = OutcomeKind.FIRST if n == 0 else OutcomeKind.UNCHANGED
            outcome = OutcomeKind.CHANGED if n and site_id == 3 else outcome
            sides = (f"Example page\n{texts[0]}\nContact us\n", f"Example page\n{texts[1]}\nContact us\n")
            records.append(_record(site_id, url, at + site_id, outcome, n, sides))
        batches.append(records)
    return batches


async def ends_badly(store: Store, now: float) -> None:
    """The last polls of some sites fail."""
    for site_id, (outcome, status, detail) in TROUBLE.items():
        poll = Poll(site_id, now - 300.0, 3600.0, outcome, status, 0.2, 0, False, detail=detail)
        context = (await store.sites.contexts([site_id]))[site_id]
        state = SiteState.GONE if outcome is OutcomeKind.GONE else SiteState.BACKING_OFF
        await store.commit(Batch([PollRecord(poll, context, state, failures=4, not_before=now + 3 * 3600.0)]))


def history(rng: np.random.Generator, now: float) -> list[list[PollRecord]]:
    """Polls of a month, each site's in order, as batches."""
    batches: list[list[PollRecord]] = []
    turn: dict[int, int] = {}
    for n in range(160):
        at = now - DAYS * DAY * (1 - (n + 0.97) / 160)  # the last one was some minutes ago
        records = []
        for site_id, (_, url, _, rate, texts) in enumerate(PAGES, 1):
            changed = n > 0 and rng.uniform() < 1 - np.exp(-rate * DAYS / 160)
            failed = n > 0 and site_id == 8 and n > 154
            outcome = OutcomeKind.FIRST if n == 0 else OutcomeKind.CHANGED if changed else OutcomeKind.UNCHANGED
            outcome = OutcomeKind.TIMEOUT if failed else outcome
            turn[site_id] = turn.get(site_id, 0) + changed
            before, after = (
                f"Example page\n{texts[k % len(texts)]}\nContact us\n" for k in (turn[site_id] - 1, turn[site_id])
            )
            records.append(_record(site_id, url, at, outcome, n, (before, after)))
        batches.append(records)
    return batches


def _record(site_id: int, url: str, at: float, outcome: OutcomeKind, n: int, texts: tuple[str, str]) -> PollRecord:
    gap = DAYS * DAY / 160
    changed = outcome is OutcomeKind.CHANGED
    before, body = (text.encode() for text in texts)
    failed = outcome is OutcomeKind.TIMEOUT
    return PollRecord(
        poll=Poll(
            site_id, at, gap if n else None, outcome, None if failed else 200, 0.2, 0 if failed else 900, changed
        ),
        context=SiteContext(site_id, url, baseline=Baseline(fingerprint=n.to_bytes(16, "big"), media=Media.HTML)),
        state=SiteState.BACKING_OFF if failed else SiteState.ACTIVE,
        failures=n - 154 if failed else 0,
        not_before=at + 3600.0 if failed else None,
        last_seen_at=at,
        content=body if changed or n == 0 else None,
        change=ChangeDraft(Media.HTML, summarise(before, body, Media.HTML), at - gap) if changed else None,
    )


@asynccontextmanager
async def shown(store: Store, state: str) -> AsyncIterator[Web]:
    """A daemon that has watched some pages for a month, for minutes, with failures in the end; or none yet."""
    now, rng = time.time(), np.random.default_rng(3)
    slow = DaemonSettings(budget=0.01)
    async with AsyncExitStack() as stack:
        async with live_daemon(store, LiveSettings(), Instruments(CollectorRegistry(), "1"), rng) as before:
            specs = [SiteSpec(url, title=title, tags=(tag,)) for title, url, tag, _, _ in PAGES]
            await before.control.sites.add(specs if state != "empty" else [])
        is_long = state in ("month", "trouble")
        for records in history(rng, now) if is_long else first_polls(now) if state == "minutes" else ():
            await store.commit(Batch(records))
        if state == "trouble":
            await ends_badly(store, now)
        for minute in range(1, 1440):
            if is_long and minute % 20 == 0:
                await store.history.add_yield(YieldMinute(now - 60.0 * minute, 1200.0, 0.22, 0.15, 0.24))
        newest = await store.changes.last_id()
        await store.changes.put_seen("", [(1, max(newest - _UNREAD, 1))], seen=True, undoable=None, now=now)
        registry = CollectorRegistry()
        daemon = await stack.enter_async_context(
            live_daemon(store, LiveSettings(daemon=slow), Instruments(registry, "1"), np.random.default_rng(1))
        )
        for allocator in ("uniform", "whittle"):  # one that takes over learns from the stored polls
            await daemon.control.allocation.set(allocator=allocator)
        app = create_api(daemon.control, store, registry, ApiSettings(), "1.0")
        add_pages(
            app, {"budget": ("5.0", "default"), "min_interval": ("30s", "file pollerd.toml"), "topic": ("", "default")}
        )
        root = await stack.enter_async_context(served(app))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        api = Api(root, store, daemon.control, session, app.state.streams, app.state.tokens, app)
        if is_long:
            hook = {"name": "#prices", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
            await api("POST", "/channels", hook)
            await api("POST", "/rules", {"name": "prices", "channels": ["#prices"], "sites": {"tags": ["shop"]}})
        yield Web(api)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("suffix", "width"), [("", 1180), ("-phone", 360)])
@pytest.mark.parametrize("state", STATES if _ALL else STATES[:1])
async def test_pictures(
    store: Store, new_reader: NewReader, state: str, scheme: str, suffix: str, width: int, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path) / state
    folder.mkdir(parents=True, exist_ok=True)
    options = {"color_scheme": scheme, "timezone_id": "Europe/Vienna", "viewport": {"width": width, "height": 820}}
    async with shown(store, state) as web:
        reader = await new_reader(web.root, **options)
        newest = await web.api.store.changes.last_id()
        for name, path in (SHOTS | (MORE_SHOTS if _ALL else {})).items():
            if (not newest and "{change}" in path) or (state == "empty" and "/sites/1" in path):
                continue
            await reader.page.goto(web.root + path.format(change=newest))
            await reader.page.wait_for_timeout(400)
            is_whole = name in MORE_SHOTS or state != "month"
            picture = await reader.page.screenshot(path=folder / f"{name}{suffix}-{scheme}.png", full_page=is_whole)
            assert len(picture) > 5_000
            await reader.page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
            assert await reader.page.evaluate(SMALL_OR_CUT) == [], path
        assert reader.complaints == []
