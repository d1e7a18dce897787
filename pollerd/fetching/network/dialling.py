"""Dials a named host through the guard, for connections that are no HTTP of ours: browsers' proxies, mail, brokers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import aiohappyeyeballs

from pollerd.fetching.network.guard import BlockedAddressError, Guard

Address: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""An entry of `getaddrinfo`."""
_DELAY_SECONDS = 0.25
"""How long one address is tried alone before the next one is tried, too (RFC 8305)."""


async def addresses_of(host: str, port: int) -> list[Address]:
    """Returns the addresses of a host; `host`: a name, or an address without brackets. Raises gaierror."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), int(kind), proto, name, tuple(place)) for family, kind, proto, name, place in found]


async def allowed_addresses(guard: Guard, host: str, port: int) -> list[Address]:
    """Returns the addresses of a host, all of them allowed: what is dialled is one of those.

    Raises `BlockedAddressError` if one is denied, and gaierror.
    """
    found = await addresses_of(host, port)
    reason = guard.denial_of_any(str(entry[4][0]) for entry in found)
    if reason is not None:
        raise BlockedAddressError(reason)
    return found


async def connect(addresses: list[Address], create: Callable[[Address], socket.socket]) -> socket.socket:
    """Connects to one of these addresses and to no other. `create`: makes the socket; a guard judges once more.

    Raises OSErrors.
    """
    sock = await aiohappyeyeballs.start_connection(
        addresses, happy_eyeballs_delay=_DELAY_SECONDS, interleave=1, socket_factory=create
    )
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


async def dial(guard: Guard, host: str, port: int) -> socket.socket:
    """Returns a connection to a host that the guard allows. Raises `BlockedAddressError` and other OSErrors."""
    return await connect(await allowed_addresses(guard, host, port), guard)
