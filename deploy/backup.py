"""Saves pollerd's database to a file while the daemon runs, and brings it back while it does not.

    python deploy/backup.py save FILE [--database URL]
    python deploy/backup.py restore FILE [--database URL]

With the Python that pollerd is installed in. Without --database: POLLERD_DATABASE, POLLERD_DATABASE_FILE or the TOML
file of POLLERD_CONFIG, as the daemon. SQLite needs no further tool; PostgreSQL needs pg_dump, pg_restore and psql, not
older than the server. FILE is written whole or not at all; a restore that fails leaves the database as it was. The key
that credentials of sites are sealed with (POLLERD_SECRET_KEY, or the .key file beside an SQLite file) is not in FILE.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from pollerd.app.config import load
from pollerd.errors import PollerdError
from pollerd.storage.engine import Database, database_url, sqlite_path
from pollerd.storage.settings import StorageSettings

_ASIDE = "pollerd_before_restore"


class BackupError(PollerdError):
    """The database cannot be saved or brought back; the message says why, for a person."""


def save(url: URL, file: Path) -> None:
    """Writes the database as of now to `file`, readable by its owner only. The daemon may run.

    Raises BackupError.
    """
    path = sqlite_path(url)
    with _draft(file) as draft:
        if path is None:
            _call(url, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={draft}")
        else:
            _copy(path, draft)


async def restore(url: URL, file: Path) -> None:
    """Replaces the database by what `save` wrote, under the daemon's own lock.

    Raises BackupError, and DatabaseInUseError while a daemon holds the database.
    """
    database = Database(url, StorageSettings(), create=True, exclusive=True)
    try:
        await database.lock()
        await asyncio.to_thread(_restore, url, database.path, file)
    finally:
        await database.close()


def _restore(url: URL, path: Path | None, file: Path) -> None:
    if path is None:
        _restore_postgres(url, file)
        return
    with _draft(path) as draft:
        _copy(file, draft)
        # They belong to the file that goes; beside another one they would be read as its own.
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """By SQLite's online backup: one consistent state, whatever is written meanwhile."""
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(source.absolute()))}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            found = new.execute("PRAGMA integrity_check").fetchone()[0]
            ours = new.execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'").fetchone()[0]
    except sqlite3.Error as error:
        raise BackupError(f"{source}: {error}") from error
    if found != "ok" or not ours:
        raise BackupError(f"{source}: {found if found != 'ok' else 'no database of pollerd'}")


def _restore_postgres(url: URL, file: Path) -> None:
    # What is there is set aside until the rest has succeeded: tables that the backup does not know would stay behind,
    # and stand in the way of a later migration.
    _call(url, "pg_restore", "--list", str(file))
    # Extensions stay: the backup's indexes need them, and "IF NOT EXISTS" would find them aside.
    there, back = _extensions_moved(_ASIDE, "public"), _extensions_moved("public", _ASIDE)
    _sql(url, f"ALTER SCHEMA public RENAME TO {_ASIDE}", "CREATE SCHEMA public", there)
    try:
        whole = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
        _call(url, "pg_restore", *whole, f"--dbname={url.database}", str(file))
    except BackupError:
        _sql(url, back, "DROP SCHEMA public CASCADE", f"ALTER SCHEMA {_ASIDE} RENAME TO public")
        raise
    _sql(url, f"DROP SCHEMA {_ASIDE} CASCADE")


def _extensions_moved(source: str, target: str) -> str:
    """Returns the statement that moves all extensions of a schema to another."""
    found = f"SELECT extname FROM pg_extension WHERE extnamespace = '{source}'::regnamespace"
    move = f"EXECUTE format('ALTER EXTENSION %I SET SCHEMA {target}', one.extname)"
    return f"DO $$ DECLARE one record; BEGIN FOR one IN {found} LOOP {move}; END LOOP; END $$"


def _sql(url: URL, *statements: str) -> None:
    commands = [f"--command={statement}" for statement in statements]
    _call(url, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", *commands)


def _call(url: URL, tool: str, *arguments: str) -> None:
    try:
        done = subprocess.run([tool, *arguments], env=_environment(url), capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BackupError(f"{tool} is needed and not installed") from error
    if done.returncode:
        raise BackupError(f"{tool}: {done.stderr.strip()}")


def _environment(url: URL) -> dict[str, str]:
    """The URL as libpq's variables: in arguments every user of the machine could read the password."""
    given = {
        "PGHOST": url.host,
        "PGPORT": url.port,
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
        "PGSSLMODE": url.query.get("ssl"),
        # Notices about dropped tables are no news.
        "PGOPTIONS": "--client-min-messages=warning",
    }
    return {**os.environ, **{name: str(value) for name, value in given.items() if value}}


@contextmanager
def _draft(file: Path) -> Iterator[Path]:
    """A file beside `file` that takes its place once all went well."""
    draft = file.with_name(f".{file.name}.new")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, file)
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 2 with one line on standard error."""
    parser = argparse.ArgumentParser(prog="backup.py", description="Saves and restores pollerd's database.")
    parser.add_argument("action", choices=("save", "restore"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--database", help="as for pollerd run")
    given = parser.parse_args(arguments)
    try:
        url = database_url(load({"database": given.database}).options.database)
        if given.action == "save":
            save(url, given.file)
        else:
            if not given.file.is_file():
                raise BackupError(f"{given.file}: no such file")
            asyncio.run(restore(url, given.file))
    except PollerdError as error:
        print(f"backup.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
