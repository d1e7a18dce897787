"""`pollerd users` and `pollerd tokens` on the database: before the first start, and beside a daemon that runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from pollerd.api.settings import digest_of
from pollerd.cli.output import ask_secret
from pollerd.storage.accounts import open_accounts
from pollerd.storage.settings import StorageSettings
from tests.support.postgres import postgres_database
from tests.support.process import Ended, command, daemon_process

PASSWORD = "correct horse battery"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
        return
    with postgres_database(migrated=False) as url:
        yield url


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


async def on(database: str, *arguments: str | Path, new_interpreter: bool = False) -> Ended:
    return await command(*map(str, arguments), "--database", database, new_interpreter=new_interpreter)


async def test_users_and_tokens_before_the_first_start(database: str, password_file: Path) -> None:
    ada = ("users", "add", "ada", "--role", "write", "--password-file", password_file, "--json")
    added = await on(database, *ada, new_interpreter=True)
    assert added.code == 0, added
    assert json.loads(added.out)["role"] == "write"
    again = await on(database, "users", "add", "ADA", "--no-password")
    assert (again.code, again.err) == (2, "pollerd: user exists already: ada (id 1)\n")
    assert (await on(database, "users", "add", "bob", "--no-password")).code == 0
    assert (await on(database, "users", "role", "bob", "write")).code == 0
    listed = json.loads((await on(database, "users", "list", "--json")).out)
    assert [(user["name"], user["role"], user["has_password"]) for user in listed] == [
        ("ada", "write", True),
        ("bob", "write", False),
    ]
    assert (await on(database, "users", "remove", "bob")).code == 0
    assert (await on(database, "users", "remove", "bob")).err == "pollerd: no such user: bob\n"
    made = await on(database, "tokens", "add", "backup", new_interpreter=True)
    assert made.code == 0, made
    async with open_accounts(database, StorageSettings()) as accounts:
        token = await accounts.token(digest_of(made.out.strip()))
        user = await accounts.user("ada")
    assert token is not None
    assert (token.name, token.role.value) == ("backup", "read")
    assert user is not None
    assert (user.hash or "").startswith("$argon2id$")
    assert made.out.strip() not in (await on(database, "tokens", "list")).out
    cms = await on(database, "tokens", "add", "cms", "--role", "signals", "--json")
    assert json.loads(cms.out)["role"] == "signals"
    assert (await on(database, "tokens", "remove", "cms")).code == 0
    assert (await on(database, "tokens", "remove", "backup")).code == 0
    assert (await on(database, "tokens", "list", "--json")).out.strip() == "[]"
    assert (await on(database, "tokens", "remove", "backup")).err == "pollerd: no such token: backup\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("add", "a b", "--no-password"), "name: must be 1 to 64 letters"),
        (("add", "ada"), "--password-file"),
        (("add", "ada", "--no-password", "--password-file", "x"), "exclude"),
        (("add", "ada", "--password-file", "missing"), "there is no file missing"),
        (("add", "ada", "--role", "all", "--no-password"), "role"),
        (("password", "ada", "--password-file", "/dev/null"), "password: must be 10 to 256 characters"),
        (("role", "nobody", "read"), "no such user: nobody"),
        (("add", "ada", "--role", "signals", "--no-password"), "role"),
    ],
)
async def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    ended = await command("users", *arguments, "--database", f"sqlite:///{tmp_path / 'poll.db'}")
    assert ended.code == 2
    assert word in " ".join(ended.err.replace("│", "").split())


async def test_the_commands_work_beside_a_daemon_which_follows(tmp_path: Path, password_file: Path) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    log = tmp_path / "log"
    async with daemon_process(database, log) as daemon:
        await daemon.said("event=started")
        found = re.search(r"listen=(\S+)", daemon.log)
        assert found is not None
        root = f"http://{found[1]}"
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await _answers(session, root, 200)
            added = await on(database, "users", "add", "ada", "--role", "write", "--password-file", password_file)
            assert added.code == 0, added
            await _answers(session, root, 401)
            body = {"name": "ada", "password": PASSWORD}
            async with session.post(f"{root}/api/v1/sessions", json=body) as signed_in:
                assert signed_in.status == 201
            assert await _status(session, root) == 200
            password_file.write_text("another horse battery")
            changed = await on(database, "users", "password", "ada", "--password-file", password_file)
            assert changed.code == 0, changed
            await _answers(session, root, 401)
            assert (await on(database, "users", "remove", "ada")).code == 0
            await _answers(session, root, 200)


async def _status(session: aiohttp.ClientSession, root: str) -> int:
    async with session.get(f"{root}/api/v1/sites") as answer:
        return answer.status


async def _answers(session: aiohttp.ClientSession, root: str, status: int) -> None:
    """Waits until the daemon answers so."""
    async with asyncio.timeout(20):
        while await _status(session, root) != status:
            await asyncio.sleep(0.1)


def test_a_secret_is_asked_for_until_both_are_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["one", "two", "three", "three"])
    monkeypatch.setattr("typer.prompt", lambda _prompt, **_settings: next(typed))
    assert ask_secret("Password", twice=True) == "three"
    assert capsys.readouterr().err == "The two are not the same: type both again.\n"
