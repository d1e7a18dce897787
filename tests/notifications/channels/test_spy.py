"""A spy below all libraries: where the daemon's own sockets go as channels send.

Apprise connects in a process of its own, which has a spy of its own: test_apprise, test_hostile_plugins.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pollerd.notifications.channels.settings import make_channel, parse_channel
from pollerd.notifications.message import AnswerKind
from tests.notifications.channels.messages import AT, MESSAGE, Environment

_SPIED = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_seen: list[tuple[str, Any]] | None = None
SETTINGS: dict[str, Any] = {
    "webhook": {"url": "http://{host}:{port}/hook", "secret": "whsec_" + "A" * 43 + "="},
    "email": {
        "host": "{host}",
        "port": "{port}",
        "security": "none",
        "sender": "a@example.org",
        "recipients": ["b@example.org"],
    },
    "nats": {"host": "{host}", "port": "{port}", "subject": "pages"},
}


def _spy(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event in _SPIED and arguments[0].family != socket.AF_UNIX:
        _seen.append((event, arguments[1][:2]))


sys.addaudithook(_spy)  # stays for as long as the process; it looks only while a test wants it


@pytest.fixture
def seen() -> Iterator[list[tuple[str, Any]]]:
    global _seen
    _seen = []
    yield _seen
    _seen = None


def settings_of(kind: str, host: str, port: int) -> dict[str, Any]:
    given = {
        name: value.replace("{host}", f"[{host}]" if kind == "webhook" and ":" in host else host).replace(
            "{port}", str(port)
        )
        if isinstance(value, str)
        else value
        for name, value in SETTINGS[kind].items()
    }
    return {**given, "port": port} if "port" in given else given


@pytest.mark.parametrize("kind", sorted(SETTINGS))
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254"])
async def test_nothing_leaves_for_a_private_address(kind: str, host: str, seen: list[tuple[str, Any]]) -> None:
    async with Environment(allow_private=False) as environment:
        channel = make_channel(*parse_channel(kind, settings_of(kind, host, 9)), environment)
        answer = await channel.send(MESSAGE, AT)
        await channel.close()
    assert answer.kind in {AnswerKind.RETRY, AnswerKind.DEAD}
    assert seen == []


@pytest.mark.parametrize("kind", sorted(SETTINGS))
async def test_the_spy_sees_what_is_allowed(kind: str, seen: list[tuple[str, Any]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with Environment() as environment:
        channel = make_channel(*parse_channel(kind, settings_of(kind, "127.0.0.1", port)), environment)
        await channel.send(MESSAGE, AT)
        await channel.close()
    assert set(seen) == {("socket.connect", ("127.0.0.1", port))}
