"""Requests with a body: sent by POST, and never twice."""

import asyncio

import pytest

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.model import OutcomeKind
from tests.fetching.conftest import Serve
from tests.fetching.sites import Seen, by_path, message, says

FORM = b"q=mills&page=1"
PAGE = message("200 OK", body=b"here")


async def test_a_body_is_posted_as_a_form(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(PAGE))
    outcome = await fetcher.fetch(Request(site.url("/search"), body=FORM))
    assert (outcome.kind, outcome.body) == (OutcomeKind.BODY, b"here")
    (seen,) = site.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/search", FORM)
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"


async def test_its_type_may_be_another(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(PAGE))
    await fetcher.fetch(Request(site.url(), headers=(("content-type", "application/json"),), body=b"{}"))
    assert [(seen.headers["content-type"], seen.body) for seen in site.seen] == [("application/json", b"{}")]


async def test_a_body_may_be_empty(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(PAGE))
    await fetcher.fetch(Request(site.url(), body=b""))
    assert [(seen.method, seen.headers["content-length"]) for seen in site.seen] == [("POST", "0")]


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_is_followed_without_it(serve: Serve, fetcher: Fetcher, status: int) -> None:
    site = await serve(by_path({"/a": message(f"{status} Moved", "Location: /b"), "/b": PAGE}))
    outcome = await fetcher.fetch(Request(site.url("/a"), body=FORM))
    assert outcome.body == b"here"
    assert [(seen.method, seen.body) for seen in site.seen] == [("POST", FORM), ("GET", b"")]
    assert "content-type" not in site.seen[1].headers


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_that_would_send_it_again_is_refused(serve: Serve, fetcher: Fetcher, status: int) -> None:
    site = await serve(by_path({"/a": message(f"{status} Moved", "Location: /b"), "/b": PAGE}))
    outcome = await fetcher.fetch(Request(site.url("/a"), body=FORM))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR
    assert "once only" in outcome.detail
    assert len(site.seen) == 1


async def test_it_is_not_sent_again_over_a_connection_that_was_closed(serve: Serve, fetcher: Fetcher) -> None:
    async def closes_at_the_second(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if len(site.seen) == 1:
            writer.write(PAGE)
            await writer.drain()
        else:
            writer.close()

    site = await serve(closes_at_the_second)
    await fetcher.fetch(Request(site.url("/first")))
    outcome = await fetcher.fetch(Request(site.url("/second"), body=FORM))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR or outcome.kind is OutcomeKind.CONNECT_ERROR
    assert len([seen for seen in site.seen if seen.path == "/second"]) == 1
