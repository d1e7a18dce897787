"""A start whose database cannot be opened yet: it waits and says so, answers who asks, and begins by itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import socket
import sqlite3
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.support.origin import Origin, Page, until
from tests.support.ports import free_port
from tests.support.postgres import execute, postgres_database
from tests.support.process import DaemonProcess, command, daemon_process


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def closed() -> Iterator[str]:
    """The URL of a PostgreSQL database that has no tables yet and takes no connections, until `opened`."""
    with postgres_database(migrated=False) as url:
        execute(f'ALTER DATABASE "{make_url(url).database}" ALLOW_CONNECTIONS false')
        yield url


def open_again(url: str) -> None:
    execute(f'ALTER DATABASE "{make_url(url).database}" ALLOW_CONNECTIONS true')


@contextlib.asynccontextmanager
async def waiting(database: str, tmp_path: Path, *arguments: str, port: int = 0) -> AsyncIterator[DaemonProcess]:
    flags = ["--listen", f"127.0.0.1:{port}"]
    async with daemon_process(database, tmp_path / "log", *arguments, flags=flags) as daemon:
        await daemon.said("storage_failing")
        yield daemon


async def test_it_answers_meanwhile_and_begins_once_it_is_let_in(origin: Origin, closed: str, tmp_path: Path) -> None:
    port, urls = free_port(), tmp_path / "urls.txt"
    origin.pages["/a"] = Page("fine")
    urls.write_text(origin.url("/a"))
    async with waiting(closed, tmp_path, str(urls), port=port) as daemon:
        (said,) = [line for line in daemon.log.splitlines() if "storage_failing" in line]
        for words in ("55000", "not currently accepting connections", str(make_url(closed).database), "--no-wait"):
            assert words in said
        await until(lambda: ask_quietly(port) is not None)
        assert await asyncio.to_thread(ask, port, "/healthz") == (200, '{"status":"ok"}')
        status, body = await asyncio.to_thread(ask, port, "/readyz")
        assert (status, json.loads(body)["status"]) == (503, "not_ready")
        assert "SQLSTATE 55000" in body
        assert "pollerd_storage_failing 1.0" in (await asyncio.to_thread(ask, port, "/metrics"))[1]
        for method in ("GET", "POST", "DELETE"):
            status, body = await asyncio.to_thread(ask, port, "/api/v1/sites", method)
            assert (status, json.loads(body)["type"]) == (503, "urn:pollerd:problem:database-unavailable")
        doctor = await command("doctor", "--url", f"http://127.0.0.1:{port}")
        assert doctor.code == 1
        assert "WRONG  database: " in doctor.out
        await asyncio.sleep(2)
        assert daemon.log.count("storage_failing") == 1, "said once, not at every try"
        await asyncio.to_thread(open_again, closed)
        await daemon.said("storage_recovered")
        await until(lambda: len(origin.hits("/a")) >= 2)
        assert (await asyncio.to_thread(ask, port, "/readyz"))[0] == 200
        assert (await asyncio.to_thread(ask, port, "/api/v1/sites"))[0] == 200
        assert "pollerd_storage_failing 0.0" in (await asyncio.to_thread(ask, port, "/metrics"))[1]
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
        assert "Traceback" not in daemon.log


def ask_quietly(port: int) -> int | None:
    try:
        return ask(port, "/healthz")[0]
    except OSError:
        return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_wait_at_once(closed: str, tmp_path: Path, number: signal.Signals) -> None:
    async with waiting(closed, tmp_path) as daemon:
        daemon.send(number)
        assert await daemon.ended() == 0
        assert "stopped" in daemon.log
        assert "Traceback" not in daemon.log
    open_again(closed)


async def test_a_signal_ends_an_attempt_that_hangs(tmp_path: Path) -> None:
    """A server that accepts and never says a word."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as mute:
        url = f"postgresql://u@127.0.0.1:{mute.getsockname()[1]}/x"
        async with daemon_process(url, tmp_path / "log") as daemon:
            accepted, _ = await asyncio.to_thread(mute.accept)
            daemon.send(signal.SIGTERM)
            assert await daemon.ended(5) == 0
            accepted.close()


@pytest.mark.parametrize("how", ["--no-wait", "POLLERD_NO_WAIT"])
async def test_who_does_not_want_to_wait_gets_one_line(tmp_path: Path, how: str) -> None:
    database = f"postgresql://me:secret@127.0.0.1:{free_port()}/x"
    flags = ["--no-wait"] if how == "--no-wait" else []
    env = {} if flags else {"POLLERD_NO_WAIT": "true"}
    ended = await command("run", "--database", database, "--listen", "127.0.0.1:0", *flags, env=env)
    assert ended.code == 2
    (line,) = ended.err.strip().splitlines()
    assert line.startswith(f"pollerd: database {database.replace('secret', '***')}: ")
    assert "refused" in line or "Connect call failed" in line


async def test_a_typo_is_plain_from_the_first_line(tmp_path: Path) -> None:
    async with waiting("postgresql://me:secret@no-such-host.invalid/x", tmp_path) as daemon:
        first = daemon.log.splitlines()[0]
        assert "no-such-host.invalid" in first
        assert "secret" not in daemon.log


async def test_sqlite_on_a_disk_that_is_full(tmp_path: Path) -> None:
    """As far as the process can tell: no file of its may grow beyond a page."""
    file = tmp_path / "poll.db"
    async with daemon_process(f"sqlite:///{file}", tmp_path / "log") as daemon:
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        await daemon.said("storage_failing")
        assert "disk" in daemon.log
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await daemon.said("started")
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
        assert "Traceback" not in daemon.log


@pytest.mark.parametrize("place", ["nowhere/poll.db", "."])
async def test_sqlite_at_a_place_that_cannot_be_is_a_typo(tmp_path: Path, place: str) -> None:
    ended = await command("run", "--database", f"sqlite:///{tmp_path}/{place}", "--listen", "127.0.0.1:0")
    assert ended.code == 2
    (line,) = ended.err.strip().splitlines()
    assert "folder" in line
    assert str(tmp_path) in line


async def test_sqlite_locked_by_somebody_else(tmp_path: Path) -> None:
    file = tmp_path / "poll.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with waiting(f"sqlite:///{file}", tmp_path) as daemon:
            assert "locked" in daemon.log
            other.execute("COMMIT")
            await daemon.said("started")


async def test_what_no_waiting_mends_ends_it_at_once(tmp_path: Path) -> None:
    file = tmp_path / "poll.db"
    file.write_bytes(b"no database " * 1000)
    ended = await command("run", "--database", f"sqlite:///{file}", "--listen", "127.0.0.1:0")
    assert ended.code == 2
    assert len(ended.err.strip().splitlines()) == 1


async def test_a_reload_asked_for_meanwhile_is_done_once_it_has_begun(closed: str, tmp_path: Path) -> None:
    async with waiting(closed, tmp_path) as daemon:
        daemon.send(signal.SIGHUP)
        daemon.send(signal.SIGHUP)
        open_again(closed)
        await daemon.said("event=reloaded")
        assert daemon.log.count("event=reloaded") == 1
        assert daemon.log.index("event=started") < daemon.log.index("event=reloaded")
        daemon.send(signal.SIGHUP)
        for _ in range(1_000):
            if daemon.log.count("event=reloaded") == 2:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(daemon.log)
