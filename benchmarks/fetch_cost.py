"""CPU time of `Fetcher.fetch` compared with a bare aiohttp loop, in one run on the same loopback origin.

The origin is a process of its own; both clients run in this one, in turns, and only this process's CPU time counts.
Prints CPU seconds per 1,000 polls of both, and the median of their ratio over the rounds. With `--tls 1.3` (or 1.2)
the polls are https, each with a new connection, and the ratio is that of resumed sessions to full handshakes.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gc
import gzip
import ipaddress
import multiprocessing
import random
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import aiohttp
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, Validators

ETAG = '"655f0c21-3c00"'
WORDS = ("poll", "change", "page", "time", "feed", "index", "news", "item", "report", "city", "water", "price")
TLS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
KINDS = {"304": OutcomeKind.NOT_MODIFIED, "200": OutcomeKind.BODY, "gzip": OutcomeKind.BODY}


def page(size: int) -> bytes:
    """Returns an HTML page of about `size` bytes with a realistic compression ratio."""
    rng = random.Random(7)
    words: list[str] = []
    while size > 0:
        words.append(rng.choice(WORDS) + str(rng.randrange(1000)))
        size -= len(words[-1]) + 1
    return " ".join(words).encode()


def responses(size: int) -> dict[bytes, bytes]:
    """Returns the origin's responses by the first path segment."""
    common = b"Date: Sat, 21 Nov 2026 12:00:00 GMT\r\nETag: " + ETAG.encode() + b"\r\n"
    common += b"Last-Modified: Sat, 21 Nov 2026 11:00:00 GMT\r\n"
    body = page(size)
    packed = gzip.compress(body)
    full = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%sContent-Length: %d\r\n%s\r\n%s"
    return {
        b"304": b"HTTP/1.1 304 Not Modified\r\n" + common + b"\r\n",
        b"200": full % (common, len(body), b"", body),
        b"gzip": full % (common, len(packed), b"Content-Encoding: gzip\r\n", packed),
    }


class Origin(asyncio.Protocol):
    """Answers each request by the first segment of its path; one request at a time per connection."""

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self._answers = answers
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._buffer.endswith(b"\r\n\r\n"):
            self._transport.write(self._answers[self._buffer.split(b"/", 2)[1]])
            self._buffer = b""
            if self._transport.get_extra_info("ssl_object") is not None:
                self._transport.close()  # each poll is to connect anew


def certificates(folder: Path) -> None:
    """Writes `ca.pem`, an authority, and `server.pem`, a key and a certificate for 127.0.0.1 that it signed."""
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    root_key, key = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    root = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark")])

    def signed(
        name: x509.Name, of: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType
    ) -> bytes:
        made = x509.CertificateBuilder(root, name, of, x509.random_serial_number(), now - day, now + day)
        for extension in extensions:
            made = made.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return made.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    ca = signed(root, root_key.public_key(), x509.BasicConstraints(ca=True, path_length=None))
    (folder / "ca.pem").write_bytes(ca)
    (folder / "server.pem").write_bytes(pem + signed(x509.Name([]), key.public_key(), address))


def serve(pipe: Connection, size: int, folder: Path, tls: str | None) -> None:
    """Runs the origin until killed; sends its port through `pipe`. tls: the version it speaks; None: plain HTTP."""

    async def run() -> None:
        answers, context = responses(size), None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.minimum_version = context.maximum_version = TLS[tls]
            context.load_cert_chain(folder / "server.pem")
        server = await asyncio.get_running_loop().create_server(lambda: Origin(answers), "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


async def bare_loop(session: aiohttp.ClientSession, urls: Iterator[str], mode: str) -> None:
    headers = {"If-None-Match": ETAG} if mode == "304" else None
    for url in urls:
        async with session.get(url, headers=headers) as response:
            await response.read()
            if response.status != (304 if mode == "304" else 200):
                raise RuntimeError(f"the origin said {response.status}")


async def fetch_loop(fetcher: Fetcher, urls: Iterator[str], mode: str) -> None:
    validators = Validators(ETAG) if mode == "304" else Validators()
    for url in urls:
        outcome = await fetcher.fetch(Request(url, validators))
        if outcome.kind is not KINDS[mode]:
            raise RuntimeError(f"{outcome.kind}: {outcome.detail}")


async def cpu(poll: Callable[[Iterator[str]], Awaitable[None]], urls: list[str], workers: int) -> float:
    """Returns CPU seconds per 1,000 polls of `urls`, shared by `workers` tasks."""
    rest = iter(urls)
    before = time.process_time()
    await asyncio.gather(*(poll(rest) for _ in range(workers)))
    return (time.process_time() - before) / len(urls) * 1000


async def compare(port: int, mode: str, polls: int, sites: int, rounds: int, workers: int) -> None:
    urls = [f"http://127.0.0.1:{port}/{mode}/{i % sites}.html" for i in range(polls)]
    connector = aiohttp.TCPConnector(limit=0)
    encoding = {"User-Agent": "bench", "Accept-Encoding": "gzip" if mode == "gzip" else "identity"}
    jar = aiohttp.DummyCookieJar()
    async with (
        aiohttp.ClientSession(connector=connector, headers=encoding, cookie_jar=jar) as session,
        Fetcher(FetchSettings(allow_private=True)) as fetcher,
    ):
        bare: list[float] = []
        ours: list[float] = []
        for round_ in range(rounds + 1):
            pair = [
                await cpu(lambda rest: bare_loop(session, rest, mode), urls, workers),
                await cpu(lambda rest: fetch_loop(fetcher, rest, mode), urls, workers),
            ]
            if round_:  # the first round is a warm-up
                bare.append(pair[0])
                ours.append(pair[1])
    ratio = statistics.median(o / b for o, b in zip(ours, bare, strict=True))
    costs = f"bare {statistics.median(bare):.3f}, fetch {statistics.median(ours):.3f} CPU-s / 1000"
    print(f"{mode:>5}: {costs}; ratio {ratio:.2f}")


async def compare_sessions(port: int, mode: str, polls: int, sites: int, rounds: int, workers: int, ca: Path) -> None:
    """Compares polls with resumed TLS sessions with those without, each with a new connection."""
    urls = [f"https://127.0.0.1:{port}/{mode}/{i % sites}.html" for i in range(polls)]
    settings = FetchSettings(allow_private=True, ca_file=str(ca))
    full, resumed = list[float](), list[float]()
    async with Fetcher(replace(settings, tls_session_bytes=0)) as without, Fetcher(settings) as fetcher:
        for round_ in range(rounds + 1):
            pair = [
                await cpu(lambda rest: fetch_loop(without, rest, mode), urls, workers),
                await cpu(lambda rest: fetch_loop(fetcher, rest, mode), urls, workers),
            ]
            if round_:
                full.append(pair[0])
                resumed.append(pair[1])
    ratio = statistics.median(r / f for r, f in zip(resumed, full, strict=True))
    costs = f"full {statistics.median(full):.3f}, resumed {statistics.median(resumed):.3f} CPU-s / 1000"
    print(f"{mode:>5}: {costs}; ratio {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--polls", type=int, default=4000, help="per round and client")
    parser.add_argument("--sites", type=int, default=4000, help="distinct URLs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=64, help="polls in flight")
    parser.add_argument("--size", type=int, default=15_000, help="bytes of a page")
    parser.add_argument("--tls", choices=sorted(TLS), help="compare resumed sessions with full handshakes")
    args = parser.parse_args()
    counts = (args.polls, args.sites, args.rounds, args.workers)
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        certificates(folder)
        ours, theirs = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("spawn")
        origin = context.Process(target=serve, args=(theirs, args.size, folder, args.tls), daemon=True)
        origin.start()
        try:
            port = ours.recv()
            gc.freeze()
            for mode in args.modes:
                if args.tls is None:
                    uvloop.run(compare(port, mode, *counts))
                else:
                    uvloop.run(compare_sessions(port, mode, *counts, folder / "ca.pem"))
        finally:
            origin.terminate()
            origin.join()


if __name__ == "__main__":
    main()
