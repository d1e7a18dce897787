"""Event streams of a whole daemon: a change on the web comes out, and readers do not keep the daemon from ending."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
from pathlib import Path

import aiohttp

from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext
from tests.support.origin import Origin, Page
from tests.support.process import PATIENCE_SECONDS, DaemonProcess, daemon_process


async def port_of(daemon: DaemonProcess) -> int:
    """The API's port, once it takes calls: it is told a little before."""
    await daemon.said("listen=")
    port = int(re.findall(r"listen=[0-9.]+:(\d+)", daemon.log)[0])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                return port
            await asyncio.sleep(0.02)


async def test_a_change_comes_out_and_the_daemon_ends_with_readers_connected(tmp_path: Path, origin: Origin) -> None:
    origin.pages["/a"] = Page(body="<p>one</p>")
    urls, log = tmp_path / "urls.txt", tmp_path / "log"
    urls.write_text(origin.url("/a"))
    async with (
        daemon_process(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", log, str(urls), "--budget", "20") as daemon,
        aiohttp.ClientSession() as session,
        asyncio.timeout(3 * PATIENCE_SECONDS),
    ):
        root = f"http://127.0.0.1:{await port_of(daemon)}/api/v1"
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


async def prefilled(database: str) -> None:
    """A database with more changes than sockets hold."""
    store = await Store.open(database)
    url = "https://example.org/"
    added = await store.sites.add([SiteSpec(url, paused=True)], ["example.org:443"], 1.0, respect_deleted=False)
    site_id, _, _ = added.added[0]
    context = SiteContext(site_id, url, baseline=Baseline(fingerprint=b"0" * 16, media=Media.HTML))
    for n in range(60):
        poll = Poll(site_id, n, 1.0, OutcomeKind.CHANGED, 200, 0.1, 10, True)
        change = ChangeDraft(Media.HTML, "x" * 200_000, n - 1.0)
        await store.commit(Batch([PollRecord(poll, context, SiteState.ACTIVE, content=b"text", change=change)]))
    await store.close()


async def test_a_reader_that_does_not_read_does_not_keep_the_daemon_from_ending(tmp_path: Path) -> None:
    database, log = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", tmp_path / "log"
    await prefilled(database)
    async with daemon_process(database, log) as daemon:
        with socket.create_connection(("127.0.0.1", await port_of(daemon))) as stuck:
            stuck.sendall(b"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert await asyncio.to_thread(stuck.recv, 12) == b"HTTP/1.1 200"
            daemon.send(signal.SIGTERM)
            assert await daemon.ended() == 0
