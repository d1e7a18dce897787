"""Every egress goes through the guard: a spy on the interpreter's own socket events proves it.

The daemon runs as a process of its own, with the guard closed but for loopback (the tests' web lives there). The spy
stands below all libraries: it sees each `socket.connect`, whoever made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.support.origin import Origin, Page, until
from tests.support.process import environment
from tests.support.proxy import proxied

NAMES = {
    "turning.example": [["127.0.0.1"]] * 3 + [["127.0.0.2"]],
    "both.example": [["93.184.215.14", "127.0.0.3"]],
    "outside.example": [["93.184.215.15"]],
    "inside.example": [["10.1.2.3"]],
    "metadata.example": [["169.254.169.254"]],
}
"""Name -> what a look-up gives, one after the other, then the last for ever."""


@asynccontextmanager
async def spied(folder: Path, *urls: str, loopback: bool = False, **variables: str) -> AsyncIterator[Spy]:
    """The daemon under the spy; `loopback`: the guard takes 127.0.0.1 and ::1 for public."""
    (folder / "urls.txt").write_text("\n".join(urls))
    setting = {"names": NAMES, "log": str(folder / "spy.jsonl"), "loopback": loopback}
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("spy.py")),
            json.dumps(setting),
            *("run", str(folder / "urls.txt"), "--database", f"sqlite+aiosqlite:///{folder / 'poll.db'}"),
            *("--listen", "127.0.0.1:0", "--host-interval", "0", "--min-interval", "0", "--budget", "50"),
            *("--min-saving", "0"),
            env={**environment(**variables), "PYTHONPATH": os.getcwd()},
            stdout=log,
            stderr=log,
        )
    spy = Spy(folder, process)
    try:
        yield spy
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Spy:
    """What the daemon did at its sockets."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self._folder, self._process = folder, process

    def events(self) -> list[dict[str, Any]]:
        assert self._process.returncode is None, (self._folder / "log").read_text()
        file = self._folder / "spy.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def refused(self) -> set[str]:
        return {event["address"] for event in self.events() if event["what"] == "refused"}

    def dialled(self) -> set[str]:
        return {event["address"] for event in self.events() if event["what"] == "connect"}

    def details(self) -> dict[str, str]:
        """Path of the site -> what its last poll came to, of sites polled."""
        with closing(sqlite3.connect(self._folder / "poll.db", timeout=30)) as connection:
            rows = connection.execute(
                "SELECT url, last_detail FROM site JOIN site_state ON site_id = id WHERE last_outcome IS NOT NULL"
            ).fetchall()
        return {urlsplit(url).path: detail for url, detail in rows}

    def polled_hosts(self) -> set[str]:
        with closing(sqlite3.connect(self._folder / "poll.db", timeout=30)) as connection:
            rows = connection.execute("SELECT url FROM site JOIN site_state ON site_id = id WHERE last_outcome <> ''")
            return {urlsplit(url).netloc for (url,) in rows}

    async def add(self, **fields: str) -> None:
        """Adds a site over REST."""
        said = (self._folder / "log").read_text
        await until(lambda: "listen=" in said(), 60)
        port = re.findall(r"listen=127\.0\.0\.1:(\d+)", said())[0]
        url, body = f"http://127.0.0.1:{port}/api/v1/sites", json.dumps(fields).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        for _ in range(500):  # it listens a moment after it says so
            with contextlib.suppress(urllib.error.URLError):
                (await asyncio.to_thread(urllib.request.urlopen, request)).close()
                return
            await asyncio.sleep(0.05)
        raise AssertionError(said())

    def assert_all_went_through_the_guard(self) -> None:
        """Each connection went, from a socket that the guard had made for that very address, to it."""
        allowed: dict[int, str] = {}
        for event in self.events():
            if event["what"] == "allowed":
                allowed[event["socket"]] = event["address"]
            elif event["what"] == "connect":
                assert allowed.get(event["socket"]) == event["address"], event


async def test_pages_robots_and_redirects(origin: Origin, tmp_path: Path) -> None:
    async def moved(_: web.Request) -> web.Response:
        raise web.HTTPFound(f"http://[::1]:{origin.port}/elsewhere")

    origin.pages |= {"/a": Page(), "/moved": Page(handler=moved)}
    async with spied(tmp_path, origin.url("/a", "127.0.0.1"), origin.url("/moved", "127.0.0.1"), loopback=True) as spy:
        await until(lambda: len(origin.hits("/a")) > 3 and bool(origin.hits("/moved")), 60)
        await until(lambda: "::1" in spy.dialled(), 60)
        assert origin.hits("/robots.txt")
        assert spy.dialled() == {"127.0.0.1", "::1"}
        spy.assert_all_went_through_the_guard()


async def test_names_that_lead_inside(origin: Origin, tmp_path: Path) -> None:
    """Nothing inside is dialled, and of a name that leads inside as well nothing outside."""
    urls = [f"http://{name}:{origin.port}/a" for name in NAMES if name != "turning.example"]
    async with spied(tmp_path, *urls) as spy:
        await until(lambda: spy.refused() >= {"127.0.0.3", "10.1.2.3", "169.254.169.254"}, 60)
        await until(lambda: "93.184.215.15" in spy.dialled(), 60)
        assert spy.dialled() == {"93.184.215.15"}
        spy.assert_all_went_through_the_guard()
    assert not origin.log


async def test_a_name_that_turns_inside(origin: Origin, tmp_path: Path) -> None:
    origin.pages["/a"] = Page(headers={"Connection": "close"})
    async with spied(tmp_path, f"http://turning.example:{origin.port}/a", loopback=True) as spy:
        await until(lambda: "127.0.0.2" in spy.refused(), 60)
        assert origin.hits("/a"), "it was polled while it was outside"
        assert spy.dialled() == {"127.0.0.1"}
        spy.assert_all_went_through_the_guard()


SPELLINGS = [
    ("http://0", "0.0.0.0"),
    ("http://2130706433", "127.0.0.1"),
    ("http://0x7f.1", "127.0.0.1"),
    ("http://017700000001", "127.0.0.1"),
    ("http://[::1]", "::1"),
    ("http://[::ffff:169.254.169.254]", "::ffff:169.254.169.254"),
    ("http://[2002:7f00:1::]", "2002:7f00:1::"),
    ("http://100.64.0.1", "100.64.0.1"),
    ("http://198.18.0.1", "198.18.0.1"),
    ("http://[fd00:ec2::254]", "fd00:ec2::254"),
    ("http://[fec0::1]", "fec0::1"),
    ("http://[64:ff9b::10.0.0.1]", "64:ff9b::a00:1"),
    ("http://168.63.129.16", "168.63.129.16"),
    ("http://127.0.0.1.", "127.0.0.1"),
    ("http://localhost", "127.0.0.1"),
    ("http://localhost.", "127.0.0.1"),
    ("http://１２７.0.0.1", "127.0.0.1"),
]
"""Ways to write an address that is not to be dialled, and the address."""


def plain(address: str) -> str:
    """One spelling of an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_ntop(family, socket.inet_pton(family, address))


async def test_spellings_of_sites(origin: Origin, tmp_path: Path) -> None:
    urls = [f"{url}:{origin.port}/a" for url, _ in SPELLINGS] + [f"http://[64:ff9b::8.8.8.8]:{origin.port}/a"]
    async with spied(tmp_path, *urls) as spy:
        wanted = {plain(address) for _, address in SPELLINGS}
        await until(lambda: {plain(a) for a in spy.refused()} >= wanted, 60)
        await until(lambda: bool(spy.dialled()), 60)
        assert {plain(a) for a in spy.dialled()} == {plain("64:ff9b::8.8.8.8")}
        spy.assert_all_went_through_the_guard()
    assert not origin.log


async def test_spellings_of_redirects(origin: Origin, tmp_path: Path) -> None:
    """At the first hop, and at the last of ten."""
    targets = [f"{url}:1/x" for url, _ in SPELLINGS if "127.0.0.1" not in url]
    targets += ["file:///etc/passwd", "data:text/html,hi", "//127.0.0.9:1/", "http://10.0.0.1/"]
    targets += ["http://169.254.169.254:80\\@example.org/", "http://user:secret@10.0.0.2/"]
    for n, target in enumerate(targets):
        origin.pages[f"/first/{n}"] = Page(status=302, headers={"Location": target})
        for hop in range(9):
            origin.pages[f"/{hop}/{n}"] = Page(status=302, headers={"Location": f"/{hop + 1}/{n}"})
        origin.pages[f"/9/{n}"] = origin.pages[f"/first/{n}"]
    origin.pages["/loop"] = Page(status=302, headers={"Location": "/loop?"})
    origin.pages |= {f"/long/{n}": Page(status=302, headers={"Location": f"/long/{n + 1}"}) for n in range(50)}
    paths = [f"/{way}/{n}" for n in range(len(targets)) for way in ("first", "0")] + ["/loop", "/long/0"]
    async with spied(tmp_path, *(origin.url(path, "127.0.0.1") for path in paths), loopback=True) as spy:
        await until(lambda: all(origin.hits(path.replace("/0/", "/9/")) for path in paths[:-2]), 60)
        await until(lambda: bool(origin.hits("/long/10")), 60)
        inside = {plain(a) for _, a in SPELLINGS if a not in ("127.0.0.1", "::1")} | {"127.0.0.9", "10.0.0.1"}
        await until(lambda: {plain(a) for a in spy.refused()} >= inside, 60)
        assert {plain(a) for a in spy.dialled()} <= {"127.0.0.1", "::1"}
        assert not origin.hits("/long/11"), "of a chain of 50 ten are followed"
        await until(lambda: len(spy.details()) == len(paths), 60)
        refused = [n for n, target in enumerate(targets) if target[:5] in ("file:", "data:") or "@" in target]
        for way, n in ((way, n) for way in ("first", "0") for n in refused):
            assert spy.details()[f"/{way}/{n}"].startswith("redirect 302 refused: ")
        assert "more than 10 redirects" in spy.details()["/long/0"]
        assert "10.0.0.2" not in spy.refused() | spy.dialled(), "userinfo is refused before anything is looked up"
        spy.assert_all_went_through_the_guard()


async def test_the_daemons_proxy_is_the_one_way_without_the_guard(tmp_path: Path) -> None:
    """It is where the operator says; what it is asked for is judged all the same."""
    async with proxied() as proxy:
        urls = ["http://10.0.0.1/", "http://both.example/", "http://inside.example/", "http://93.184.215.14:9/"]
        proxy.names["93.184.215.14:9"] = ("127.0.0.1", 9)
        async with spied(tmp_path, *urls, POLLERD_PROXY=proxy.url()) as spy:
            await until(lambda: "list_read" in (tmp_path / "log").read_text(), 60)
            await until(lambda: len(spy.polled_hosts()) >= 3 and bool(proxy.asked), 60)
            assert {asked.target.split("/")[2] for asked in proxy.asked} == {"93.184.215.14:9"}
            assert spy.dialled() == {"127.0.0.1"}


@pytest.mark.parametrize("proxy", ["http://10.0.0.7:3128", "http://localhost:3128"])
async def test_a_sites_own_proxy_is_dialled_through_the_guard(tmp_path: Path, proxy: str) -> None:
    async with spied(tmp_path) as spy:
        await spy.add(url="http://93.184.215.14/", proxy=proxy)
        await until(lambda: bool(spy.refused() & {"10.0.0.7", "127.0.0.1"}), 60)
        assert not spy.dialled()
