"""What keeps the budget from being used, in words."""

from __future__ import annotations

import pytest

from pollerd.daemon.binding import binding
from pollerd.scheduling import SchedulingSettings
from pollerd.scheduling.waiting import Waiting

SETTINGS = SchedulingSettings(min_interval_seconds=5_400, host_interval_seconds=2)


@pytest.mark.parametrize(
    ("waiting", "used", "words"),
    [
        (Waiting(), 0.0, "no sites: add one with `pollerd sites add URL`"),
        (Waiting(interval=11), 0.01, "each waits 1.5h: --min-interval"),
        (Waiting(interval=11, own_interval=True), 0.01, "each waits for its own min_interval"),
        (Waiting(belief=11), 0.01, "budget not binding: a lower min-yield shortens delays"),
        (Waiting(interval=11), 0.95, None),
        (Waiting(host=1_200, hosts=1), 0.2, "1 host: --host-interval 2s"),
        (Waiting(host=1_200, hosts=1_000), 0.2, "1,000 hosts: --host-interval 2s"),
        (Waiting(host=12, hosts=2, crawl_delay=True), 0.2, "2 hosts: Crawl-delay of robots.txt"),
        (Waiting(unanswered=3), 0.0, "waiting for the first answers"),
        (Waiting(backing_off=3, interval=2), 0.0, "3 backing off after failures"),
        (Waiting(unreachable=3, interval=2), 0.0, "3 wait for a robots.txt that cannot be had"),
        (Waiting(blocked=3, interval=2), 0.0, "3 blocked by robots.txt or their address"),
        (Waiting(paused=3), 0.0, "3 paused"),
        (Waiting(gone=3), 0.0, "3 gone"),
        (Waiting(private=11), 0.0, "11 at private addresses: --allow-private"),
        (
            Waiting(private=1, interval=9),
            0.0,
            "each waits 1.5h: --min-interval, 1 at private addresses: --allow-private",
        ),
        (Waiting(private=1, interval=9), 1.0, "1 at private addresses: --allow-private"),
    ],
)
def test_what_binds_most_is_said(waiting: Waiting, used: float, words: str | None) -> None:
    assert binding(waiting, SETTINGS, used) == words
