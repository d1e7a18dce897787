"""A list that comes through a pipe."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.support.origin import Origin, Page, until
from tests.support.process import daemon_process


async def test_a_list_from_a_pipe_is_read_once_and_whole(tmp_path: Path, origin: Origin) -> None:
    origin.pages["/a"] = Page()
    pipe, log = tmp_path / "urls", tmp_path / "log"
    os.mkfifo(pipe)
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_text, origin.url("/a") + "\n"))
    async with daemon_process(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", log, str(pipe)) as daemon:
        await daemon.said("added=1")
        await until(lambda: bool(origin.hits("/a")))
    await writing
