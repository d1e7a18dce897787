"""A listening socket for servers in an event loop, that knows when requests came by the kernel's clock.

A server in the loop of the daemon that asks it notes a request when the loop gets to it: two requests seem closer than
they were written if the loop was late at the first. The kernel's time has no such error.
"""

from __future__ import annotations

import socket
import struct
import time

SO_TIMESTAMPNS = 35
"""The option of a Linux socket that has the kernel tell when data came."""
_TIMESPEC = struct.Struct("qq")
_BACKLOG = 128
Ancillary = list[tuple[int, int, bytes]]
Address = tuple[str, int]


def kernel_time(ancillary: Ancillary) -> float:
    """When what `recvmsg` returned this with had come, epoch s; now if it does not say."""
    for _, kind, stamp in ancillary:
        if kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(stamp)
            return float(seconds + nanoseconds / 1e9)
    return time.time()


class _StampedConnection(socket.socket):
    """A connection that keeps when what was received last had come, monotonic s."""

    received_at = 0.0

    def recv(self, size: int, flags: int = 0) -> bytes:
        data, ancillary, _, _ = self.recvmsg(size, 128, flags)
        self.received_at = time.monotonic() - max(time.time() - kernel_time(ancillary), 0.0)
        return data


class StampedListener(socket.socket):
    """Listens at a port of all IPv4 addresses. Not for uvloop, which receives by itself."""

    def __init__(self, port: int) -> None:
        # Named as TCP, so that asyncio sends answers at once instead of waiting for acknowledgements (TCP_NODELAY).
        super().__init__(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._connections: dict[tuple[Address, Address], _StampedConnection] = {}
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.bind(("0.0.0.0", port))
        self.listen(_BACKLOG)

    def accept(self) -> tuple[socket.socket, Address]:
        plain, address = super().accept()
        connection = _StampedConnection(fileno=plain.detach())
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._connections[connection.getsockname(), address] = connection
        return connection, address

    def came_at(self, here: Address | None, peer: Address | None) -> float:
        """When what this client had sent last to this address of ours came, monotonic s; now if it is gone.

        Both ends tell connections apart: a client may use one port for several addresses at a time.
        """
        connection = None if here is None or peer is None else self._connections.get((here, peer))
        return time.monotonic() if connection is None else connection.received_at
