"""A real NATS server with JetStream, of a test's own."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig

from tests.support.ports import free_port


@dataclass
class NatsServer:
    """Where it listens; `stop` and `start` keep port and streams."""

    command: list[str]
    port: int
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        for _ in range(3_000):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
        raise AssertionError("the server does not start")

    async def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            await self.process.wait()
            self.process = None

    async def add_stream(self, name: str, *subjects: str, **login: Any) -> None:
        client = await nats.connect(f"nats://127.0.0.1:{self.port}", **login)
        await client.jetstream().add_stream(StreamConfig(name=name, subjects=list(subjects)))
        await client.close()

    async def stored(self, name: str, number: int, **login: Any) -> tuple[bytes, dict[str, str]]:
        """A message of a stream, and its headers."""
        client = await nats.connect(f"nats://127.0.0.1:{self.port}", **login)
        found = await client.jetstream().get_msg(name, number)
        await client.close()
        return found.data or b"", dict(found.headers or {})


@asynccontextmanager
async def nats_server(folder: Path, config: str = "", *, jetstream: bool = True) -> AsyncIterator[NatsServer]:
    """Serves on a loopback port; `config`: more lines of its configuration."""
    program = shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("nats-server is needed in CI")
        pytest.skip("nats-server is not installed")
    port = free_port()
    file = folder / "nats.conf"
    store = f'jetstream {{ store_dir: "{folder}/js" }}' if jetstream else ""
    file.write_text(f'listen: "127.0.0.1:{port}"\n{store}\n{config}\n')
    server = NatsServer([program, "-c", str(file)], port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
