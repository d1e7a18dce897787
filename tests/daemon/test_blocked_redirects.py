"""A redirect to an address that may not be dialled is that, at every try: not a host to come back to."""

from __future__ import annotations

import asyncio

import pytest

from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, SiteState
from tests.daemon.conftest import Start
from tests.support.nameserver import look_up, name_server
from tests.support.origin import Origin, Page


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://2852039166/",
        "http://0.0.0.0:1/",
        "http://[fd00:ec2::254]/",
        "//100.100.100.200/",
    ],
)
async def test_a_redirect_to_a_denied_address(origin: Origin, start: Start, target: str) -> None:
    origin.pages["/from"] = Page(status=302, headers={"Location": target})
    async with start() as running:
        (site_id,) = await running.add(origin.url("/from"))
        polls = await running.polled(site_id, 3)
        assert {poll.outcome for poll in polls} == {OutcomeKind.BLOCKED_ADDRESS}, [poll.detail for poll in polls]
        assert all("address" in poll.detail for poll in polls)
        assert (await running.site(site_id)).state is SiteState.BLOCKED
        assert running.metric("pollerd_polls_total", outcome="throttled") == 0


async def test_one_in_the_midst_of_a_chain(origin: Origin, start: Start) -> None:
    origin.pages["/from"] = Page(status=301, headers={"Location": origin.url("/on", host=7)})
    origin.pages["/on"] = Page(status=307, headers={"Location": "http://169.254.169.254/"})
    async with start() as running:
        (site_id,) = await running.add(origin.url("/from"))
        polls = await running.polled(site_id, 2)
    assert {poll.outcome for poll in polls} == {OutcomeKind.BLOCKED_ADDRESS}


async def test_a_robots_txt_that_is_redirected_there(origin: Origin, start: Start) -> None:
    origin.robots = Page(status=302, headers={"Location": "http://169.254.169.254/robots.txt"})
    origin.pages["/page"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/page"))
        (poll, *_) = await running.polled(site_id, 1)
    assert poll.outcome is OutcomeKind.BLOCKED_ADDRESS
    assert not origin.hits("/page")


async def test_a_redirect_to_a_name_that_leads_there(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host is asked for its robots.txt first, which fails, and then waited for: at every try it is the same."""
    loop = asyncio.get_running_loop()
    async with name_server({"inside.example": [["169.254.169.254", "127.0.0.1"]]}) as names:
        monkeypatch.setattr(loop, "getaddrinfo", look_up(names, loop.getaddrinfo))
        origin.pages["/from"] = Page(status=302, headers={"Location": "http://inside.example/"})
        async with start(fetching=FetchSettings(allow_private=True, total_timeout_seconds=30)) as running:
            (site_id,) = await running.add(origin.url("/from"))
            polls = await running.polled(site_id, 2, seconds=40)
    assert {poll.outcome for poll in polls} == {OutcomeKind.BLOCKED_ADDRESS}, [poll.detail for poll in polls]
