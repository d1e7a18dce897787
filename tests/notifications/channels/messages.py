"""Messages and environments for tests of channels."""

from __future__ import annotations

import ssl
from typing import Any

from msgspec.structs import replace

from pollerd.events import EventKind
from pollerd.fetching.guard import Guard
from pollerd.fetching.poster import Poster
from pollerd.fetching.settings import FetchSettings
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.message import Event, EventSite, Message

AT = 1_795_593_600.0
"""2026-11-25 08:00 UTC."""
EVENT = Event("event-1", EventKind.FAILING, AT, EventSite(7, "https://shop.example/7", "Shop"), data={"failures": 3})
MESSAGE = Message(
    id="event-1",
    events=(EVENT,),
    subject="Shop fails 🔥",
    text="Shop fails: 3 polls\nline\u2028separator",
    html="<!doctype html><html><body><p>Shop fails: 3 polls</p></body></html>",
    markdown="**Shop** fails",
    thread="site-7",
)


def message(**changes: Any) -> Message:
    return replace(MESSAGE, **changes)


class Environment:
    """`async with Environment() as environment`: closes the connections of webhooks behind it."""

    def __init__(self, *, allow_private: bool = True, ca_file: str | None = None, proxy: str | None = None) -> None:
        self._settings = FetchSettings(allow_private=allow_private, ca_file=ca_file, proxy=proxy)
        self._poster: Poster | None = None

    async def __aenter__(self) -> ChannelEnvironment:
        self._poster = Poster(self._settings)
        tls = ssl.create_default_context(cafile=self._settings.ca_file)
        guard = Guard(self._settings.allow_private)
        return ChannelEnvironment(guard, self._poster, "pollerd.example", "https://pollerd.example/events", tls)

    async def __aexit__(self, *_: object) -> None:
        assert self._poster is not None
        await self._poster.close()
