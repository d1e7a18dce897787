"""SIGHUP reads list and settings again; what is broken changes nothing and is reported."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pty
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from structlog.testing import CapturingLogger

from pollerd.app.config import Config, load
from pollerd.app.serve import serve
from pollerd.daemon.control.control import Control
from pollerd.storage.store import Store
from tests.support.chromium import chromium_path
from tests.support.origin import Origin, Page, until
from tests.support.process import daemon_in_new_interpreter, environment


class Served:
    """A daemon in this process, its files, and what it says."""

    def __init__(self, folder: Path, said: CapturingLogger) -> None:
        self.list, self.toml, self._said = folder / "urls.txt", folder / "pollerd.toml", said
        self.database = f"sqlite+aiosqlite:///{folder / 'poll.db'}"
        self.list.write_text("")
        self.toml.write_text("")

    def config(self) -> Config:
        flags = {"database": self.database, "listen": "127.0.0.1:0", "allow_private": True, "host_interval": "0"}
        return load({**flags, "urls": self.list, "min_interval": "0", "min_saving": "0"}, file=self.toml, environ={})

    async def run(self, watch: Callable[[Control], Awaitable[None]]) -> None:
        async def when_read(control: Control) -> None:
            await until(lambda: bool(self.events("list_read")))
            await watch(control)

        await asyncio.wait_for(serve(self.config(), when_read, self.config), 60)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [call.kwargs for call in self._said.calls if call.kwargs.get("event") == name]

    async def reload(self, ends_with: str = "list_read") -> dict[str, Any]:
        """Sends SIGHUP and waits for the word: what it says."""
        before = len(self.events(ends_with))
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: len(self.events(ends_with)) > before)
        return self.events(ends_with)[-1]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    logger, before = CapturingLogger(), structlog.get_config()
    structlog.configure(processors=[structlog.processors.add_log_level], logger_factory=lambda *_: logger)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Served(tmp_path, logger)
    structlog.configure(**before)
    root.handlers[:], root.level = handlers, level


async def urls_of(database: str) -> set[str]:
    store = await Store.open(database, exclusive=False)
    try:
        return {site.spec.url async for site in store.sites.iterate()}
    finally:
        await store.close()


@pytest.mark.parametrize("sync", [False, True])
async def test_the_list(origin: Origin, served: Served, sync: bool) -> None:
    a, b, c = (origin.url(path) for path in ("/a", "/b", "/c"))
    origin.pages |= {path: Page() for path in ("/a", "/b", "/c")}
    served.toml.write_text(f"sync = {str(sync).lower()}")
    served.list.write_text(f"{a}\n{b}\n")

    async def watch(control: Control) -> None:
        await until(lambda: bool(served.events("list_read")))
        served.list.write_text(f"{a}\n{c}\nnonsense\n")
        said = await served.reload()
        assert (said["added"], said["existing"], said["removed"], said["rejected"]) == (1, 1, int(sync), 1)
        await until(lambda: bool(origin.hits("/c")))
        assert await urls_of(served.database) == ({a, c} if sync else {a, b, c})

    await served.run(watch)


async def test_settings_that_follow_at_once(origin: Origin, served: Served) -> None:
    origin.pages["/a"] = Page()
    served.list.write_text(origin.url("/a"))

    async def watch(control: Control) -> None:
        await until(lambda: bool(origin.hits("/a")))
        served.toml.write_text(
            'budget = 31\nallocator = "uniform"\nobjective = "freshness"\ncontact = "ops@example.org"\n'
            'max_interval = "1h"\nfull_get_every = 7\nkeep_contents = 3\nlog_level = "warning"\n'
        )
        os.kill(os.getpid(), signal.SIGHUP)  # at this level it does not say that it is through
        await until(lambda: "ops@example.org" in origin.hits("/a")[-1].headers["User-Agent"])
        view = control.allocation.view()
        assert (view.allocator, view.objective, view.budget) == ("uniform", "freshness", 31.0)
        assert control.sites.scheduling.max_interval_seconds == 3_600.0
        assert not structlog.get_logger().is_enabled_for(20)

    await served.run(watch)


async def test_settings_that_need_a_restart_are_named(served: Served) -> None:
    async def watch(control: Control) -> None:
        served.toml.write_text('seeds = "seeds.txt"\nmax_inflight = 7\nbudget = 9\n')
        for _ in range(2):  # each time, for it is so until then
            await served.reload()
        assert [said["settings"] for said in served.events("restart_needed")] == ["max_inflight, seeds"] * 2
        assert [said["changed"] for said in served.events("reloaded")] == ["budget", "nothing"]
        (started,) = served.events("started")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{started['listen']}/system", headers={"Accept": "text/html"}) as answer,
        ):
            rows = re.findall(r"<code>(budget|max_inflight)</code></th><td>([^<]*)<", await answer.text())
        assert dict(rows)["budget"] == "9.0", "as a restart takes it"
        assert dict(rows)["max_inflight"] != "7", "as it is in force"

    await served.run(watch)


async def test_settings_of_the_browser(served: Served) -> None:
    """Its bounds follow at once; which browser it is, and how it is started, needs a restart."""
    chromium = f'browser = "{chromium_path()}"\n'
    served.toml.write_text(f"{chromium}browser_no_sandbox = true\n")

    async def watch(control: Control) -> None:
        served.toml.write_text(
            f'{chromium}browser_deadline = "5s"\nbrowser_pages = 1\nbrowser_page_bytes = 1000000\n'
            'browser_proxy = "127.0.0.1:3129"\n'
        )
        await served.reload()
        assert served.events("restart_needed")[-1]["settings"] == "browser_no_sandbox, browser_proxy"
        assert served.events("reloaded")[-1]["changed"] == "browser_deadline, browser_page_bytes, browser_pages"
        served.toml.write_text("browser_pages = 0\n")
        assert "browser_pages" in (await served.reload("reload_failed"))["reason"]

    await served.run(watch)


@pytest.mark.parametrize(
    ("toml", "urls", "reason"),
    [
        ("budget = ", None, "pollerd.toml: "),
        ("budgt = 7", None, "unknown budgt"),
        ("budget = 0", None, "budget: must be polls per second from 0.01"),
        ('budget = 7\ncontact = "ops@example.org"\nca_file = "/nowhere.pem"', None, "ca_file: must be a readable PEM"),
        ('budget = 7\nmax_interval = "-1"', None, "max_interval: must be"),
        ("budget = 7", "<html>a proxy said no</html>\n", "names no site that can be used; line 1: "),
        ("budget = 7\nsync = true", None, "list of sites: there is no file"),
    ],
)
async def test_what_is_broken_changes_nothing(
    origin: Origin, served: Served, toml: str, urls: str | None, reason: str
) -> None:
    origin.pages["/a"] = Page()
    served.list.write_text(origin.url("/a"))

    async def watch(control: Control) -> None:
        await until(lambda: bool(origin.hits("/a")))
        served.toml.write_text(toml)
        if urls is not None:
            served.list.write_text(urls)
        elif "sync" in toml:
            served.list.unlink()
        said = await served.reload("reload_failed")
        assert reason in said["reason"]
        assert control.allocation.view().budget == 5.0
        assert control.health.status().sites == 1
        seen = len(origin.hits("/a"))
        await until(lambda: len(origin.hits("/a")) > seen + 2)
        assert "ops@" not in origin.hits("/a")[-1].headers["User-Agent"]
        served.toml.write_text("budget = 7")
        served.list.write_text(origin.url("/b"))
        assert (await served.reload())["added"] == 1
        assert control.allocation.view().budget == 7.0

    await served.run(watch)


async def test_an_allocator_that_cannot_hold_the_sites_changes_nothing(served: Served) -> None:
    served.list.write_text("http://127.0.0.1:9/\nhttp://127.0.0.2:9/\n")

    async def watch(control: Control) -> None:
        await until(lambda: control.health.status().sites == 2)
        await control.sites.update(1, {"weight": 2.0})
        served.toml.write_text('allocator = "htraa"\nbudget = 7\ncontact = "ops@example.org"')
        assert "htraa" in (await served.reload("reload_failed"))["reason"]
        view = control.allocation.view()
        assert (view.allocator, view.budget) == ("whittle", 5.0)

    await served.run(watch)


async def test_what_was_set_over_rest_stays_where_the_file_says_what_it_said(served: Served) -> None:
    served.toml.write_text("budget = 7")

    async def watch(control: Control) -> None:
        await control.allocation.set(budget=20.0)
        await served.reload()
        assert control.allocation.view().budget == 20.0
        served.toml.write_text("budget = 8")
        await served.reload()
        assert control.allocation.view().budget == 8.0

    await served.run(watch)


async def test_signals_at_any_time_do_not_end_the_process(tmp_path: Path) -> None:
    database, urls = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", tmp_path / "urls.txt"
    urls.write_text("http://127.0.0.1:9/\n")
    async with daemon_in_new_interpreter(database, tmp_path / "log", str(urls)) as daemon:
        await daemon.said("event=started")
        for _ in range(20):
            daemon.send(signal.SIGHUP)
        await daemon.said("event=reloaded")
        daemon.send(signal.SIGTERM)
        for _ in range(20):
            daemon.send(signal.SIGHUP)
        assert await daemon.ended() == 0
        assert "Traceback" not in daemon.log


_ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "pollerd", *sys.argv[1:]])
"""


async def test_a_terminal_that_hangs_up_ends_the_process(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    command = ["run", "--database", f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", "--listen", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ON_A_TERMINAL, *command, stdin=its, stdout=its, stderr=its, env=environment()
    )
    os.close(its)
    try:
        seen = b""
        while b"started" not in seen:
            seen += await asyncio.wait_for(asyncio.to_thread(os.read, ours, 4_096), 40)
        await asyncio.sleep(0.3)
        os.close(ours)
        await asyncio.wait_for(process.wait(), 40)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        with contextlib.suppress(OSError):
            os.close(ours)
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}")
    try:
        assert (await store.runs.start("test", 0.0)).previous_clean
    finally:
        await store.close()
