"""Pictures of the pages for README and docs, light and dark: `make screenshots` keeps them (SCREENSHOTS=folder)."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
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


def history(rng: np.random.Generator, now: float) -> list[list[PollRecord]]:
    """Polls of a month, each site's in order, as batches."""
    batches: list[list[PollRecord]] = []
    turn: dict[int, int] = {}
    for n in range(160):
        at = now - DAYS * DAY * (1 - n / 160)
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
        not_before=at + 5 * 3600.0 if failed else None,
        last_seen_at=at,
        content=body if changed or n == 0 else None,
        change=ChangeDraft(Media.HTML, summarise(before, body, Media.HTML), at - gap) if changed else None,
    )


@pytest.fixture
async def shown(store: Store) -> AsyncIterator[Web]:
    """A daemon that has watched some pages for a month."""
    now, rng = time.time(), np.random.default_rng(3)
    slow = DaemonSettings(budget=0.01)
    async with AsyncExitStack() as stack:
        async with live_daemon(store, LiveSettings(), Instruments(CollectorRegistry(), "1"), rng) as before:
            specs = [SiteSpec(url, title=title, tags=(tag,)) for title, url, tag, _, _ in PAGES]
            await before.control.sites.add(specs)
        for records in history(rng, now):
            await store.commit(Batch(records))
        for minute in range(1, 1440):
            if minute % 20 == 0:
                await store.history.add_yield(YieldMinute(now - 60.0 * minute, 1200.0, 0.22, 0.15, 0.24))
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
        await api(
            "POST", "/channels", {"name": "#prices", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
        )
        await api("POST", "/rules", {"name": "prices", "channels": ["#prices"], "sites": {"tags": ["shop"]}})
        yield Web(api)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("suffix", "width"), [("", 1180), ("-phone", 360)])
async def test_pictures(
    shown: Web, new_reader: NewReader, scheme: str, suffix: str, width: int, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    options = {"color_scheme": scheme, "timezone_id": "Europe/Vienna", "viewport": {"width": width, "height": 820}}
    reader = await new_reader(shown.root, **options)
    newest = await shown.api.store.changes.last_id()
    for name, path in SHOTS.items():
        await reader.page.goto(shown.root + path.format(change=newest))
        await reader.page.wait_for_timeout(400)
        picture = await reader.page.screenshot(path=folder / f"{name}{suffix}-{scheme}.png")
        assert len(picture) > 10_000
        await reader.page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
        assert await reader.page.evaluate(SMALL_OR_CUT) == [], path
    assert reader.complaints == []
