"""TLS sessions are resumed at the origin that gave them, nowhere else, and no longer than they are good for."""

from __future__ import annotations

import itertools
import ssl
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from pollerd.fetching.request import Request
from pollerd.fetching.tls import Destination, SessionCache, SessionKey, TlsConnection
from pollerd.model import OutcomeKind
from tests.fetching.conftest import Certificate, NewFetcher, Serve
from tests.fetching.sites import message, says_and_closes
from tests.support.proxy import proxied

ANSWER = says_and_closes(message("200 OK", "Connection: close", body=b"page"))
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def server(certificate: Certificate, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """A context of its own, so that its statistics are those of one site."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.pem.with_name("key.pem"))
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def resumed(context: ssl.SSLContext) -> int:
    return context.session_stats()["hits"]


class Forgetful(ssl.SSLContext):
    """Gives sessions and resumes none: each connection is one of another context, with keys of its own."""

    contexts: itertools.cycle[ssl.SSLContext]

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return next(self.contexts).wrap_bio(*arguments, **options)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_next_connection_resumes(
    serve: Serve, new_fetcher: NewFetcher, certificate: Certificate, version: ssl.TLSVersion
) -> None:
    context = server(certificate, version)
    site = await serve(ANSWER, context)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    for _ in range(4):
        assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    assert (site.connections, resumed(context)) == (4, 3)


async def test_no_room_no_sessions(serve: Serve, new_fetcher: NewFetcher, certificate: Certificate) -> None:
    context = server(certificate)
    site = await serve(ANSWER, context)
    fetcher = await new_fetcher(ca_file=str(certificate.pem), tls_session_bytes=0)
    for _ in range(3):
        assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    assert resumed(context) == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_that_resumes_nothing_is_polled_all_the_same(
    serve: Serve, new_fetcher: NewFetcher, certificate: Certificate, version: ssl.TLSVersion
) -> None:
    context = Forgetful(ssl.PROTOCOL_TLS_SERVER)
    context.contexts = itertools.cycle([server(certificate, version) for _ in range(13)])
    site = await serve(ANSWER, context)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    for _ in range(12):
        assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    assert site.connections == 12


async def test_another_port_gets_no_session(serve: Serve, new_fetcher: NewFetcher, certificate: Certificate) -> None:
    context = server(certificate)
    first, second = await serve(ANSWER, context), await serve(ANSWER, context)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    for site in (first, second, first, second):
        assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    assert resumed(context) == 2


async def test_another_way_gets_no_session(serve: Serve, new_fetcher: NewFetcher, certificate: Certificate) -> None:
    context = server(certificate)
    site = await serve(ANSWER, context)
    async with proxied() as proxy:
        proxy.names["proxy.invalid:443"] = ("127.0.0.1", site.port)
        fetcher = await new_fetcher(ca_file=str(certificate.pem))
        request = Request(site.url())
        by_proxy = replace(request, proxy=proxy.url().replace("127.0.0.1", "localhost"))
        for asked in (request, by_proxy):
            assert (await fetcher.fetch(asked)).body == b"page"
        assert resumed(context) == 0
        assert (await fetcher.fetch(by_proxy)).body == b"page"
    assert resumed(context) == 1


async def test_what_is_not_trusted_any_more_is_not_resumed(
    serve: Serve, new_fetcher: NewFetcher, certificate: Certificate
) -> None:
    context = server(certificate)
    site = await serve(ANSWER, context)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    with fetcher.prepared(replace(fetcher.settings, ca_file=None)) as take_over:
        take_over()
    assert (await fetcher.fetch(Request(site.url()))).kind is OutcomeKind.TLS_ERROR


# The cache by itself, over connections that are made up.

ROOM = 1_000_000


@dataclass(frozen=True)
class Session:
    """As much of an `ssl.SSLSession` as the cache looks at."""

    has_ticket: bool = True
    id: bytes = b"id"
    timeout: int = 7_200
    ticket_lifetime_hint: int = 600


class Server:
    """One origin, and what it does with what it is offered."""

    def __init__(self, cache: SessionCache, name: str = "a.example", certificate: int = 900) -> None:
        self.cache, self.key = cache, SessionKey(Destination(f"https://{name}", None), name)
        self.certificate = certificate
        self.given: Session | None = Session()
        self.takes = True
        self.reads = 0

    def connect(self, takes: bool | None = None) -> bool:
        """One connection; whether a session was offered."""
        offered = self.cache.offer(self.key)
        self.cache.settle(cast(TlsConnection, Made(self, offered, self.takes if takes is None else takes)))
        return offered is not None


class Made:
    """A connection, as the cache sees it."""

    def __init__(self, server: Server, offered: ssl.SSLSession | None, taken: bool) -> None:
        self._server = server
        self.key, self.offered = server.key, offered
        self.session_reused = offered is not None and taken

    @property
    def session(self) -> Session | None:
        self._server.reads += 1
        return None if self._server.given is None else replace(self._server.given)

    def version(self) -> str:
        return "TLSv1.3"

    def getpeercert(self, binary_form: bool) -> bytes:
        return b"c" * self._server.certificate


class Time:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_read_once_and_again_when_half_of_its_life_is_over() -> None:
    time = Time()
    server = Server(SessionCache(ROOM, time))
    assert [server.connect() for _ in range(20)] == [False] + [True] * 19
    assert server.reads == 1
    time.now += 301
    assert [server.connect(), server.connect()] == [True, True]
    assert server.reads == 2


def test_a_session_is_not_offered_when_its_life_is_over() -> None:
    time = Time()
    server = Server(SessionCache(ROOM, time))
    server.connect()
    time.now += 600
    assert [server.connect(), server.connect()] == [False, True]


@pytest.mark.parametrize("hint", [604_800, 0])
def test_nobody_vouches_for_a_session_longer_than_a_day(hint: int) -> None:
    time = Time()
    server = Server(SessionCache(ROOM, time))
    server.given = Session(ticket_lifetime_hint=hint, timeout=10**9)
    server.connect()
    time.now += 86_400
    assert not server.connect()


@pytest.mark.parametrize("given", [Session(), Session(has_ticket=False), None])
def test_a_server_that_resumes_nothing_is_asked_ever_more_rarely(given: Session | None) -> None:
    server = Server(SessionCache(ROOM))
    server.given, server.takes = given, False
    offers = sum(server.connect() for _ in range(4_000))
    assert server.reads <= 7
    assert offers <= 7


def test_a_server_that_begins_to_resume_is_found_out() -> None:
    server = Server(SessionCache(ROOM))
    server.takes = False
    for _ in range(2_000):
        server.connect()
    server.takes = True
    assert sum(server.connect() for _ in range(2_000)) > 900


def test_new_keys_at_the_server_cost_one_full_handshake() -> None:
    server = Server(SessionCache(ROOM))
    for _ in range(5):
        server.connect()
    server.connect(takes=False)
    assert [server.connect() for _ in range(5)] == [True] * 5
    assert server.reads == 2


def test_a_server_that_takes_each_session_once_gets_a_new_one_each_time() -> None:
    server = Server(SessionCache(ROOM))
    used: list[object] = []
    full = 0
    for _ in range(50):
        offered = server.cache.offer(server.key)
        taken = offered is not None and all(offered is not before for before in used)
        used.append(offered)
        full += not taken
        server.cache.settle(cast(TlsConnection, Made(server, offered, taken)))
    assert full <= 4


def test_the_cache_keeps_within_its_bytes_and_throws_out_the_oldest() -> None:
    cache = SessionCache(5 * 13_000)
    servers = [Server(cache, f"{i}.example") for i in range(5)]
    for server in servers:
        server.connect()
    assert all(server.connect() for server in servers)
    big = [Server(cache, f"big-{i}.example", certificate=6_000) for i in range(16)]
    for server in big:
        server.connect()
        assert cache.bytes <= 5 * 13_000
    assert servers[4].connect()
    assert not servers[0].connect()


def test_more_origins_than_room_leave_some_that_resume() -> None:
    """In turn over all of them, the oldest thrown out each time would leave none."""
    cache = SessionCache(20 * 13_000)
    servers = [Server(cache, f"{i}.example") for i in range(100)]
    for _ in range(5):
        for server in servers:
            server.connect()
    assert sum(server.connect() for server in servers) >= 5
    assert sum(server.reads for server in servers) <= 100


def test_connections_that_are_nobodys_are_left_alone() -> None:
    cache = SessionCache(ROOM)
    connection = Made(Server(cache), None, False)
    connection.key = None  # type: ignore[assignment]
    cache.settle(cast(TlsConnection, connection))
    assert (len(cache), cache.bytes) == (0, 0)
