"""Before there is a response: names, addresses, connections, TLS."""

import asyncio
import socket
from pathlib import Path

import aiohappyeyeballs
import pytest
import uvloop

from pollerd.errors import InvalidValueError
from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.guard import DENIED_ERRNO, Guard
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from tests.fetching.conftest import Certificate, NewFetcher, Serve
from tests.fetching.sites import Seen, message, says
from tests.support.ports import free_port


async def test_connection_refused(fetcher: Fetcher) -> None:
    outcome = await fetcher.fetch(Request(f"http://127.0.0.1:{free_port()}/"))
    assert (outcome.kind, outcome.status) == (OutcomeKind.CONNECT_ERROR, None)


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 64 + ".example", "a..example"])
async def test_name_that_cannot_be_found(fetcher: Fetcher, host: str) -> None:
    assert (await fetcher.fetch(Request(f"http://{host}/"))).kind is OutcomeKind.DNS_ERROR


async def test_accepted_but_never_answered_in_tls(new_fetcher: NewFetcher) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        fetcher = await new_fetcher(connect_timeout_seconds=0.2)
        outcome = await fetcher.fetch(Request(f"https://127.0.0.1:{silent.getsockname()[1]}/"))
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert "no connection" in outcome.detail


async def test_certificate_not_trusted(serve: Serve, fetcher: Fetcher, certificate: Certificate) -> None:
    site = await serve(says(message("200 OK")), certificate.server)
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.TLS_ERROR
    assert "certificate" in outcome.detail


async def test_certificate_of_ca_file(serve: Serve, new_fetcher: NewFetcher, certificate: Certificate) -> None:
    site = await serve(says(message("200 OK", body=b"safe")), certificate.server)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    assert (await fetcher.fetch(Request(site.url()))).body == b"safe"


async def test_certificate_for_another_name(serve: Serve, new_fetcher: NewFetcher, certificate: Certificate) -> None:
    site = await serve(says(message("200 OK")), certificate.server)
    fetcher = await new_fetcher(ca_file=str(certificate.pem))
    outcome = await fetcher.fetch(Request(f"https://localhost:{site.port}/"))
    assert outcome.kind is OutcomeKind.TLS_ERROR


async def test_ca_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="ca_file"):
        async with Fetcher(FetchSettings(ca_file=str(tmp_path / "missing.pem"))):
            raise AssertionError("opened without its ca_file")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1.2.3"])
async def test_guard_blocks_names_and_literals(serve: Serve, host: str) -> None:
    site = await serve(says(message("200 OK")))
    async with Fetcher(FetchSettings()) as fetcher:
        outcome = await fetcher.fetch(Request(f"http://{host}:{site.port}/"))
    assert (outcome.kind, outcome.status) == (OutcomeKind.BLOCKED_ADDRESS, None)
    assert "loopback" in outcome.detail
    assert site.connections == 0


async def test_a_name_with_only_denied_addresses_is_known_as_such() -> None:
    """The connector joins the errors of all addresses into one; ours must still be told from it."""
    v4 = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))
    v6 = (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("fe80::1", 80, 0, 0))
    with pytest.raises(OSError) as denied:
        await aiohappyeyeballs.start_connection(
            [v6, v4], happy_eyeballs_delay=0.25, socket_factory=Guard(allow_private=False)
        )
    assert denied.value.errno == DENIED_ERRNO
    assert "link-local address fe80::1, not polled" in str(denied.value)


async def test_guard_lets_a_name_through_when_private_is_allowed(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("200 OK", body=b"home")))
    assert (await fetcher.fetch(Request(f"http://localhost:{site.port}/"))).body == b"home"


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "0.0.0.0", "[::ffff:a9fe:a9fe]"])
async def test_metadata_is_blocked_even_when_private_is_allowed(fetcher: Fetcher, address: str) -> None:
    outcome = await fetcher.fetch(Request(f"http://{address}/latest/meta-data/"))
    assert outcome.kind is OutcomeKind.BLOCKED_ADDRESS


async def test_redirect_to_a_blocked_address(serve: Serve, fetcher: Fetcher) -> None:
    site = await serve(says(message("302 Found", "Location: http://169.254.169.254/latest/")))
    outcome = await fetcher.fetch(Request(site.url()))
    assert outcome.kind is OutcomeKind.BLOCKED_ADDRESS
    assert len(outcome.redirects) == 1


async def test_a_connection_the_server_closed_meanwhile_is_replaced(serve: Serve, fetcher: Fetcher) -> None:
    async def once(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(message("200 OK", body=b"page"))
        await writer.drain()
        writer.close()

    site = await serve(once)
    for _ in range(3):
        assert (await fetcher.fetch(Request(site.url()))).body == b"page"
    assert site.connections == 3


def test_the_same_kinds_on_uvloop(certificate: Certificate) -> None:
    """The daemon runs on uvloop, which reports some failures by other exceptions."""

    async def kinds() -> list[OutcomeKind]:
        async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()

        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"no TLS here\r\n\r\n")
            writer.close()

        servers = [
            await asyncio.start_server(broken, "127.0.0.1", 0),
            await asyncio.start_server(broken, "127.0.0.1", 0, ssl=certificate.server),
            await asyncio.start_server(plain, "127.0.0.1", 0),
        ]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        urls = [
            f"http://127.0.0.1:{ports[0]}/",
            f"https://127.0.0.1:{ports[1]}/",
            f"https://127.0.0.1:{ports[2]}/",
            f"http://127.0.0.1:{free_port()}/",
            "http://nowhere.invalid/",
            f"http://{'a' * 64}.example/",
            "http://169.254.169.254/",
        ]
        async with Fetcher(FetchSettings(allow_private=True, total_timeout_seconds=5.0)) as fetcher:
            outcomes = [await fetcher.fetch(Request(url)) for url in urls]
        for server in servers:
            server.close()
            await server.wait_closed()
        return [outcome.kind for outcome in outcomes]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(kinds()) == [
            OutcomeKind.PROTOCOL_ERROR,
            OutcomeKind.TLS_ERROR,
            OutcomeKind.TLS_ERROR,
            OutcomeKind.CONNECT_ERROR,
            OutcomeKind.DNS_ERROR,
            OutcomeKind.DNS_ERROR,
            OutcomeKind.BLOCKED_ADDRESS,
        ]
