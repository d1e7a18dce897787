"""Many hosts and few descriptors: the limit is raised, else kept within."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.origin import Origin, Page, until
from tests.support.process import environment

HOSTS = 150


async def started(limit: str, tmp_path: Path, *arguments: str) -> asyncio.subprocess.Process:
    """`pollerd run` under `ulimit`; its log goes to `log` in the folder."""
    with (tmp_path / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            f'ulimit {limit} && exec "$@"',
            "sh",
            *(sys.executable, "-m", "pollerd", "run", *arguments, "--allow-private", "--listen", "127.0.0.1:0"),
            *("--database", f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", "--host-interval", "0"),
            env=environment(),
            stdout=log,
            stderr=log,
        )


@pytest.mark.parametrize("limit", ["-S -n 128", "-n 128"])
async def test_many_hosts_do_not_use_up_the_descriptors(limit: str, tmp_path: Path, origin: Origin) -> None:
    origin.pages["/"] = Page()
    urls = tmp_path / "urls.txt"
    urls.write_text("\n".join(origin.url("/", host=n) for n in range(HOSTS)))
    process = await started(limit, tmp_path, str(urls), "--budget", "100")
    try:
        await until(lambda: len({hit.host for hit in origin.hits()}) == HOSTS)
        soft, hard = re.findall(r"Max open files +(\d+) +(\d+)", Path(f"/proc/{process.pid}/limits").read_text())[0]
        assert soft == (hard if int(hard) < 65_536 else "65536")
    finally:
        process.terminate()
        await process.wait()
    log = (tmp_path / "log").read_text()
    assert "Too many open files" not in log
    assert "robots_unreachable" not in log
    assert ("descriptors_scarce" in log) == (limit == "-n 128")
