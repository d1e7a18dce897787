"""Event streams of a whole daemon: a change on the web comes out, and readers do not keep the daemon from ending."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path

import aiohttp

from tests.support.origin import Origin, Page
from tests.support.process import PATIENCE_SECONDS, daemon_process


async def test_a_change_comes_out_and_the_daemon_ends_with_readers_connected(tmp_path: Path, origin: Origin) -> None:
    origin.pages["/a"] = Page(body="<p>one</p>")
    urls, log = tmp_path / "urls.txt", tmp_path / "log"
    urls.write_text(origin.url("/a"))
    async with (
        daemon_process(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", log, str(urls), "--budget", "20") as daemon,
        aiohttp.ClientSession() as session,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        await daemon.said("listen=")
        root = f"http://{re.findall(r'listen=([0-9.:]+)', daemon.log)[0]}/api/v1"
        async with session.get(f"{root}/events?since=0") as reading, session.get(f"{root}/events") as idle:
            while not origin.hits("/a"):
                await asyncio.sleep(0.02)
            origin.pages["/a"] = Page(body="<p>two</p>")
            while not (line := await reading.content.readline()).startswith(b"data: "):
                assert line
            found = json.loads(line.removeprefix(b"data: "))
            assert (found["url"], found["site_id"]) == (origin.url("/a"), 1)
            daemon.send(signal.SIGTERM)
            # Both end whole: a stream that was cut off would raise.
            await reading.content.read()
            await idle.content.read()
            assert await daemon.ended() == 0
    assert "stopped" in daemon.log
    assert "Cancel" not in daemon.log
