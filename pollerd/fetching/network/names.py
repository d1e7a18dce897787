"""Resolves names; the guard checks all addresses of a name before any is dialled."""

from __future__ import annotations

import socket

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from pollerd.fetching.network.guard import BlockedAddressError, Guard


class GuardedResolver(AbstractResolver):
    """The system's resolver, for a connector. Refuses a name with a denied address.

    It does not keep only the allowed ones: a name with inner and outer addresses is an attack or a mistake, and its
    intent is unknown. A proxy could not be restricted to some addresses, either.
    """

    def __init__(self, guard: Guard) -> None:
        """Must be called inside the running loop."""
        self._guard, self._system = guard, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns all addresses of the name. Raises `BlockedAddressError`, and OSErrors of the lookup."""
        found = await self._system.resolve(host, port, family)
        reason = self._guard.denial_of_any(entry["host"] for entry in found)
        if reason is not None:
            raise BlockedAddressError(reason)
        return found

    async def close(self) -> None:
        """Does nothing: there are no resources."""
