"""Names that turn inside: every new connection is judged anew, whatever the name said before.

The name server is the tests' own. Of this machine's addresses 127.0.0.1 stands for a public one here (nothing else can
be dialled in a test); all others are what they are, and a site of the tests listens at each of them, unasked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pollerd.fetching import client, guard
from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from tests.support.nameserver import NameServer, look_up, name_server
from tests.support.origin import Origin, Page
from tests.support.proxy import proxied

PUBLIC = "127.0.0.1"
INSIDE = ["127.0.0.2", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "0.0.0.0"]
CLOSING = {"Connection": "close"}


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as server:
        server.pages |= {"/a": Page(headers=CLOSING), "/kept": Page()}
        yield server


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NameServer]:
    """All look-ups of this loop go to it, and none is remembered."""
    real = guard.denial
    monkeypatch.setattr(guard, "denial", lambda address, *rest: None if address == PUBLIC else real(address, *rest))
    monkeypatch.setattr(client, "DNS_CACHE_SECONDS", 0)
    async with name_server({}) as server:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", look_up(server, loop.getaddrinfo))
        yield server


@pytest.fixture
async def fetcher(names: NameServer) -> AsyncIterator[Fetcher]:
    async with Fetcher(FetchSettings(total_timeout_seconds=10.0)) as opened:
        yield opened


async def kinds(fetcher: Fetcher, url: str, times: int) -> list[OutcomeKind]:
    return [(await fetcher.fetch(Request(url))).kind for _ in range(times)]


@pytest.mark.parametrize("inside", INSIDE)
async def test_the_next_connection_is_judged_by_the_next_answer(
    origin: Origin, names: NameServer, fetcher: Fetcher, inside: str
) -> None:
    names.names["turning.example"] = [[PUBLIC], [PUBLIC], [inside]]
    found = await kinds(fetcher, f"http://turning.example:{origin.port}/a", 5)
    assert found == [OutcomeKind.BODY] * 2 + [OutcomeKind.BLOCKED_ADDRESS] * 3
    assert len(origin.hits("/a")) == 2
    assert len(names.asked) == 5, "each new connection asks"


async def test_it_is_asked_again_when_it_has_turned_back(origin: Origin, names: NameServer, fetcher: Fetcher) -> None:
    names.names["turning.example"] = [["127.0.0.2"], [PUBLIC], ["169.254.169.254"], [PUBLIC]]
    found = await kinds(fetcher, f"http://turning.example:{origin.port}/a", 4)
    assert found == [OutcomeKind.BLOCKED_ADDRESS, OutcomeKind.BODY] * 2


async def test_a_kept_connection_stays_where_it_is(origin: Origin, names: NameServer, fetcher: Fetcher) -> None:
    names.names["turning.example"] = [[PUBLIC], ["127.0.0.2"]]
    url = f"http://turning.example:{origin.port}"
    assert await kinds(fetcher, f"{url}/kept", 3) == [OutcomeKind.BODY] * 3
    assert len(names.asked) == 1
    assert {hit.host for hit in origin.hits()} == {f"turning.example:{origin.port}"}
    assert await kinds(fetcher, f"{url}/a", 1) == [OutcomeKind.BODY], "which closes it"
    assert await kinds(fetcher, f"{url}/kept", 1) == [OutcomeKind.BLOCKED_ADDRESS]


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("first", [True, False])
async def test_a_name_that_leads_inside_and_outside_is_refused_at_every_try(
    origin: Origin, names: NameServer, fetcher: Fetcher, inside: str, first: bool
) -> None:
    names.names["both.example"] = [[inside, PUBLIC] if first else [PUBLIC, inside]]
    outcomes = [await fetcher.fetch(Request(f"http://both.example:{origin.port}/a")) for _ in range(4)]
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.BLOCKED_ADDRESS}
    assert len({outcome.detail for outcome in outcomes}) == 1
    assert not origin.log


async def test_answers_that_change_places_change_nothing(origin: Origin, names: NameServer, fetcher: Fetcher) -> None:
    names.names["both.example"] = [[PUBLIC, "127.0.0.2"], ["127.0.0.2", PUBLIC]] * 3
    found = await kinds(fetcher, f"http://both.example:{origin.port}/a", 6)
    assert found == [OutcomeKind.BLOCKED_ADDRESS] * 6


async def test_the_same_through_the_daemons_proxy_and_without(origin: Origin, names: NameServer) -> None:
    names.names["both.example"] = [[PUBLIC, "10.0.0.1"]]
    names.names["turning.example"] = [[PUBLIC], ["10.0.0.1"]]
    async with proxied() as proxy, Fetcher(FetchSettings(proxy=proxy.url())) as fetcher:
        proxy.names[f"turning.example:{origin.port}"] = (PUBLIC, origin.port)
        assert await kinds(fetcher, f"http://both.example:{origin.port}/a", 3) == [OutcomeKind.BLOCKED_ADDRESS] * 3
        found = await kinds(fetcher, f"http://turning.example:{origin.port}/a", 3)
    assert found == [OutcomeKind.BODY] + [OutcomeKind.BLOCKED_ADDRESS] * 2
    assert len(proxy.asked) == 1


async def test_redirects_and_robots_txt(origin: Origin, names: NameServer, fetcher: Fetcher) -> None:
    names.names |= {"turning.example": [[PUBLIC], ["127.0.0.2"]], "inside.example": [["169.254.169.254"]]}
    for path, name in (("/out", "turning.example"), ("/in", "inside.example")):
        target = f"http://{name}:{origin.port}/a"
        origin.pages[path] = Page(status=302, headers={"Location": target, **CLOSING})
    assert await kinds(fetcher, origin.url("/out", PUBLIC), 2) == [OutcomeKind.BODY, OutcomeKind.BLOCKED_ADDRESS]
    assert await kinds(fetcher, origin.url("/in", PUBLIC), 1) == [OutcomeKind.BLOCKED_ADDRESS]
    robots = await fetcher.fetch_robots(f"http://inside.example:{origin.port}/robots.txt")
    assert robots.failure is OutcomeKind.BLOCKED_ADDRESS


async def test_a_hop_that_nobody_permits_is_named_by_its_address(
    origin: Origin, names: NameServer, fetcher: Fetcher
) -> None:
    """Its host could not be asked for its robots.txt, which is why: that is no refusal of its robots.txt."""
    names.names |= {"inside.example": [["10.0.0.1"]], "outside.example": [[PUBLIC]]}

    async def nothing(_: str) -> bool:
        return False

    found = []
    for target in ("http://10.1.1.1/", "http://inside.example/", "http://outside.example/", "http://unknown.example/"):
        origin.pages["/out"] = Page(status=302, headers={"Location": target})
        found.append((await fetcher.fetch(Request(origin.url("/out", PUBLIC)), nothing)).kind)
    assert found == [OutcomeKind.BLOCKED_ADDRESS] * 2 + [OutcomeKind.DENIED] * 2


async def test_a_name_that_is_none_is_one_of_dns(names: NameServer, fetcher: Fetcher) -> None:
    assert await kinds(fetcher, "http://unknown.example/", 1) == [OutcomeKind.DNS_ERROR]


async def test_what_is_remembered_is_judged_when_it_is_dialled(
    origin: Origin, names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the time that answers are kept a name stays where it was."""
    monkeypatch.setattr(client, "DNS_CACHE_SECONDS", 300)
    names.names["turning.example"] = [[PUBLIC], ["127.0.0.2"]]
    async with Fetcher(FetchSettings()) as fetcher:
        assert await kinds(fetcher, f"http://turning.example:{origin.port}/a", 3) == [OutcomeKind.BODY] * 3
    assert len(names.asked) == 1
