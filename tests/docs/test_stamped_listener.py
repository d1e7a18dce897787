"""The server of the tests knows when each connection's request came, although two share a port of their client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

from tests.support.origin import Origin, Page
from tests.support.ports import free_port

_HOSTS = ("127.0.1.5", "127.0.1.7")


def connect(host: str, port: int, port_here: int) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind(("127.0.0.1", port_here))
    connection.connect((host, port))
    return connection


def ask(connection: socket.socket, host: str) -> None:
    connection.sendall(f"GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    while b"</html>" not in connection.recv(65_536):
        pass


async def test_requests_from_one_port_to_two_addresses_are_told_apart() -> None:
    async with Origin() as origin:
        origin.pages["/page"] = Page()
        port = free_port()
        with contextlib.ExitStack() as stack:
            one, two = [
                stack.enter_context(await asyncio.to_thread(connect, host, origin.port, port)) for host in _HOSTS
            ]
            before = time.monotonic()
            for connection, host in ((one, _HOSTS[0]), (two, _HOSTS[1]), (one, _HOSTS[0])):
                await asyncio.to_thread(ask, connection, host)
                await asyncio.sleep(0.05)
        first, second, third = (hit.at for hit in origin.log)
        assert before <= first <= second - 0.04 <= third - 0.08 <= time.monotonic()
