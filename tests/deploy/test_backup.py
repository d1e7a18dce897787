"""deploy/backup.py on real databases: what was saved comes back, and what fails leaves all as it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from pollerd.storage.store import Store
from tests.deploy.conftest import script
from tests.storage.samples import add, poll_all, query
from tests.support.postgres import postgres_database
from tests.support.process import PATIENCE_SECONDS, environment


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
        return
    missing = [tool for tool in ("pg_dump", "pg_restore", "psql") if shutil.which(tool) is None]
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"{', '.join(missing)} not installed")
    with postgres_database() as made:
        yield made


@dataclass(frozen=True)
class Backup:
    """deploy/backup.py, called as its command line calls it."""

    script: ModuleType
    capture: pytest.CaptureFixture[str]

    async def __call__(self, action: str, file: Path, url: str) -> tuple[int, str]:
        """Its exit code, and what it said on standard error."""
        # A thread of its own: it runs an event loop.
        code = await asyncio.to_thread(self.script.main, [action, str(file), "--database", url])
        return code, self.capture.readouterr().err


@pytest.fixture
def backup(top: Path, capsys: pytest.CaptureFixture[str]) -> Backup:
    return Backup(script(top / "deploy" / "backup.py"), capsys)


async def state(url: str) -> dict[str, list[tuple[object, ...]]]:
    """What a user would miss."""
    statements = {
        "sites": "SELECT id, url FROM site ORDER BY id",
        "polls": "SELECT site_id, at FROM poll ORDER BY site_id, at",
        "changes": "SELECT site_id, detected_at FROM change ORDER BY site_id, detected_at",
        "revision": "SELECT version_num FROM alembic_version",
    }
    return {name: await query(url, sql) for name, sql in statements.items()}


async def fill(store: Store) -> list[int]:
    sites = await add(store, 3)
    await poll_all(store, sites, 10.0, b"first")
    await poll_all(store, sites, 20.0, b"second", changed=True)
    return sites


async def filled(url: str) -> dict[str, list[tuple[object, ...]]]:
    """A database with polls and changes, closed: its state."""
    store = await Store.open(url)
    try:
        await fill(store)
    finally:
        await store.close()
    return await state(url)


async def test_what_was_saved_under_a_running_daemon_comes_back(url: str, backup: Backup, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    store = await Store.open(url)
    try:
        sites = await fill(store)
        assert await backup("save", file, url) == (0, "")
        assert file.stat().st_mode & 0o777 == 0o600
        before = await state(url)
        assert [len(rows) for rows in before.values()] == [3, 6, 3, 1]
        await poll_all(store, sites, 30.0, b"third", changed=True)
    finally:
        await store.close()
    await query(url, "CREATE TABLE of_a_later_version (id integer)")
    assert await backup("restore", file, url) == (0, "")
    assert await state(url) == before
    with pytest.raises(Exception, match="of_a_later_version"):
        await query(url, "SELECT * FROM of_a_later_version")
    again = await Store.open(url)
    try:
        await poll_all(again, sites, 40.0, b"fourth", changed=True)
    finally:
        await again.close()
    assert len((await state(url))["polls"]) == 9


async def test_it_comes_back_into_an_empty_place(url: str, backup: Backup, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    before = await filled(url)
    assert await backup("save", file, url) == (0, "")
    if url.startswith("sqlite"):
        (tmp_path / "poll.db").unlink()
    else:
        await query(url, "DROP SCHEMA public CASCADE")
        await query(url, "CREATE SCHEMA public")
    assert await backup("restore", file, url) == (0, "")
    assert await state(url) == before


async def test_a_running_daemon_keeps_its_database(url: str, backup: Backup, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    store = await Store.open(url)
    try:
        await fill(store)
        assert await backup("save", file, url) == (0, "")
        code, said = await backup("restore", file, url)
        assert code == 2
        assert "another daemon" in said
        assert len((await state(url))["polls"]) == 6
    finally:
        await store.close()


async def test_a_broken_backup_changes_nothing(url: str, backup: Backup, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    before = await filled(url)
    assert await backup("save", file, url) == (0, "")
    whole = file.read_bytes()
    for content in (b"", b"no backup at all", whole[: len(whole) * 2 // 3]):
        file.write_bytes(content)
        code, said = await backup("restore", file, url)
        assert code == 2, content[:20]
        assert said.startswith("backup.py: ")
        assert await state(url) == before
    assert (await backup("restore", tmp_path / "absent", url))[1].endswith("absent: no such file\n")
    assert await state(url) == before


async def test_a_failed_save_keeps_the_last_good_one(url: str, backup: Backup, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    file.write_bytes(b"the last good one")
    wrong = url.replace("poll.db", "absent.db") if url.startswith("sqlite") else f"{url}_absent"
    code, said = await backup("save", file, wrong)
    assert code == 2
    assert "absent" in said
    assert file.read_bytes() == b"the last good one"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".new")] == []


async def test_as_a_command_it_finds_the_database_where_the_daemon_does(top: Path, tmp_path: Path) -> None:
    await filled(f"sqlite:///{tmp_path / 'poll.db'}")
    secret = tmp_path / "database_url"
    secret.write_text(f"sqlite:///{tmp_path / 'poll.db'}\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(top / "deploy" / "backup.py"),
        "save",
        str(tmp_path / "backup"),
        env=environment(POLLERD_DATABASE_FILE=str(secret)),
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert (process.returncode, said) == (0, b"")
    assert (tmp_path / "backup").stat().st_size > 0


async def test_the_tuning_note_names_tables_of_ours(top: Path) -> None:
    note = (top / "deploy" / "postgres.md").read_text()
    statements = [line.strip() for line in note.splitlines() if line.startswith("    ALTER TABLE")]
    assert len(statements) == 2
    with postgres_database() as url:
        await filled(url)
        for statement in statements:
            await query(url, statement)
