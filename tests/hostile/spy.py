"""`pollerd` under a spy on its sockets, with name look-ups of the test's making. Run by test_egress.

Argument 1 is JSON: `names` (name -> answers), `log` (where to write), `loopback` (let 127.0.0.1 and ::1 through); the
rest is pollerd's.
"""

from __future__ import annotations

import errno
import json
import socket
import sys
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any

import uvloop

from pollerd.fetching import client, guard

SETTING: dict[str, Any] = json.loads(sys.argv.pop(1))
LOG = open(SETTING["log"], "a", buffering=1)  # noqa: SIM115
ASKED: dict[str, int] = {}


def note(what: str, address: str, number: int = -1) -> None:
    LOG.write(json.dumps({"what": what, "address": address, "socket": number}) + "\n")


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Below every library: who connects whereto. Nothing leaves this machine: what is not loopback is refused here."""
    if event in ("socket.connect", "socket.sendto") and arguments[0].family != socket.AF_UNIX:
        address = arguments[1][0]
        note(event.removeprefix("socket."), address, arguments[0].fileno())
        if not ip_address(address).is_loopback:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nothing leaves this machine")


def spied_guard(real: Callable[..., socket.socket]) -> Callable[..., socket.socket]:
    def judge(self: guard.Guard, target: tuple[Any, ...]) -> socket.socket:
        try:
            made = real(self, target)
        except guard.BlockedAddressError:
            note("refused", target[4][0])
            raise
        note("allowed", target[4][0], made.fileno())
        return made

    return judge


def spied_names(real: Callable[..., str | None]) -> Callable[..., str | None]:
    """What names are refused for, before anything is dialled."""

    def judge(self: guard.Guard, addresses: Iterable[str]) -> str | None:
        known = list(addresses)
        for address in known:
            if self.denial(address) is not None:
                note("refused", address)
        return real(self, known)

    return judge


def told(real: Callable[..., Any]) -> Callable[..., Any]:
    """The lowest seam of look-ups: names of the test's, the rest as it is."""

    async def getaddrinfo(self: uvloop.Loop, host: Any, port: Any, **named: Any) -> Any:
        answers = SETTING["names"].get(host)
        if answers is None:
            return await real(self, host, port, **named)
        turn = ASKED.get(host, 0)
        ASKED[host] = turn + 1
        addresses = answers[min(turn, len(answers) - 1)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in addresses]

    return getaddrinfo


def opened(real: Callable[..., str | None]) -> Callable[..., str | None]:
    return lambda address, *rest: None if address in ("127.0.0.1", "::1") else real(address, *rest)


if __name__ == "__main__":
    guard.Guard.__call__ = spied_guard(guard.Guard.__call__)  # type: ignore[method-assign]
    guard.Guard.denial_of_any = spied_names(guard.Guard.denial_of_any)  # type: ignore[method-assign]
    if SETTING["loopback"]:
        guard.denial = opened(guard.denial)
    uvloop.Loop.getaddrinfo = told(uvloop.Loop.getaddrinfo)  # type: ignore[method-assign]
    client.DNS_CACHE_SECONDS = 0
    sys.addaudithook(watch)
    from pollerd.cli import main

    main()
