"""The budget by the server's own log: under load, across kill -9, and while the daemon stands still now and then."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.daemon.windows import assert_windows
from tests.support.origin import until
from tests.support.process import DaemonProcess, daemon_process
from tests.support.stamped import StampedServer

HOSTS = 300


async def stand_still(daemon: DaemonProcess) -> None:
    """Until cancelled, stops the process for a quarter of a second, again and again."""
    while True:
        await asyncio.sleep(0.9)
        daemon.send(signal.SIGSTOP)
        await asyncio.sleep(0.25)
        daemon.send(signal.SIGCONT)


@pytest.mark.parametrize("budget", [30.0, 200.0])
async def test_the_servers_log_keeps_the_bound(database: str, tmp_path: Path, budget: float) -> None:
    with StampedServer() as server:
        urls = tmp_path / "urls.txt"
        urls.write_text("\n".join(server.url(n, n % HOSTS) for n in range(2 * HOSTS)))
        variables = {"POLLERD_BUDGET": str(budget)}
        for _ in range(3):
            async with daemon_process(database, tmp_path / "log", str(urls), **variables) as daemon:
                seen = len(server.at)
                await until(lambda seen=seen: len(server.at) > seen + budget)  # type: ignore[misc]
                stopping = asyncio.create_task(stand_still(daemon))
                seen = len(server.at)
                await until(lambda seen=seen: len(server.at) > seen + 3 * budget)  # type: ignore[misc]
                stopping.cancel()
                await daemon.kill()
        assert len(server.at) > 12 * budget
        assert_windows(server.at, budget)
