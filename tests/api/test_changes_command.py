"""`pollerd changes` and `pollerd diff` against a served API, and as processes on a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from pollerd.cli.commands import app
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Baseline, Media
from pollerd.storage.values import Batch
from tests.api.conftest import Api
from tests.api.test_api_history import URL, poll, record
from tests.support.process import command, environment
from tests.support.terminal import on_terminal

Run = Callable[..., Awaitable[Result]]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202ered"


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("POLLERD_URL", api.root)

    async def invoke(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, list(words))

    return invoke


async def differing(api: Api, before: str, after: str) -> int:
    """A change between two contents: its id."""
    site_id = await api.add(URL)
    for n, text in enumerate((before, after)):
        found = record(site_id, n)
        baseline = Baseline(fingerprint=n.to_bytes(16, "big"), media=Media.TEXT)
        context = replace(found.context, baseline=baseline)
        await api.store.commit(Batch([replace(found, content=text.encode(), context=context)]))
    newest: int = (await api("GET", "/changes?limit=1&order=newest")).json["items"][0]["id"]
    return newest


async def test_changes_newest_first(run: Run, api: Api) -> None:
    first, second = await api.add(URL), await api.add("https://b.org")
    await poll(api.store, first, 4)
    for n in range(2):
        found = record(second, n)
        await api.store.commit(Batch([replace(found, context=replace(found.context, url="https://b.org/"))]))
    header, *lines = (await run("changes")).stdout.splitlines()
    assert header.split("\t") == ["id", "detected_at", "site_id", "url", "kind", "summary"]
    rows = [line.split("\t") for line in lines]
    assert [int(row[2]) for row in rows] == [second, first, first, first]
    assert [row[5] for row in rows] == ["change 1", "change 3", "change 2", "change 1"]
    as_json = json.loads((await run("changes", "--json", "--limit", "2")).stdout)
    assert [change["summary"] for change in as_json] == ["change 1", "change 3"]
    for named in (str(first), URL):
        of_one = json.loads((await run("changes", "--site", named, "--json")).stdout)
        assert [change["site_id"] for change in of_one] == [first] * 3
    assert json.loads((await run("changes", "--since", "2027-01-15T08:00:02Z", "--json")).stdout)[0]["id"]
    assert json.loads((await run("changes", "--since", "2h", "--limit", "0", "--json")).stdout) == []
    assert (await run("changes", "--since", "yesterday")).exit_code == 2


async def test_more_changes_than_a_page_holds(run: Run, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await poll(api.store, await api.add(URL), 8)
    monkeypatch.setattr("pollerd.cli.client.PAGE", 3)
    found = json.loads((await run("changes", "--limit", "5", "--json")).stdout)
    assert [change["summary"] for change in found] == [f"change {n}" for n in (7, 6, 5, 4, 3)]


async def follow(api: Api, *words: str, command: Sequence[str] = ("changes",)) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pollerd", *command, "--follow", *words),
        env=environment(POLLERD_URL=api.root),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A job in the background is started deaf to Ctrl-C, and so would be its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode()


async def test_following_shows_what_was_and_what_comes(api: Api) -> None:
    site_id = await api.add(URL)
    await poll(api.store, site_id, 3)
    process = await follow(api, "--json")
    known = [json.loads(await line_of(process))["summary"] for _ in range(2)]
    assert known == ["change 1", "change 2"], "oldest first, as those that come"
    await api.store.commit(Batch([record(site_id, 3)]))
    assert json.loads(await line_of(process))["summary"] == "change 3"
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (130, b"")


async def test_following_from_nothing_misses_nothing(api: Api) -> None:
    site_id = await api.add(URL)
    process = await follow(api)
    assert (await line_of(process)).startswith("id\t")
    await poll(api.store, site_id, 2)
    assert "change 1" in await line_of(process)
    api.streams.end()  # as a daemon does that ends
    assert process.stderr is not None
    told = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
    assert told.startswith("pollerd: ")
    assert "trying again" in told
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130


async def test_a_reader_that_leaves_is_no_error(api: Api) -> None:
    await poll(api.store, await api.add(URL), 3)
    process = await asyncio.create_subprocess_shell(
        f"{sys.executable} -m pollerd changes --json | head -c 1",
        env=environment(POLLERD_URL=api.root),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert await process.communicate() == (b"[", b"")


async def test_the_difference(run: Run, api: Api) -> None:
    change_id = await differing(api, "same\nold", "same\nnew")
    plain = (await run("diff", str(change_id))).stdout
    assert plain.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " same", "-old", "+new"]
    assert "\x1b" not in plain
    without = (await run("diff", str(change_id), "--context", "0")).stdout
    assert " same" not in without.splitlines()
    assert json.loads((await run("diff", str(change_id), "--json")).stdout)["added"] == 1
    missing = await run("diff", "77")
    assert (missing.exit_code, "no such change: 77" in missing.stderr) == (2, True)


async def test_a_hostile_page_cannot_reach_the_terminal(api: Api) -> None:
    change_id = await differing(api, "calm", f"tab\there {HOSTILE} ß")
    async with on_terminal(
        *(sys.executable, "-m", "pollerd", "diff", str(change_id)), env=environment(POLLERD_URL=api.root, TERM="xterm")
    ) as terminal:
        assert await terminal.ended() == 0, "the screen takes colours and nothing else"
    raw = terminal.screen.raw
    assert "\x1b[32m+tab" in raw
    assert "\x1b[31m-calm" in raw
    for forbidden in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e"):
        assert forbidden not in raw
    assert "ß" in raw


async def test_a_silent_daemon_is_given_up_after_seconds() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for words in (("changes",), ("sites", "list"), ("changes", "--follow"), ("collection", "status")):
            ended = await command(*words, "--url", url, "--timeout", "0.5s")
            assert ended.code == 1
            (line,) = ended.err.splitlines()
            assert line == (
                f"pollerd: the daemon at {url} was silent for 0.5s: it is busy, or hangs; --timeout waits longer"
            )
        doctor = await command("doctor", "--url", url, "--timeout", "0.5s", "--json")
        assert (doctor.code, json.loads(doctor.out)[0]["verdict"]) == (1, "WRONG")
    refused = await command("changes", "--url", url, "--timeout", "0")
    assert (refused.code, "above 0" in refused.err) == (2, True)


async def test_a_daemon_that_is_not_ready_says_so(api: Api, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def locked(*_: object) -> None:
        raise DatabaseUnavailableError("the database is locked")

    monkeypatch.setattr(api.store.changes, "page", locked)
    result = await run("changes")
    assert result.exit_code == 1
    assert result.stderr == f"pollerd: the daemon at {api.root} is not ready: the database is locked\n"
