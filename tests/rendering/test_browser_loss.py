"""A browser that crashes, vanishes or hangs is no site's fault, comes back, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from pollerd.rendering.outcome import RenderedOutcome
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import RenderingSettings
from tests.support.chromium import browser_folders, children_with, processes_with
from tests.support.origin import Origin, Page, until, until_found

FETCHING = FetchSettings(allow_private=True)


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever is left there is this test's. Its path is short, for there are sockets in it."""
    tmp_path_factory.getbasetemp()  # pytest's own outlives the test
    with tempfile.TemporaryDirectory(prefix="loss-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture
async def site() -> AsyncIterator[Origin]:
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with Origin() as server:
        server.pages |= {"/": Page("<p>hello</p>"), "/slow": Page(handler=never)}
        yield server


async def rendered(renderer: Renderer, site: Origin, path: str = "/") -> RenderedOutcome:
    return await renderer.render(Request(site.url(path)))


async def until_it_works(renderer: Renderer, site: Origin) -> None:
    for _ in range(240):
        if (await rendered(renderer, site)).kind is OutcomeKind.BODY:
            return
        await asyncio.sleep(0.25)
    pytest.fail("the browser does not come back")


def main_process(folder: Path) -> int:
    """The process of the browser that has this home."""
    pids = [pid for pid in processes_with("--remote-debugging-pipe") if f"HOME={folder}" in environment(pid)]
    assert len(pids) == 1
    return pids[0]


def environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return []


async def test_a_browser_killed_in_the_middle(settings: RenderingSettings, site: Origin) -> None:
    before = browser_folders()
    async with Renderer(settings, FETCHING) as renderer:
        assert (await rendered(renderer, site)).kind is OutcomeKind.BODY
        homes = [folder for folder in browser_folders() - before if folder.name.startswith("pollerd-browser-")]
        poll = asyncio.create_task(rendered(renderer, site, "/slow"))
        await until(lambda: sum(site.concurrent.values()) > 0)
        os.kill(main_process(homes[0]), signal.SIGKILL)
        outcome = await asyncio.wait_for(poll, 60)
        assert (outcome.kind, outcome.browser_fault) == (OutcomeKind.CONNECT_ERROR, True)
        assert outcome.detail == "the browser failed: it ended while it rendered"
        await until_it_works(renderer, site)
        assert renderer.starts == 2
    assert browser_folders() - before == set()


async def test_what_is_started_has_nothing_of_our_environment(
    settings: RenderingSettings, site: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLLERD_TOKEN", "s3cret")
    before = browser_folders()
    async with Renderer(settings, FETCHING) as renderer:
        await rendered(renderer, site)
        homes = [folder for folder in browser_folders() - before if folder.name.startswith("pollerd-browser-")]
        pid = main_process(homes[0])
        assert not [variable for variable in environment(pid) if "POLLERD" in variable or "s3cret" in variable]
        command = Path(f"/proc/{pid}/cmdline").read_text()
        for switch in ("--proxy-bypass-list=<-loopback>", "--disable-quic", "--disable-background-networking"):
            assert switch in command
        assert "--remote-debugging-port" not in command, "nobody else may connect"
    await until(lambda: processes_with(str(homes[0])) == [])
    await until(lambda: pid not in processes_with("--remote-debugging-pipe"))
    await until(lambda: browser_folders() - before == set())


async def test_a_driver_killed_in_the_middle(settings: RenderingSettings, site: Origin) -> None:
    before = browser_folders()
    async with Renderer(settings, FETCHING) as renderer:
        assert (await rendered(renderer, site)).kind is OutcomeKind.BODY
        poll = asyncio.create_task(rendered(renderer, site, "/slow"))
        await until(lambda: sum(site.concurrent.values()) > 0)
        for driver in children_with("run-driver"):
            os.kill(driver, signal.SIGKILL)
        outcome = await asyncio.wait_for(poll, 60)
        assert outcome.browser_fault
        await until_it_works(renderer, site)
    await until(lambda: browser_folders() - before == set())


async def test_a_browser_that_does_not_start_is_tried_again_later(
    tmp_path: Path, site: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pollerd.rendering.browser._FIRST_WAIT_SECONDS", 4.0)  # longer than a busy machine holds us up
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    program.chmod(0o700)
    before = browser_folders()
    settings = RenderingSettings(browser=str(program), browser_no_sandbox=True)
    async with Renderer(settings, FETCHING) as renderer:
        outcomes = [await rendered(renderer, site) for _ in range(3)]
        assert {(one.kind, one.browser_fault, one.status) for one in outcomes} == {
            (OutcomeKind.CONNECT_ERROR, True, None)
        }
        assert re.fullmatch(r"the browser failed: it is tried again in \d s", outcomes[1].detail)
        assert renderer.starts == 1

        async def tried_again() -> bool:
            await rendered(renderer, site)
            return renderer.starts == 2

        await until_found(tried_again)
    await until(lambda: browser_folders() - before == set())


@asynccontextmanager
async def running(chromium: str, folder: Path, port: int) -> AsyncIterator[str]:
    """A browser that somebody else started; its address."""
    command = [chromium, "--headless", "--no-sandbox", f"--remote-debugging-port={port}", f"--user-data-dir={folder}"]
    process = subprocess.Popen([*command, "about:blank"], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        await until(lambda: answers(port))
        yield f"http://localhost:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_browser_that_the_user_names(chromium: str, tmp_path: Path, site: Origin, unused_tcp_port: int) -> None:
    port = unused_tcp_port
    async with running(chromium, tmp_path / "a", port) as address:
        async with Renderer(RenderingSettings(browser=address), FETCHING) as renderer:
            site.pages["/"] = Page("<p>hello</p><script>document.title = typeof RTCPeerConnection</script>")
            outcome = await rendered(renderer, site)
            assert outcome.kind is OutcomeKind.BODY
            assert b"<title>undefined</title>" in (outcome.body or b"")
            assert outcome.requests >= 1, "through our proxy"
            denied = await renderer.render(Request("http://169.254.169.254/"))
            assert denied.kind is OutcomeKind.BLOCKED_ADDRESS
            poll = asyncio.create_task(rendered(renderer, site, "/slow"))
            await until(lambda: sum(site.concurrent.values()) > 0)
            for pid in processes_with(f"--user-data-dir={tmp_path / 'a'}"):
                os.kill(pid, signal.SIGKILL)
            assert (await asyncio.wait_for(poll, 60)).browser_fault
            assert (await rendered(renderer, site)).browser_fault
            async with running(chromium, tmp_path / "b", port):
                await until_it_works(renderer, site)
        async with running(chromium, tmp_path / "c", port) as other:
            async with Renderer(RenderingSettings(browser=other), FETCHING) as renderer:
                assert (await rendered(renderer, site)).kind is OutcomeKind.BODY
            async with Renderer(RenderingSettings(browser=other), FETCHING) as renderer:
                assert (await rendered(renderer, site)).kind is OutcomeKind.BODY, "our end was not its end"


async def test_an_address_where_no_browser_is(site: Origin, unused_tcp_port: int) -> None:
    for address in (f"http://127.0.0.1:{unused_tcp_port}", f"ws://127.0.0.1:{unused_tcp_port}/x?token=s3cret"):
        async with Renderer(RenderingSettings(browser=address), FETCHING) as renderer:
            outcome = await rendered(renderer, site)
        assert (outcome.kind, outcome.browser_fault) == (OutcomeKind.CONNECT_ERROR, True)
        assert "s3cret" not in outcome.detail
