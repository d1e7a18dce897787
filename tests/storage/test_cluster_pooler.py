"""A connection pooler between a node and its database: refused by name where it takes the node's session away."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from itertools import count, cycle
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from pollerd.errors import ConfigError
from pollerd.storage.node_session import NodeSession
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.support.ports import free_port

_INFO = NodeInfo(name="a", version="1")
_GIVEN = ",".join(["lock_timeout", *NodeSession(_INFO).session_settings])
_SETTINGS = StorageSettings(busy_timeout_seconds=1)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PgBouncer's user can read: pytest's own are this user's alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@asynccontextmanager
async def _pooled(url: str, folder: Path, mode: str, ignored: str = _GIVEN) -> AsyncIterator[str]:
    """Yields the URL of the same database behind PgBouncer in this mode."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    server = urlsplit(url)
    port = free_port()
    target = f"host={server.hostname} port={server.port or 5432} user={server.username}"
    if server.password:
        target += f" password={server.password}"
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        f"unix_socket_dir =\npool_mode = {mode}\nignore_startup_parameters = {ignored}\n"
    )
    settings.chmod(0o644)
    other_user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}  # it refuses to run as root
    process = await asyncio.create_subprocess_exec(
        program, str(settings), stderr=asyncio.subprocess.PIPE, **other_user, cwd="/"
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"process up" not in (line := await process.stderr.readline()):
                assert line, "pgbouncer ended"
        rest = asyncio.create_task(process.stderr.read())
        yield f"postgresql+asyncpg://{server.username}@127.0.0.1:{port}{server.path}"
    finally:
        process.kill()
        await process.wait()
    await rest


async def test_a_pooler_in_transaction_mode_is_refused_by_name(postgres_url: str, folder: Path) -> None:
    async with _pooled(postgres_url, folder, "transaction") as pooled:
        with pytest.raises(ConfigError, match="connection pooler"):
            await Store.open(pooled, settings=_SETTINGS, node=_INFO)


async def test_a_pooler_in_session_mode_is_let_through_and_silent_nodes_are_ended(
    postgres_url: str, folder: Path
) -> None:
    async with _pooled(postgres_url, folder, "session") as pooled:
        store = await Store.open(pooled, settings=_SETTINGS, node=_INFO)
        assert store.cluster is not None
        table = await store.cluster.look()
        shown = await store.database.write(lambda c: c.execute(text("SHOW idle_session_timeout")).scalar_one())
        await store.close()
    assert len(table.nodes) == 1
    assert shown == "13s", "the pooler left it out at the start of the connection"


async def test_a_pooler_that_refuses_settings_of_sessions_is_named(postgres_url: str, folder: Path) -> None:
    async with _pooled(postgres_url, folder, "session", ignored="") as pooled:
        with pytest.raises(ConfigError, match=r"ignore_startup_parameters.*lock_timeout"):
            await Store.open(pooled, settings=_SETTINGS, node=_INFO)


class _Lent:
    """A connection of which each transaction runs on another session of the server, or on one that is lent on."""

    def __init__(self, sessions: Iterator[int]) -> None:
        self._sessions = sessions
        self._locked: list[int] = []

    def get_server_pid(self) -> int:
        return 1

    async def fetchval(self, query: str, *_: object) -> int | None:
        pid = next(self._sessions)
        if "pg_backend_pid()" in query and "pg_locks" not in query:
            return pid
        if "pg_advisory_lock" in query:
            self._locked.append(pid)
            return None
        return self._locked.count(pid) if "pg_locks" in query else 7

    def transaction(self) -> nullcontext[None]:
        return nullcontext()

    def terminate(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("second", [100, 900], ids=["its session is lent on", "its lock stayed behind"])
async def test_a_session_that_changes_between_transactions_is_refused(second: int) -> None:
    # By order of queries: pid, key, lock, whether it is held; a lent session is the same throughout.
    own = cycle([100]) if second == 100 else count(100)

    async def open_one() -> _Lent:
        return _Lent(cycle([second]))

    with pytest.raises(ConfigError, match="connection pooler"):
        await NodeSession(_INFO).take(cast(Any, _Lent(own)), cast(Any, open_one))
