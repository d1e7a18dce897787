"""CPU time of https polls with a new connection each: bare aiohttp loop, fetcher without and with session resumption.

All three run in turns in one process against one origin in another: 16 hosts on loopback, one page of 15 KB, every
connection closed after its answer. Origins that resume (TLS 1.3 and 1.2); origins that never resume, because they
forget every session; and, for comparison, origins that keep their connections open. Prints CPU seconds per 1,000 polls
and the median ratios over the rounds.

    python benchmarks/https_cost.py [--modes tls1.3 ...] [--chain] [--polls 1000] [--rounds 9]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import multiprocessing
import ssl
import statistics
import subprocess
import tempfile
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import uvloop
from fetch_cost import ETAG, bare_loop, cpu, fetch_loop, page

from pollerd.fetching import Fetcher, FetchSettings

VERSIONS = {"tls1.3": ssl.TLSVersion.TLSv1_3, "tls1.2": ssl.TLSVersion.TLSv1_2}
MODES = [f"{version}{what}" for version in VERSIONS for what in ("", "-forgets", "-kept")]
HOSTS = [f"127.0.1.{i}" for i in range(1, 17)]


class Forgetful(ssl.SSLContext):
    """A server context that never resumes: each connection uses another context, with its own keys."""

    contexts: itertools.cycle[ssl.SSLContext]

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return next(self.contexts).wrap_bio(*arguments, **options)


class Certificate(NamedTuple):
    """The origin's certificate file, its key, and the clients' trust anchor."""

    shown: Path
    key: Path
    trusted: Path


def make_certificate(folder: Path, chain: bool) -> Certificate:
    """Creates P-256 certificates for all hosts: self-signed, or under RSA authorities of 2,048 and 4,096 bits."""
    names = ",".join(f"IP:{host}" for host in HOSTS)
    p256 = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    leaf = [*p256, "-subj", "/CN=bench", "-addext", f"subjectAltName={names}"]
    if not chain:
        _issue(folder, "leaf", leaf)
        return Certificate(folder / "leaf.pem", folder / "leaf.key", folder / "leaf.pem")
    _issue(folder, "root", ["-newkey", "rsa:4096", "-subj", "/CN=root"])
    _issue(
        folder,
        "between",
        ["-newkey", "rsa:2048", "-subj", "/CN=between", "-addext", "basicConstraints=CA:TRUE"],
        "root",
    )
    _issue(folder, "leaf", [*leaf, "-addext", "basicConstraints=CA:FALSE"], "between")
    shown = folder / "shown.pem"
    shown.write_bytes((folder / "leaf.pem").read_bytes() + (folder / "between.pem").read_bytes())
    return Certificate(shown, folder / "leaf.key", folder / "root.pem")


def _issue(folder: Path, name: str, what: list[str], by: str | None = None) -> None:
    issuer = [] if by is None else ["-CA", str(folder / f"{by}.pem"), "-CAkey", str(folder / f"{by}.key")]
    files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    subprocess.run(["openssl", "req", "-x509", "-nodes", *what, *issuer, *files], check=True, capture_output=True)


def server_context(mode: str, certificate: Certificate) -> ssl.SSLContext:
    version = VERSIONS[mode.partition("-")[0]]

    def plain(kind: type[ssl.SSLContext] = ssl.SSLContext) -> ssl.SSLContext:
        context = kind(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.shown, certificate.key)
        context.minimum_version = context.maximum_version = version
        return context

    if not mode.endswith("-forgets"):
        return plain()
    forgetful = plain(Forgetful)
    assert isinstance(forgetful, Forgetful)
    forgetful.contexts = itertools.cycle([plain() for _ in range(997)])  # coprime to the number of hosts
    return forgetful


class Origin(asyncio.Protocol):
    """Answers each request, and closes the connection unless it is to be kept."""

    def __init__(self, answer: bytes, keeps: bool) -> None:
        self._answer, self._keeps = answer, keeps
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._buffer.endswith(b"\r\n\r\n"):
            self._transport.write(self._answer)
            self._buffer = b""
            if not self._keeps:
                self._transport.close()


def serve(pipe: Connection, certificate: Certificate) -> None:
    """Runs an origin for each mode until killed; sends their ports through `pipe`."""

    async def run() -> None:
        body = page(15_000)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: {ETAG}\r\nContent-Length: {len(body)}\r\n"
        kept, closed = (head.encode() + last + body for last in (b"\r\n", b"Connection: close\r\n\r\n"))
        loop = asyncio.get_running_loop()
        ports = {}
        for mode in MODES:
            context = server_context(mode, certificate)
            origin = partial(Origin, kept, True) if mode.endswith("-kept") else partial(Origin, closed, False)
            server = await loop.create_server(origin, "0.0.0.0", 0, ssl=context, backlog=1024)
            ports[mode] = server.sockets[0].getsockname()[1]
        pipe.send(ports)
        await asyncio.Event().wait()

    uvloop.run(run())


async def compare(port: int, mode: str, polls: int, rounds: int, workers: int, trusted: Path) -> None:
    urls = [f"https://{host}:{port}/200/page.html" for host in itertools.islice(itertools.cycle(HOSTS), polls)]
    trusting = ssl.create_default_context()
    trusting.load_verify_locations(cafile=trusted)
    connector = aiohttp.TCPConnector(limit=0, ssl=trusting, force_close=not mode.endswith("-kept"))
    usual = FetchSettings(allow_private=True, ca_file=str(trusted))
    async with (
        aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
        Fetcher(replace(usual, tls_session_bytes=0)) as without,
        Fetcher(usual) as resuming,
    ):
        costs: list[tuple[float, float, float]] = []
        for round_ in range(rounds + 1):
            turn = (
                await cpu(lambda rest: bare_loop(session, rest, "200"), urls, workers),
                await cpu(lambda rest: fetch_loop(without, rest, "200"), urls, workers),
                await cpu(lambda rest: fetch_loop(resuming, rest, "200"), urls, workers),
            )
            if round_:  # the first round is a warm-up
                costs.append(turn)
    bare, before, now = (statistics.median(column) for column in zip(*costs, strict=True))
    ratios = sorted(turn[2] / turn[1] for turn in costs)
    print(
        f"{mode:>14}: bare {bare:.3f}, without {before:.3f}, resuming {now:.3f} CPU-s / 1000; resuming / without "
        f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--polls", type=int, default=1000, help="per round and client")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, default=16, help="polls in flight")
    parser.add_argument("--chain", action="store_true", help="a certificate under two authorities, not self-signed")
    a = parser.parse_args()
    print(ssl.OPENSSL_VERSION)
    with tempfile.TemporaryDirectory() as folder:
        certificate = make_certificate(Path(folder), a.chain)
        ours, theirs = multiprocessing.Pipe(duplex=False)
        origin = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, certificate), daemon=True)
        origin.start()
        try:
            ports = ours.recv()
            gc.freeze()
            for mode in a.modes:
                uvloop.run(compare(ports[mode], mode, a.polls, a.rounds, a.workers, certificate.trusted))
        finally:
            origin.terminate()
            origin.join()


if __name__ == "__main__":
    main()
