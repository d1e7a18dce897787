"""Names become addresses, and the guard sees all of a name's addresses before any of them is dialled."""

from __future__ import annotations

import socket

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from pollerd.fetching.network.guard import BlockedAddressError, Guard


class GuardedResolver(AbstractResolver):
    """The system's look-up, for a connector. A name of which one address is denied has none.

    Not the allowed ones only: a name that leads inside and outside is an attack or a mistake, and which of the two it
    means nobody can tell. A proxy could not be told to dial some of its addresses and not others, either.
    """

    def __init__(self, guard: Guard) -> None:
        """Made inside the running loop."""
        self._guard, self._system = guard, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All addresses of the name. Raises `BlockedAddressError`, and OSErrors of the look-up."""
        found = await self._system.resolve(host, port, family)
        reason = self._guard.denial_of_any(entry["host"] for entry in found)
        if reason is not None:
            raise BlockedAddressError(reason)
        return found

    async def close(self) -> None:
        """Nothing is held."""
