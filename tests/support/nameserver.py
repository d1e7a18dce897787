"""A name server of the tests' own: it answers over UDP what a test says, another thing at every question if wanted.

`names` maps a name to its answers, one after the other, then the last for ever; an answer is a list of addresses. The
answers may be kept for no time at all (TTL 0). `look_up` stands where asyncio's getaddrinfo does: it asks this server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

_A, _AAAA, _IN = 1, 28, 1
_NO_SUCH_NAME = 3
_numbers = itertools.count(1)


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """What is asked of it, and what it says."""

    names: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Names, once for each look-up."""
    address: tuple[str, int] = ("", 0)
    _transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, kind = _question(data)
        if kind == _A:
            self.asked.append(name)
        answers = self.names.get(name, [])
        turn = max(self.asked.count(name) - 1, 0)
        addresses = answers[min(turn, len(answers) - 1)] if answers else []
        assert self._transport is not None
        self._transport.sendto(_reply(data, kind, addresses, known=bool(answers)), addr)


@contextlib.asynccontextmanager
async def name_server(names: dict[str, list[list[str]]]) -> AsyncIterator[NameServer]:
    """Serves on a loopback port of its own."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: NameServer(names), ("127.0.0.1", 0))
    server.address = transport.get_extra_info("sockname")
    try:
        yield server
    finally:
        transport.close()


def look_up(server: NameServer, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A getaddrinfo that asks the server; `real` answers for addresses."""

    async def getaddrinfo(host: Any, port: Any, **options: Any) -> list[Any]:
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            return list(await real(host, port, **options))
        found = []
        for kind, family in ((_A, socket.AF_INET), (_AAAA, socket.AF_INET6)):
            for address in await _ask(server, str(host), kind):
                place = (address, port or 0) if kind == _A else (address, port or 0, 0, 0)
                found.append((family, socket.SOCK_STREAM, 6, "", place))
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return found

    return getaddrinfo


class _Asking(asyncio.DatagramProtocol):
    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        self._answer = answer

    def datagram_received(self, data: bytes, addr: object) -> None:
        if not self._answer.done():
            self._answer.set_result(data)


async def _ask(server: NameServer, name: str, kind: int) -> list[str]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Asking(answer), remote_addr=server.address)
    try:
        transport.sendto(_query(name, kind))
        return _addresses(await asyncio.wait_for(answer, 10))
    finally:
        transport.close()


# --- messages (RFC 1035, section 4) ----------------------------------------------------------------------------------


def _query(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split("."))
    return (
        struct.pack("!6H", next(_numbers) & 0xFFFF, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, _IN)
    )


def _question(data: bytes) -> tuple[str, int]:
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode("ascii"))
        at += 1 + data[at]
    return ".".join(labels), struct.unpack_from("!H", data, at + 1)[0]


def _reply(query: bytes, kind: int, addresses: list[str], *, known: bool) -> bytes:
    family = socket.AF_INET if kind == _A else socket.AF_INET6
    packed = [socket.inet_pton(family, a) for a in addresses if (":" in a) == (kind == _AAAA)]
    flags = 0x8580 if known else 0x8580 | _NO_SUCH_NAME
    head = query[:2] + struct.pack("!5H", flags, 1, len(packed), 0, 0)
    records = [b"\xc0\x0c" + struct.pack("!2HIH", kind, _IN, 0, len(address)) + address for address in packed]
    return head + query[12:] + b"".join(records)


def _addresses(reply: bytes) -> list[str]:
    at = 12
    while reply[at]:
        at += 1 + reply[at]
    at += 5
    found = []
    for _ in range(struct.unpack_from("!H", reply, 6)[0]):
        length = struct.unpack_from("!H", reply, at + 10)[0]
        data = reply[at + 12 : at + 12 + length]
        found.append(socket.inet_ntop(socket.AF_INET if length == 4 else socket.AF_INET6, data))
        at += 12 + length
    return found
