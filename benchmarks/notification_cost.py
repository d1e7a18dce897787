"""What it costs that a change is told: CPU until it is in the outbox, and until a webhook has it.

    python benchmarks/notification_cost.py [--changes 2000] [--turns 5]

All on loopback and SQLite, by turns in one process. `outbox`: CPU a change of asking a rule and committing its notice,
above a commit without. `sent`: CPU of claiming, composing and posting one message alone, and a change in groups of a
hundred, beside a bare POST of the same body by the same client.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

from aiohttp import web
from msgspec.structs import replace

from pollerd.daemon.announcer import Announcer
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.stages import Answer, Found
from pollerd.daemon.workers import WorkerPool
from pollerd.events import EventKind, Notice
from pollerd.fetching.guard import Guard
from pollerd.fetching.poster import Poster
from pollerd.fetching.settings import FetchSettings
from pollerd.model import Baseline, Media, Outcome, OutcomeKind, Poll, SiteState
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.settings import make_channel, parse_channel
from pollerd.notifications.composing import Composer
from pollerd.notifications.delivery import ChannelSender, Pace
from pollerd.notifications.rules import parse_rule
from pollerd.notifications.writing import Look
from pollerd.site_settings import SiteSpec
from pollerd.storage.notification_values import ChannelSpec, RuleSpec, StoredChannel
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext

AT_ONCE = 100
SETTINGS = {"secret": "whsec_" + "A" * 43 + "="}


class _Watch:
    def ended(self, _: Any, answer: Any, *, dead: bool) -> None:
        assert answer.kind == "sent", answer

    def notices_of(self, *_: Any, **__: Any) -> tuple[Notice, ...]:
        return ()


async def cpu(call: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time()
    await call()
    return time.process_time() - began


def change(site: int, at: float, number: int) -> tuple[Found, PollRecord]:
    context = SiteContext(site, f"http://h{site - 1}/{site - 1}", content_id=1)
    outcome = Outcome(OutcomeKind.BODY, at, 0.1, 200, 9, b"something")
    poll = Poll(site, at, 10.0, OutcomeKind.CHANGED, 200, 0.1, 9, changed=True)
    fingerprint = number.to_bytes(8, "big") + site.to_bytes(8, "big")
    after = replace(context, baseline=Baseline(fingerprint, fingerprint, Media.HTML))
    draft = ChangeDraft(Media.HTML, "+1 line: the mill is for sale", at - 10)
    record = PollRecord(poll, after, SiteState.ACTIVE, last_seen_at=at, content=b"content %d" % number, change=draft)
    return Found(Answer(0, context, outcome)), record


async def outbox(store: Store, announcer: Announcer, sites: list[int], turns: int) -> tuple[float, float]:
    """Returns CPU seconds a change without and with a rule that matches."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * turns):
        told = bool(turn % 2)
        changes = [change(site, 1e6 + turn, turn) for site in sites]

        async def commit(changes: list[tuple[Found, PollRecord]] = changes, told: bool = told) -> None:
            for start in range(0, len(changes), AT_ONCE):
                results, records = zip(*changes[start : start + AT_ONCE], strict=True)
                if told:
                    lines, _ = await announcer.lines_of(results)
                    records = await announcer.announce(results, records, lines)
                await store.commit(Batch(records))

        found[told].append(await cpu(commit) / len(sites))
    return median(found[False]), median(found[True])


async def sent(store: Store, row: StoredChannel, url: str, batches: list[list[Notice]], group_from: int) -> float:
    """Returns CPU seconds an event of delivering these, batch by batch."""
    fetching = FetchSettings(allow_private=True)
    async with Poster(fetching) as poster:
        parsed = parse_channel("webhook", {"url": url, **SETTINGS})
        environment = ChannelEnvironment(guard=Guard(True), poster=poster, host="localhost")
        pool = WorkerPool(1)
        composer = Composer(store=store.notifications, work=pool.do, render=pool.do)
        sender = ChannelSender(
            row,
            make_channel(parsed.settings, parsed.secrets, environment),
            pace=_NoPace(group_from),
            store=store.notifications,
            compose=lambda claim: composer.compose(claim, Look(media=frozenset())),
            watch=_Watch(),
            clock=time.time,
        )
        used = 0.0
        for notices in batches:
            await store.notifications.outbox.put(notices)
            used += await cpu(sender.send_due)
        return used / max(sum(map(len, batches)), 1)


def gone(event_id: str, site: int, channel_id: int) -> Notice:
    return Notice(event_id, EventKind.GONE, 5.0, 1, channel_id, 5.0, site_id=site)


class _NoPace(Pace):
    """Sends as fast as it can: the cost of a message is measured, not its politeness."""

    def __init__(self, group_from: int) -> None:
        super().__init__(group_from=group_from, per_minute=6_000)
        self._from = group_from

    def limit_at(self, now: float) -> float:
        return now

    def free_at(self, now: float) -> float:
        return now

    def least_group(self, now: float) -> int:
        return self._from


async def bare(url: str, number: int) -> float:
    """Returns CPU seconds of a POST."""
    async with Poster(FetchSettings(allow_private=True)) as poster:

        async def post() -> None:
            for _ in range(number):
                await poster.post(url, {}, b"x" * 700, now=0.0, seconds=5.0, most=100)

        return await cpu(post) / number


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(f"sqlite:///{Path(folder) / 'poll.db'}", settings=StorageSettings())
        specs = [SiteSpec(f"http://h{n}/{n}") for n in range(options.changes)]
        added = await store.sites.add(specs, [f"h{n}:80" for n in range(options.changes)], 1.0, respect_deleted=False)
        sites = [site_id for site_id, _, _ in added.added]
        row = await store.notifications.channels.add(ChannelSpec("hook", "webhook"), 1.0)
        document = {"name": "all", "channels": ["hook"]}
        rule = await store.notifications.rules.add(RuleSpec("all", '{"name": "all", "channels": ["hook"]}'), 1.0)
        runtime = cast(Runtime, SimpleNamespace(clock=time.time, workers=None, faults=None))
        announcer = Announcer(sites=store.sites, contents=store.contents, filled=asyncio.Event(), runtime=runtime)
        announcer.put_in_force([parse_rule(document, id=rule.id)], {"hook": row.id})
        plain, with_rule = await outbox(store, announcer, sites, options.turns)
        print(f"outbox: {1e6 * plain:.1f} us a change without a rule, {1e6 * (with_rule - plain):.1f} us more with one")
        await sent(store, row, url, [[]], AT_ONCE)  # what the changes above left
        for name, size, number in (("alone", 1, 200), ("in groups of 100", AT_ONCE, 20)):
            ratios = []
            for turn in range(options.turns):
                ids = [[f"{name}-{turn}-{i}-{n}" for n in range(size)] for i in range(number)]
                batches = [[gone(one, sites[n], row.id) for n, one in enumerate(some)] for some in ids]
                base = await bare(url, 500)
                ratios.append((await sent(store, row, url, batches, AT_ONCE), base))
            costs, bases = zip(*ratios, strict=True)
            ratio = median(cost / base for cost, base in ratios)
            print(
                f"sent {name}: {1e6 * median(costs):.0f} us an event; a bare POST (both ends here) "
                f"{1e6 * median(bases):.0f} us; ratio {ratio:.2f}"
            )
        await store.close()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
