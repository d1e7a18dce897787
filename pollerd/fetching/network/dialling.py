"""Dials a host through the guard: all addresses of a name are judged, and one of those is dialled, no other."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any, TypeAlias

import aiohappyeyeballs

from pollerd.fetching.network.guard import DENIED_ERRNO, BlockedAddressError, Guard
from pollerd.model import OutcomeKind

Address: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""An entry of `getaddrinfo`."""
_DELAY_SECONDS = 0.25
"""How long one address is tried alone before the next one is tried, too (RFC 8305)."""
DIALLING_FAULTS = (OSError, UnicodeError, RuntimeError, ValueError)
"""Exceptions of a dial that are not our faults. RuntimeError: uvloop's, of some connects."""


async def allowed_addresses(guard: Guard, host: str, port: int) -> list[Address]:
    """Returns the addresses of a host, all of them allowed; `host`: a name, or an address without brackets.

    Raises `BlockedAddressError` if any is denied, and OSErrors and UnicodeErrors of the look-up.
    """
    found = await addresses_of(host, port)
    reason = guard.denial_of_any(str(entry[4][0]) for entry in found)
    if reason is not None:
        raise BlockedAddressError(reason)
    return found


async def addresses_of(host: str, port: int) -> list[Address]:
    """Returns the addresses of a host, not judged. Raises OSErrors and UnicodeErrors."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), int(kind), proto, name, tuple(place)) for family, kind, proto, name, place in found]


async def connect(addresses: Sequence[Address], create: Any) -> socket.socket:
    """Connects to one of these addresses and to no other. `create`: makes the socket, for example a guard.

    Raises OSErrors.
    """
    sock = await aiohappyeyeballs.start_connection(
        list(addresses), happy_eyeballs_delay=_DELAY_SECONDS, interleave=1, socket_factory=create
    )
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


async def dial(guard: Guard, host: str, port: int) -> socket.socket:
    """Returns a connected, non-blocking socket to an allowed address of the host. Raises `DIALLING_FAULTS`."""
    return await connect(await allowed_addresses(guard, host, port), guard)


def why_not_dialled(error: BaseException) -> tuple[OutcomeKind, str]:
    """Returns kind and detail of one of `DIALLING_FAULTS`."""
    if isinstance(error, OSError) and error.errno == DENIED_ERRNO:
        return OutcomeKind.BLOCKED_ADDRESS, error.strerror or "address denied"
    if isinstance(error, socket.gaierror | UnicodeError):
        return OutcomeKind.DNS_ERROR, getattr(error, "strerror", None) or "not a name"
    if isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT:
        return OutcomeKind.TIMEOUT, "no connection within the deadline"
    return OutcomeKind.CONNECT_ERROR, getattr(error, "strerror", None) or str(error) or "no connection"
