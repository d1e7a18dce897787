"""A web server whose log is the kernel's: when each request came, however late its own process is."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from typing import Self

from tests.support.stamped_listener import SO_TIMESTAMPNS, kernel_time

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\nConnection: close\r\n\r\n<p>hello</p>"
_CLOSED_SECONDS, _ROUND_SECONDS = 0.4, 1.7


class StampedServer:
    """Serves one small page a connection at every path of every 127.x.y.z address, and no robots.txt.

    Now and then it takes no connections for a while: those that are dialled then come about a second later, which is
    when TCP tries again, beside those dialled at that time.

    `at`: when the request of each page came (epoch s), by the clock of the kernel that took it.
    """

    def __init__(self) -> None:
        self.at: list[float] = []
        self._listener = socket.create_server(("0.0.0.0", 0), backlog=1)
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def url(self, page: int, host: int) -> str:
        """The URL of a page on one of many hosts."""
        return f"http://127.0.{host // 250}.{host % 250 + 1}:{self.port}/{page}"

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _serve(self) -> None:
        while not self._ending.is_set():
            for key, _ in self._selector.select(timeout=0.1):
                if key.fileobj is self._listener:
                    if time.monotonic() % _ROUND_SECONDS > _CLOSED_SECONDS:
                        self._accept()
                    elif len(self._selector.get_map()) == 1:
                        time.sleep(0.002)
                else:
                    self._answer(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            request, ancillary, _, _ = connection.recvmsg(65_536, 256)
            if request:
                robots = request.startswith(b"GET /robots.txt ")
                if not robots:
                    self.at.append(kernel_time(ancillary))
                connection.sendall(_NOT_FOUND if robots else _PAGE)
                return
        self._selector.unregister(connection)
        connection.close()
