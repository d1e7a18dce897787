"""Thousands of hosts on this machine, each with a few pages that change, and a log of all that was asked of them.

The log has the time at which the kernel took each request. They are served by a process of their own that the machine
runs before all others (SCHED_FIFO), so that answers do not wait for the nodes either.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import re
import time
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from typing import NamedTuple

from fault_runs.namespaces import PAGES
from tests.support.stamped_listener import StampedListener

_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru")
_NEWS = 5
FASTEST_SECONDS = 180.0
"""The shortest time between two changes of a page. Pages are polled every 25 s: one that is another at three polls in a
row counts as noise, by what docs/research/masks.md says, and its changes are rightly not reported any more."""
REFUSED_SECONDS = 8
"""What a host asks for with a 429 (Retry-After)."""
_MOVED = re.compile(r"/moved/(\d+)/(\d+)")
_TARGET = re.compile(rb"GET (\S+) HTTP/1\.1\r\n")


def word(edition: int) -> str:
    """A word for a number: pages that differ in digits alone may be taken for counters."""
    return "".join(_SYLLABLES[int(digit)] for digit in str(edition))


def editions(text: str) -> list[int]:
    """The editions whose items a text shows."""
    found = re.findall(r"item ((?:" + "|".join(_SYLLABLES) + r")+) arrived", text)
    return [int("".join(str(_SYLLABLES.index(one[n : n + 2])) for n in range(0, len(one), 2))) for one in found]


class Hit(NamedTuple):
    """A request: when (monotonic s), from which node's address, for which host and path; which edition it got.

    edition: -1: none, as for a robots.txt. page: host and path of the page whose edition it is; another one than that
    of the request where a redirect led here. poll: whether it is a poll's first request. refused: for how long the host
    asked to be left alone, s; 0: it did not.
    """

    at: float
    node: str
    host: int
    path: str
    edition: int
    page: tuple[int, str] = (-1, "")
    poll: bool = False
    refused: float = 0.0


class Pages:
    """Serves `count` hosts with `each` pages; page p changes every `period(p)` seconds.

    The last page of every fourth host has moved to another host, and is redirected there.
    """

    def __init__(self, count: int, each: int, port: int) -> None:
        self.count, self.each, self.port = count, each, port
        self.log: list[Hit] = []
        """Requests in order, once `served` has ended."""
        self._began = time.monotonic()
        context = multiprocessing.get_context("spawn")
        self._frozen_at = context.Value("d", float("inf"))
        self._refuses_until = context.Array("d", count)

    def freeze(self) -> None:
        """From now on nothing changes any more."""
        self._frozen_at.value = time.monotonic()

    def refuse(self, host: int, seconds: float) -> None:
        """The host answers 429 for so long."""
        self._refuses_until[host] = time.monotonic() + seconds

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serves while the block runs; then `log` is there."""
        ours, its = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(self, its), daemon=True)
        process.start()
        await asyncio.to_thread(ours.recv)  # it listens
        try:
            yield
        finally:
            ours.send(None)
            self.log = await asyncio.to_thread(ours.recv)
            process.join()

    async def serve_until(self, ended: Connection) -> None:
        """Serves in this process until something is received."""
        listener = StampedListener(self.port)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connection(listener, reader, writer)

        async with await asyncio.start_server(connected, sock=listener, backlog=1_000):
            ended.send(None)
            await asyncio.to_thread(ended.recv)
        ended.send(sorted(self.log))

    def urls(self) -> list[str]:
        """All pages."""
        return [
            f"http://{PAGES}.{host // 250}.{host % 250 + 1}:{self.port}/{page}"
            for host in range(self.count)
            for page in range(self.each)
        ]

    def edition(self, host: int, page: int, at: float) -> int:
        """The edition of a page at a moment, from 0 on."""
        at = min(at, self._frozen_at.value)
        period = FASTEST_SECONDS + 37.0 * ((host * 7 + page * 13) % 23)
        return int((at - self._began + period * ((host * 31 + page * 17) % 101) / 101) / period)

    def moved_to(self, host: int, page: int) -> int | None:
        """The host to which a page has moved; None: it is where it was."""
        return (host * 7 + 137) % self.count if page == self.each - 1 and host % 4 == 0 else None

    async def _connection(
        self, listener: StampedListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            ends = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
            node = ends[1][0]
            third, fourth = ends[0][0].split(".")[2:]
            host = int(third) * 250 + int(fourth) - 1
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                at = listener.came_at(*ends)
                found = _TARGET.match(head)
                path = found.group(1).decode() if found else ""
                writer.write(self._answer(node, host, path, at))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, node: str, host: int, path: str, at: float) -> bytes:
        moved = _MOVED.fullmatch(path)
        if moved is None and not path[1:].isdigit():
            self.log.append(Hit(at, node, host, path, -1))
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        home, page = (host, int(path[1:])) if moved is None else (int(moved[1]), int(moved[2]))
        if at < self._refuses_until[host]:
            self.log.append(Hit(at, node, host, path, -1, poll=moved is None, refused=REFUSED_SECONDS))
            return b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n" % REFUSED_SECONDS
        target = None if moved else self.moved_to(home, page)
        if target is not None:
            self.log.append(Hit(at, node, host, path, -1, poll=True))
            url = f"http://{PAGES}.{target // 250}.{target % 250 + 1}:{self.port}/moved/{home}/{page}"
            return f"HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode()
        edition = self.edition(home, page, at)
        self.log.append(Hit(at, node, host, path, edition, (home, f"/{page}"), moved is None))
        news = range(edition, max(edition - _NEWS, -1), -1)
        items = "".join(f"<li>item {word(number)} arrived</li>" for number in news)
        body = f"<h1>Page {page} of host {home}</h1><ul>{items}</ul>".encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _serve(pages: Pages, ended: Connection) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    asyncio.run(pages.serve_until(ended))
