"""Server-sent events: live, resumed, filtered, slow, and ended."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import pytest
from msgspec.structs import replace

from pollerd.api import events
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.changes import ChangeFilter, ChangesRead
from pollerd.storage.values import Batch
from tests.api.conftest import Api
from tests.api.test_api_history import URL, record

PATIENCE = 60


@dataclass(frozen=True)
class Event:
    """One block of the stream; `data` None: no event, only an id or a comment."""

    id: int | None
    data: dict[str, object] | None
    comment: str = ""


class Stream:
    """A reader of the stream."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self.reply = reply

    async def block(self) -> Event:
        """The next block, whatever it is. Raises EOFError at the end."""
        text = await asyncio.wait_for(self.reply.content.readuntil(b"\n\n"), PATIENCE)
        if not text:
            raise EOFError
        fields = dict(line.split(": ", 1) for line in text.decode().strip().split("\n"))
        assert fields.keys() <= {"event", "data", "id", "retry", ""}, fields
        data = json.loads(fields["data"]) if "data" in fields else None
        assert (data is None) == ("event" not in fields)
        return Event(int(fields["id"]) if "id" in fields else None, data, fields.get("", ""))

    async def changes(self, count: int) -> list[Event]:
        """The next changes."""
        found: list[Event] = []
        while len(found) < count:
            block = await self.block()
            if block.data is not None:
                found.append(block)
        return found


@asynccontextmanager
async def stream(api: Api, query: str = "", last: int | None = None) -> AsyncIterator[Stream]:
    """A reader whose stream has begun: what is committed from now on comes to it."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with api.session.get(f"{api.root}/api/v1/events{query}", headers=headers) as reply:
        assert (reply.status, reply.content_type) == (200, "text/event-stream")
        yield Stream(reply)


async def find(api: Api, site_id: int, n: int, url: str = URL) -> None:
    """The n-th poll of the site finds a change."""
    found = record(site_id, n)
    await api.store.commit(Batch([replace(found, context=replace(found.context, url=url))]))


async def test_every_reader_gets_a_change_once_it_is_committed(api: Api) -> None:
    site_id = await api.add(URL)
    await find(api, site_id, 1)
    async with stream(api) as one, stream(api) as other:
        await find(api, site_id, 2)
        for reader in (one, other):
            event = (await reader.changes(1))[0]
            assert event.data == (await api("GET", f"/changes/{event.id}")).json
            assert event.data is not None
            assert event.data["summary"] == "change 2"


async def test_a_reader_that_comes_again_misses_nothing_and_gets_nothing_twice(api: Api) -> None:
    site_id, seen = await api.add(URL), list[int]()
    await find(api, site_id, 1)
    seen.append((await api("GET", "/changes")).json["items"][0]["id"])

    async def write() -> None:
        for n in range(2, 202):
            await find(api, site_id, n)
            if n % 20 == 0:
                await asyncio.sleep(0.02)

    writing = asyncio.create_task(write())
    while len(seen) < 201:
        async with stream(api, last=seen[-1]) as reader:
            seen += [event.id or 0 for event in await reader.changes(min(23, 201 - len(seen)))]
    await writing
    page = (await api("GET", "/changes?order=oldest&limit=1000")).json["items"]
    assert seen == [change["id"] for change in page]


async def test_a_reader_that_saw_no_event_can_go_on_all_the_same(api: Api) -> None:
    site_id = await api.add(URL)
    await find(api, site_id, 1)
    async with stream(api) as reader:
        begun = await reader.block()
    assert begun.id is not None
    await find(api, site_id, 2)
    async with stream(api, last=begun.id) as reader:
        assert [event.data["summary"] for event in await reader.changes(1) if event.data] == ["change 2"]


async def test_filters(api: Api) -> None:
    plain, tagged = await api.add("https://plain.org/"), await api.add(URL, tags=["news"])
    for n in (1, 2, 3):
        await find(api, plain, n, "https://plain.org/")
        await find(api, tagged, n)
    for query in (f"?last_event_id=0&site={tagged}", "?last_event_id=0&tag=news", "?since=1&tag=news"):
        async with stream(api, query) as reader:
            found = await reader.changes(3)
            assert [event.data["site_id"] for event in found if event.data] == [tagged] * 3
    async with stream(api, "?since=2027-01-15T08:00:03Z") as reader:
        assert {e.data["summary"] for e in await reader.changes(2) if e.data} == {"change 3"}


async def test_the_header_wins_over_the_parameter(api: Api) -> None:
    site_id = await api.add(URL)
    for n in (1, 2, 3):
        await find(api, site_id, n)
    ids = [change["id"] for change in (await api("GET", "/changes?order=oldest")).json["items"]]
    async with stream(api, "?last_event_id=0", last=ids[1]) as reader:
        assert (await reader.changes(1))[0].id == ids[2]


async def test_an_id_of_another_database_does_not_keep_the_changes_away(api: Api) -> None:
    site_id = await api.add(URL)
    await find(api, site_id, 1)
    async with stream(api, last=2**63 - 1) as reader:
        await find(api, site_id, 2)
        assert [event.data["summary"] for event in await reader.changes(1) if event.data] == ["change 2"]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", str(2**63)])
async def test_an_id_that_is_none_is_named(api: Api, last: str) -> None:
    for call in ({"headers": {"Last-Event-ID": last}}, {"params": {"last_event_id": last}}):
        reply = await api("GET", "/events", **call)
        assert (reply.status, reply.json["errors"][0]["field"].lower().replace("-", "_")) == (422, "last_event_id")


async def test_an_unknown_parameter_is_named_with_what_is_known(api: Api) -> None:
    for path in ("/events", "/changes"):
        reply = await api("GET", f"{path}?sites=1")
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, "sites")
        assert "did you mean site?" in reply.json["errors"][0]["allowed"]


async def test_silence_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    async with stream(api) as reader:
        begun = await reader.block()
        assert await reader.block() == Event(begun.id, None, "nothing new")


async def test_no_more_streams_than_the_database_can_serve(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS", 2)
    async with stream(api):
        async with stream(api):
            refused = await api("GET", "/events")
            assert (refused.status, refused.json["type"]) == (503, "urn:pollerd:problem:no-stream")
            assert int(refused.headers["Retry-After"]) >= 1
        async with asyncio.timeout(PATIENCE):
            while True:  # the server notices that the reader went
                async with api.session.get(f"{api.root}/api/v1/events") as reply:
                    if reply.status == 200:
                        return


async def test_one_caller_has_some_of_the_streams(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS_OF_CALLER", 1)
    async with stream(api):
        refused = await api("GET", "/events")
        assert (refused.status, refused.json["type"]) == (503, "urn:pollerd:problem:no-stream")
        assert refused.json["detail"] == "this caller has as many event streams as it may: 1"
    streams = events.Streams()
    with streams.counted("user:1"):
        assert streams.refusal("user:1") is not None
        assert streams.refusal("user:2") is None
        assert streams.under_way == 1
    assert streams.refusal("user:1") is None


async def test_a_database_that_is_gone_for_a_while_ends_no_stream(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    site_id, read, failures = await api.add(URL), api.store.changes.after, 0

    async def failing(wanted: ChangeFilter, after: int, limit: int) -> ChangesRead:
        nonlocal failures
        failures += 1
        if failures < 2:
            raise DatabaseUnavailableError("gone")
        return await read(wanted, after, limit)

    monkeypatch.setattr(api.store.changes, "after", failing)
    async with stream(api) as reader:
        await find(api, site_id, 1)
        assert (await reader.changes(1))[0].data


async def test_a_reader_that_does_not_read_holds_up_nobody(api: Api) -> None:
    site_id, address = await api.add(URL), urlsplit(api.root)
    with socket.create_connection((address.hostname, address.port)) as stuck:
        stuck.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        async with stream(api) as reader:
            for n in range(1, 301):
                found = record(site_id, n)
                assert found.change is not None
                # Far more than sockets hold: the server cannot send it all to who does not read.
                long = replace(found, change=replace(found.change, summary="x" * 30_000))
                await api.store.commit(Batch([long]))
            assert len(await reader.changes(300)) == 300


async def test_streams_end_whole_when_the_daemon_does(api: Api) -> None:
    async with stream(api) as reader:
        await reader.block()
        api.streams.end()
        # A stream that was cut off would raise here.
        await asyncio.wait_for(reader.reply.content.read(), PATIENCE)
    refused = await api("GET", "/events")
    assert (refused.status, refused.headers["Content-Type"]) == (503, "application/problem+json")
