"""SIGHUP takes a new token file at once, in the whole daemon."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp

from tests.app.test_event_streams import port_of
from tests.support.process import PATIENCE_SECONDS, DaemonProcess, daemon_process


async def reloaded(daemon: DaemonProcess, word: str = "event=reload") -> str:
    """Sends SIGHUP and waits for what it says."""
    before = daemon.log
    daemon.send(signal.SIGHUP)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while word not in daemon.log.removeprefix(before):
            await asyncio.sleep(0.02)
    return daemon.log.removeprefix(before)


async def test_a_new_token_file(tmp_path: Path) -> None:
    token, log = tmp_path / "token", tmp_path / "log"
    token.write_text("first-token\n")
    database, flags = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", ("--token-file", str(token))
    async with (
        daemon_process(database, log, flags=flags) as daemon,
        aiohttp.ClientSession() as session,
        asyncio.timeout(3 * PATIENCE_SECONDS),
    ):
        root = f"http://127.0.0.1:{await port_of(daemon)}/api/v1"

        async def status(secret: str) -> int:
            async with session.get(f"{root}/sites", headers={"Authorization": f"Bearer {secret}"}) as response:
                return response.status

        assert await status("first-token") == 200
        async with session.get(f"{root}/events", headers={"Authorization": "Bearer first-token"}) as stream:
            token.write_text("second-token\n")
            said = await reloaded(daemon)
            assert "changed=token" in said
            assert "restart_needed" not in said
            assert (await status("first-token"), await status("second-token")) == (401, 200)
            await stream.content.read()
        token.write_text("two words\n")
        assert "reload_failed" in await reloaded(daemon)
        token.unlink()
        assert "reload_failed" in await reloaded(daemon)
        assert await status("second-token") == 200
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    for secret in ("first-token", "second-token", "two words"):
        assert secret not in daemon.log
    assert "Traceback" not in daemon.log
