"""`pollerd run`, `db` and `config` as commands: exit codes, and one clear line where something is wrong."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from pollerd import __version__
from pollerd.api.settings import Scope, digest_of
from pollerd.app.config import load
from pollerd.log_events import EVENTS
from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.support.origin import Origin, Page, until
from tests.support.postgres import postgres_database
from tests.support.process import Ended, command, daemon_process

ANYWHERE = {"POLLERD_LISTEN": "127.0.0.1:0"}


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"


def assert_refused(ended: Ended, *words: str) -> None:
    """Exit code 2, and one line that says it all."""
    assert ended.code == 2, ended
    (line,) = ended.err.strip().splitlines()
    assert line.startswith("pollerd: ")
    for word in words:
        assert word in line


async def test_a_list_that_cannot_be_read(database: str, tmp_path: Path) -> None:
    missing = await command("run", "missing.txt", "--database", database, env=ANYWHERE, cwd=tmp_path)
    assert missing.code == 2
    assert "LIST_OF_SITES: there is no file missing.txt" in missing.err
    of_file = await command("run", env={"POLLERD_URLS": "missing.txt", **ANYWHERE}, cwd=tmp_path)
    assert_refused(of_file, "list of sites: there is no file missing.txt")
    assert not (tmp_path / "poll.db").exists(), "nothing was begun"


async def test_a_port_that_is_taken(database: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert_refused(
            await command("run", "--listen", address, "--database", database), f"listen: {address}", "in use"
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--budget", "0"], ["budget: must be polls per second from 0.01 to 10000; given: 0.0"]),
        (["--listen", "0.0.0.0:8080"], ["listen", "loopback", "token"]),
        (["--database", "mysql://db/x"], ["database", "mysql"]),
        (["--database", "sqlite+aiosqlite:////nowhere/at/all/poll.db"], ["/nowhere/at/all/poll.db"]),
    ],
)
async def test_values_that_cannot_be_used(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    assert_refused(await command("run", *arguments, env=ANYWHERE, cwd=tmp_path), *words)
    assert not list(tmp_path.glob("*.db"))


async def test_an_unknown_variable(tmp_path: Path) -> None:
    assert_refused(await command("run", env={"POLLERD_BUGDET": "5"}, cwd=tmp_path), "POLLERD_BUGDET", "POLLERD_BUDGET")


async def test_db_upgrade_and_check(database: str, tmp_path: Path) -> None:
    missing = await command("db", "check", "--database", database)
    assert_refused(missing, "there is no file")
    assert not (tmp_path / "poll.db").exists(), "looking makes nothing"
    upgraded = await command("db", "upgrade", "--database", database, new_interpreter=True)
    assert (upgraded.code, upgraded.out) == (0, f"schema is at {migrate.head()}\n")
    checked = await command("db", "check", env={"POLLERD_DATABASE": database})
    assert (checked.code, checked.out) == (0, f"schema is at {migrate.head()}; this program needs {migrate.head()}\n")
    (tmp_path / "empty.db").touch()
    empty = await command("db", "check", "--database", f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
    assert (empty.code, "schema is at nothing" in empty.out) == (1, True)


async def test_db_raise_numbers(database: str) -> None:
    await command("db", "upgrade", "--database", database)
    refused = await command("db", "raise-numbers", "--database", database)
    assert_refused(refused, "database: must be PostgreSQL's")
    with postgres_database() as url:
        raised = await command("db", "raise-numbers", "--by", "500", "--database", url, "--json")
        assert raised.code == 0
        assert json.loads(raised.out)["passed_over"]["change"] == 501
        again = await command("db", "raise-numbers", "--by", "500", "--database", url)
        assert (again.code, again.out) == (0, "the next change has a number above 1002\n")


async def test_db_partitions(database: str) -> None:
    await command("db", "upgrade", "--database", database)
    assert_refused(await command("db", "partitions", "8", "--database", database), "database: must be PostgreSQL's")
    with postgres_database() as url:
        done = await command("db", "partitions", "8", "--database", url, "--json")
        assert (done.code, json.loads(done.out)) == (0, {"partitions": 8})
        assert_refused(await command("db", "partitions", "0", "--database", url), "partitions: must be 1 to 4096")
        store = await Store.open(url, node=NodeInfo(name="a", version="1"))
        assert store.cluster is not None
        assert await store.cluster.prepare() == 8
        held = await command("db", "partitions", "9", "--database", url)
        assert held.code != 0
        assert "nodes are running on the database" in held.err
        assert "a (1)" in held.err, "the node, and its version"
        await store.close()


async def test_config_check_and_show(tmp_path: Path) -> None:
    file = tmp_path / "pollerd.toml"
    file.write_text('budget = 12\ntoken = "open-sesame"\ndatabase = "postgresql://me:sesame@db/x"\n')
    fine = await command("config", "check", "--config", str(file))
    assert (fine.code, fine.out) == (0, "the settings are fine\n")
    shown = await command("config", "show", "--config", str(file), env={"POLLERD_HOST_INTERVAL": "2m"})
    assert shown.code == 0
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in shown.out.splitlines()}
    assert rows["budget"] == ["12.0", f"file {file}"]
    assert rows["host_interval"] == ["120.0", "environment"]
    assert rows["token"][0] == "***"
    assert "sesame" not in shown.out
    file.write_text("bugdet = 12\n")
    assert_refused(await command("config", "check", "--config", str(file)), "bugdet", "budget")


async def test_json_logs_and_a_list_with_bad_lines(database: str, tmp_path: Path) -> None:
    async with Origin() as origin:
        origin.pages["/a"] = Page()
        urls = tmp_path / "urls.txt"
        urls.write_text(
            f"# ours\n{origin.url('/a')}\nftp://example.org/x\n\nno url at all\n{origin.url('/b')}  # two\n"
        )
        flags = ["--log-format", "json"]
        async with daemon_process(database, tmp_path / "log", str(urls), flags=flags) as daemon:
            await daemon.said("list_read")
            await until(lambda: bool(origin.hits("/a")) and bool(origin.hits("/b")))
            daemon.send(signal.SIGTERM)
            assert await daemon.ended() == 0
        lines = [json.loads(line) for line in daemon.log.splitlines()]
    rejected = [(line["line"], line["level"]) for line in lines if line["event"] == "line_rejected"]
    assert rejected == [(3, "warning"), (5, "warning")]
    (read,) = [line for line in lines if line["event"] == "list_read"]
    assert (read["added"], read["rejected"]) == (2, 2)
    assert {"started", "stopped"} <= {line["event"] for line in lines}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", line["at"]) for line in lines)


async def test_a_new_default_is_said_once_after_an_upgrade(database: str, tmp_path: Path) -> None:
    await migrate.upgrade(database)
    old = Database(database_url(database), StorageSettings(), create=False, exclusive=True)
    await old.write(lambda connection: migrate.down(connection, "0033"))
    await old.close()
    said = []
    for start in ("upgrade", "again"):
        async with daemon_process(database, tmp_path / start) as daemon:
            await daemon.said("event=started")
            daemon.send(signal.SIGINT)
            assert await daemon.ended() == 0
        said.append(re.findall(r"event=new_default setting=(\w+)", daemon.log))
    assert said == [["respect_ttl"], []], "not of min_saving, which is set"


WORK = """
sites add {origin}/new --tag news --min-interval 1h
sites pause 1
sites resume 1
tags set news --weight 2
tags set news --weight none
sites bulk pause --tag news
jobs undo 1
sources add {origin}/sitemap.xml
sources read 1
channels add hook --kind webhook --set url={origin}/hook
rules add all --channel hook --event site.changed --event site.failing
signals add {origin}/new --kind feed
sites preview {origin}/a
sites remove 2
"""
"""Commands that have a running daemon do what it logs."""


async def test_all_lines_of_a_running_daemon_are_in_the_table_of_events(database: str, tmp_path: Path) -> None:
    """Other than what the source says (`tests/docs/test_log_events.py`): keys that come from elsewhere show, too."""
    urls, settings = tmp_path / "urls.toml", tmp_path / "pollerd.toml"
    async with Origin() as origin:
        origin.pages |= {"/a": Page(), "/cut": Page(headers={"Content-Length": "9"}), "/pdf": Page("%PDF-1.7 none")}
        origin.pages["/pdf"].headers["Content-Type"] = "application/pdf"
        sites = [origin.url(path) for path in ("/a", "/gone", "/cut", "/pdf")]
        sites += ["http://127.0.0.1:1/", "http://nosuch.invalid/", "http://[::1/", "no url"]
        urls.write_text(f"sites = {json.dumps(sites)}\n[tags.other]\nweight = 3\n")
        settings.write_text('token = "short"\n')
        flags = ["--log-format", "json", "--log-level", "debug", "--config", str(settings), "--shadow", "uniform"]
        async with daemon_process(database, tmp_path / "log", str(urls), flags=flags) as daemon:
            await daemon.said('"list_read"')
            await until(lambda: bool(origin.hits("/a")) and bool(origin.hits("/gone")))
            (listen,) = (json.loads(line)["listen"] for line in daemon.log.splitlines() if '"started"' in line)
            env = {"POLLERD_URL": f"http://{listen}", "POLLERD_TOKEN": "short"}
            for line in WORK.format(origin=origin.url("")).strip().splitlines():
                done = await command(*line.split(), env=env)
                assert done.code == 0, (line, done)
            origin.pages["/a"].body = "<p>Something else</p>"
            await daemon.said('"message_failed"')
            settings.write_text('token = "another"\nno_web = true\n')
            daemon.send(signal.SIGHUP)
            await daemon.said('"reloaded"')
            settings.write_text("budget = 0\n")
            daemon.send(signal.SIGHUP)
            await daemon.said('"reload_failed"')
            daemon.send(signal.SIGTERM)
            assert await daemon.ended() == 0
        lines = [json.loads(line) for line in daemon.log.splitlines()]
    unknown = {(line["event"], key) for line in lines for key in unlisted(line)}
    assert unknown == set()
    assert len({line["event"] for line in lines}) >= 15, sorted({line["event"] for line in lines})


def unlisted(line: dict[str, Any]) -> set[str]:
    """Keys of a line that its event does not have in the table; "event" and "level" if those are not there."""
    event = EVENTS.get(line["event"])
    if event is None:
        return {"event"}
    return {key for key in line if key not in {"at", "level", "event", *event.keys.split()}} | (
        set() if line["level"] in event.level.split(", ") else {"level"}
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ({"event": "stopped", "level": "info", "at": "x"}, set()),
        ({"event": "stopped", "level": "error", "at": "x"}, {"level"}),
        ({"event": "stopped", "level": "info", "why": "x"}, {"why"}),
        ({"event": "ended", "level": "info"}, {"event"}),
    ],
)
def test_a_line_that_is_not_in_the_table_is_found(line: dict[str, Any], found: set[str]) -> None:
    assert unlisted(line) == found


async def test_text_logs_are_key_value(database: str, tmp_path: Path) -> None:
    async with daemon_process(database, tmp_path / "log") as daemon:
        await daemon.said("event=started")
        daemon.send(signal.SIGINT)
        assert await daemon.ended() == 0
    for line in daemon.log.splitlines():
        assert re.match(r"at=\S+ level=(info|warning) event=\w+", line), line


async def test_version() -> None:
    shown = await command("--version")
    assert (shown.code, shown.out.strip()) == (0, f"pollerd {__version__}")


async def test_help() -> None:
    helped = await command("--help")
    assert helped.code == 0
    for name in ("run", "sites", "tokens", "db", "config", "demo"):
        assert name in helped.out


@pytest.mark.parametrize(
    ("arguments", "scopes"), [((), {Scope.READ, Scope.WRITE}), (("--scope", "read"), {Scope.READ})]
)
async def test_a_token_and_the_line_that_lets_it_in(
    tmp_path: Path, arguments: tuple[str, ...], scopes: set[Scope]
) -> None:
    made = await command("tokens", *arguments)
    token, line = made.out.splitlines()
    assert len(token) >= 43
    assert token not in line
    file = tmp_path / "pollerd.toml"
    file.write_text(line)
    (known,) = load({}, file=file, environ={}).api.tokens
    assert known.digest == digest_of(token)
    assert known.scopes == scopes
    assert (await command("tokens")).out != made.out


async def test_a_scope_that_is_none_is_named() -> None:
    refused = await command("tokens", "--scope", "all")
    assert refused.code == 2
    assert "--scope: must be one of read, write" in refused.err
    assert "'all'" in refused.err


async def test_keys_are_made() -> None:
    key = (await command("config", "key")).out.strip()
    assert StorageSettings(secret_key=key).secret_key == key, "it is taken as a key"


async def test_a_preview_says_what_an_address_is_and_what_is_in_the_way(database: str, tmp_path: Path) -> None:
    shop = '<title>Machine</title><h1>Machine</h1><meta property="product:price:amount" content="9"><p>In stock.</p>'
    shell = '<title>App</title><div id="root"></div><script src="/a.js"></script>'
    async with Origin() as origin:
        feed = '<link rel="alternate" type="application/rss+xml" href="/feed">'
        origin.pages |= {"/shop": Page(shop + feed), "/app": Page(shell)}
        async with daemon_process(database, tmp_path / "log") as daemon:
            await daemon.said("event=started")
            root = re.findall(r"http://127\.0\.0\.1:\d+", daemon.log)[0]
            seen = await command("sites", "preview", origin.url("/shop"), "--url", root)
            assert seen.code == 0, seen
            assert seen.out.splitlines()[:2] == [
                "product · Machine · 9",
                f"A feed says what is new for less: {origin.url('/feed')}",
            ]
            seen = await command("sites", "preview", origin.url("/app"), "--url", root)
            assert seen.out.splitlines()[:3] == [
                "page · App",
                "In the way: the page is nearly empty until its scripts have run.",
                "What helps: let a browser read the page (render).",
            ]
