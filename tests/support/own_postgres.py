"""A PostgreSQL of one's own: stopped, started, copied by a standby, and replaced by it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


def missing() -> str | None:
    """Returns why there can be no server of one's own here; None: there can."""
    if _programs() is None:
        return "no PostgreSQL server is installed here"
    if os.geteuid() == 0 and _owner() is None:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return None


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    return None if initdb is None else Path(initdb).parent


def _owner() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


class OwnServer:
    """One PostgreSQL in a folder of its own, as the user `postgres` where we are root. It trusts 10.0.0.0/8.

    Every method raises AssertionError with what the program said where one fails.
    """

    def __init__(self, port: int, *options: str) -> None:
        """options: for the server, as on its command line."""
        reason, programs = missing(), _programs()
        assert reason is None, reason
        assert programs is not None
        self.port, self._options, self._programs = port, options, programs
        self._folder = Path(tempfile.mkdtemp(prefix="pollerd-pg-"))  # a short path: the socket stands in it
        owner = _owner()
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None and owner is not None:
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)

    @property
    def url(self) -> str:
        """Its database `postgres`."""
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/postgres"

    def make(self, settings: Sequence[str] = ()) -> None:
        """Makes an empty cluster with these lines of settings."""
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
        for line in ("host all all 10.0.0.0/8 trust", "host replication all 127.0.0.1/32 trust"):
            self._append("pg_hba.conf", line)
        for line in settings:
            self._append("postgresql.conf", line)

    def copy(self, primary: OwnServer, *, synchronous: bool) -> None:
        """Becomes a standby of a running primary."""
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        self._run("pg_basebackup", "-D", "data", "-R", "-X", "stream", "-c", "fast", "-d", source)
        self.start()
        if synchronous:
            primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            primary.sql("SELECT pg_reload_conf()")

    def start(self) -> None:
        """Starts, and waits until it answers."""
        options = " ".join(("-p", str(self.port), "-k", str(self._folder), *self._options))
        self._run("pg_ctl", "-D", "data", "-l", "log", "-o", options, "-w", "-t", "120", "start")

    def stop(self, how: str) -> None:
        """Stops; `how`: fast or immediate."""
        self._run("pg_ctl", "-D", "data", "-m", how, "-w", "-t", "120", "stop")

    def promote(self) -> None:
        """Ends being a standby."""
        self._run("pg_ctl", "-D", "data", "-w", "-t", "120", "promote")

    def sql(self, statement: str) -> str:
        """Runs a statement; returns what came of it, without headings."""
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres")
        command = [str(self._programs / "psql"), *where, "-At", "-c", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def remove(self) -> None:
        """Stops it if it runs, and deletes all."""
        if (self._folder / "data" / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def _append(self, file: str, line: str) -> None:
        with (self._folder / "data" / file).open("a") as out:
            out.write(line + "\n")

    def _run(self, program: str, *arguments: str) -> None:
        said = self._folder / "out"
        with said.open("ab") as out:  # no pipe: the server would hold it open
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self._folder,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=180,
            )
        assert done.returncode == 0, f"{program}: {said.read_text()}"
