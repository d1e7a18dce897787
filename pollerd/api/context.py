"""What calls of the API are given: the ports to the daemon, the store, the caller."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from pollerd.api.http import caller_of
from pollerd.daemon.control.control import Control
from pollerd.storage.store import Store


@dataclass(frozen=True, slots=True)
class ApiPorts:
    """The control and the store that calls use, and a lock."""

    control: Control
    store: Store
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by calls that read a site and then write a dependent value: none may run in between."""


async def _ports(request: Request) -> ApiPorts:
    found: ApiPorts = request.app.state.ports
    return found


async def _caller(request: Request) -> str:
    """Returns a description of the caller of a write, as far as known: how it was authorised."""
    caller = caller_of(request)
    if caller is None:
        return "somebody on this machine"
    if caller.is_user:
        return f"user {caller.name}"
    return "a token of scope write" if caller.of_settings else f"token {caller.name}"


Daemon = Annotated[ApiPorts, Depends(_ports)]
Caller = Annotated[str, Depends(_caller)]
