"""Tokens that are replaced while the API runs: the old ones die at once, with all that they had been let in to."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AbstractAsyncContextManager

import aiohttp
import pytest

from pollerd.api.settings import ApiSettings
from pollerd.errors import InvalidValueError
from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext
from tests.api.conftest import Api, NewApi
from tests.support.origin import until

OLD = ApiSettings.listening("127.0.0.1:0", token="old-token", read_token="reader")
NEW = ApiSettings.listening("127.0.0.1:0", token="new-token", read_token="reader")
NONE = ApiSettings.listening("127.0.0.1:0")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def guarded(new_api: NewApi) -> Api:
    return await new_api(OLD)


def events(api: Api, token: str | None) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    return api.session.get(f"{api.root}/api/v1/events", headers={} if token is None else bearer(token))


async def ended(response: aiohttp.ClientResponse) -> bytes:
    """What is left of a stream that ends in order: one that was cut off raises."""
    return await asyncio.wait_for(response.content.read(), 20)


async def test_the_new_one_is_in_force_at_once(guarded: Api) -> None:
    assert (await guarded("GET", "/sites", headers=bearer("old-token"))).status == 200
    guarded.tokens.put_in_force(NEW)
    for _ in range(30):  # who sends the old one does not guess, and so is not held up
        assert (await guarded("GET", "/sites", headers=bearer("old-token"))).status == 401
    assert (await guarded("POST", "/sites", {"url": "http://a.example/"}, headers=bearer("new-token"))).status == 201
    assert (await guarded("GET", "/sites", headers=bearer("reader"))).status == 200


async def test_the_old_ones_event_streams_end_and_the_others_go_on(guarded: Api) -> None:
    async with events(guarded, "old-token") as old, events(guarded, "reader") as reader:
        await old.content.readline()
        guarded.tokens.put_in_force(NEW)
        await ended(old)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.content.read(), 0.5)
        await until(lambda: guarded.streams.under_way == 1)
        guarded.tokens.put_in_force(NEW)  # the same again changes nothing
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.content.read(), 0.2)


@pytest.mark.parametrize(("before", "after", "token"), [(NONE, NEW, None), (OLD, NONE, "old-token")])
async def test_a_first_token_and_no_token_any_more(
    new_api: NewApi, before: ApiSettings, after: ApiSettings, token: str | None
) -> None:
    api = await new_api(before)
    async with events(api, token) as response:
        await response.content.readline()
        api.tokens.put_in_force(after)
        await ended(response)
    assert (await api("GET", "/sites")).status == (401 if after is NEW else 200)


async def test_an_address_that_needs_a_token_is_not_left_without(new_api: NewApi) -> None:
    """The address that is listened on counts, not what the settings now say: that needs a restart."""
    api = await new_api(ApiSettings("0.0.0.0", 0, OLD.tokens))
    for change in (api.tokens.check, api.tokens.put_in_force):
        with pytest.raises(InvalidValueError, match="listen"):
            change(NONE)
    assert (await api("GET", "/sites")).status == 401
    assert (await api("GET", "/sites", headers=bearer("old-token"))).status == 200


async def test_a_body_that_comes_after_its_token_has_gone_changes_nothing(guarded: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(guarded.root.rpartition(":")[2]))
    body = json.dumps({"url": "https://late.example/"}).encode()
    head = "POST /api/v1/sites HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer old-token\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:5])
    await asyncio.sleep(0.2)
    guarded.tokens.put_in_force(NEW)
    writer.write(body[5:])
    assert (await asyncio.wait_for(reader.readline(), 20)).split()[1] == b"401"
    writer.close()
    assert (await guarded("GET", "/sites", headers=bearer("reader"))).json["items"] == []


async def many_changes(store: Store) -> None:
    """More than sockets hold."""
    url = "https://example.org/"
    added = await store.sites.add([SiteSpec(url, paused=True)], ["example.org:443"], 1.0, respect_deleted=False)
    context = SiteContext(added.added[0][0], url, baseline=Baseline(fingerprint=b"0" * 16, media=Media.HTML))
    for n in range(60):
        poll = Poll(context.site_id, n, 1.0, OutcomeKind.CHANGED, 200, 0.1, 10, True)
        change = ChangeDraft(Media.HTML, "x" * 200_000, n - 1.0)
        await store.commit(Batch([PollRecord(poll, context, SiteState.ACTIVE, content=b"text", change=change)]))


async def test_an_export_under_way_is_cut_off(guarded: Api) -> None:
    """Its reader sees that it is not whole."""
    urls = [SiteSpec(f"https://example.org/{n}/{'x' * 1500}", paused=True) for n in range(4_000)]
    await guarded.store.sites.add(urls, ["example.org:443"] * len(urls), 1.0, respect_deleted=False)
    path = f"{guarded.root}/api/v1/sites/export?format=text"
    async with asyncio.timeout(20), guarded.session.get(path, headers=bearer("old-token")) as response:
        await response.content.readline()
        guarded.tokens.put_in_force(NEW)
        with pytest.raises(aiohttp.ClientPayloadError):
            await asyncio.wait_for(response.content.read(), 30)


async def test_a_reader_that_does_not_read_holds_no_stream(guarded: Api) -> None:
    await many_changes(guarded.store)
    with socket.create_connection(("127.0.0.1", int(guarded.root.rpartition(":")[2]))) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.sendall(b"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer old-token\r\n\r\n")
        await until(lambda: guarded.streams.under_way == 1)
        await asyncio.sleep(0.3)
        guarded.tokens.put_in_force(NEW)
        await until(lambda: guarded.streams.under_way == 0)
