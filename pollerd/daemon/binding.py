"""What keeps the budget from being used, in words: for the status line, and whoever else wonders."""

from __future__ import annotations

from pollerd import quantities
from pollerd.daemon.limiting import REMEDIES
from pollerd.scheduling.capacity import Limit
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.waiting import Waiting

USED_WELL = 0.9
"""Share of the budget from which on the budget itself is what binds."""


def binding(waiting: Waiting, settings: SchedulingSettings, used: float) -> str | None:
    """What binds most, with the setting that is behind it; None: the budget itself, of which the share `used` is used.

    Where sites have private addresses that is said whatever else binds.
    """
    if not waiting.sites:
        return "no sites: add one with `pollerd sites add URL`"
    private = f"{waiting.private:,} at private addresses: --allow-private" if waiting.private else None
    counts = (
        (waiting.private, private),
        (waiting.unanswered, "waiting for the first answers"),
        (waiting.host, _hosts(waiting, settings)),
        (waiting.belief, f"budget not binding: {REMEDIES[Limit.MIN_YIELD]}"),
        (waiting.interval, _interval(waiting, settings)),
        (waiting.backing_off, f"{waiting.backing_off:,} backing off after failures"),
        (waiting.unreachable, f"{waiting.unreachable:,} wait for a robots.txt that cannot be had"),
        (waiting.blocked, f"{waiting.blocked:,} blocked by robots.txt or their address"),
        (waiting.paused, f"{waiting.paused:,} paused"),
        (waiting.gone, f"{waiting.gone:,} gone"),
    )
    _, most = max(counts, key=lambda each: each[0])
    told = None if used >= USED_WELL else most
    return ", ".join(dict.fromkeys(text for text in (told, private) if text)) or None


def _hosts(waiting: Waiting, settings: SchedulingSettings) -> str:
    hosts = "1 host" if waiting.hosts == 1 else f"{waiting.hosts:,} hosts"
    if waiting.crawl_delay:
        return f"{hosts}: Crawl-delay of robots.txt"
    return f"{hosts}: --host-interval {quantities.duration(settings.host_interval_seconds)}"


def _interval(waiting: Waiting, settings: SchedulingSettings) -> str:
    if waiting.own_interval:
        return "each waits for its own min_interval"
    return f"each waits {quantities.duration(settings.min_interval_seconds)}: --min-interval"
