"""Fixtures: raw sites on loopback, fetchers that may dial them, a self-signed certificate."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.settings import FetchSettings
from tests.fetching.sites import Handler, Site, served

Serve = Callable[..., Awaitable[Site]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(handler, tls=None)` starts a site that lives as long as the test."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler, tls: ssl.SSLContext | None = None) -> Site:
            return await stack.enter_async_context(served(handler, tls))

        yield start


NewFetcher = Callable[..., Awaitable[Fetcher]]


@pytest.fixture
async def new_fetcher() -> AsyncIterator[NewFetcher]:
    """`await new_fetcher(**settings)` opens a fetcher that may dial loopback, closed after the test."""
    async with AsyncExitStack() as stack:

        async def start(
            clock: Callable[[], float] = time.time,
            on_sent: Callable[[str, float], None] | None = None,
            before_repeat: Callable[[str], Awaitable[None]] | None = None,
            **settings: Any,
        ) -> Fetcher:
            chosen = FetchSettings(**{"allow_private": True, "total_timeout_seconds": 5.0, **settings})
            fetcher = Fetcher(chosen, clock=clock, on_sent=on_sent, before_repeat=before_repeat)
            return await stack.enter_async_context(fetcher)

        yield start


@pytest.fixture
def hosts() -> list[str]:
    """The hosts that `fetcher` sent requests to, in order."""
    return []


@pytest.fixture
async def fetcher(new_fetcher: NewFetcher, hosts: list[str]) -> Fetcher:
    return await new_fetcher(on_sent=lambda host, _at: hosts.append(host))


@dataclass(frozen=True)
class Certificate:
    pem: Path
    server: ssl.SSLContext


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A self-signed certificate for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        if os.environ.get("CI") == "true":
            pytest.fail("the openssl command is needed in CI")
        pytest.skip("the openssl command is not installed")
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(pem), "-days", "2", "-subj", "/CN=pollerd test"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return Certificate(pem, context)
