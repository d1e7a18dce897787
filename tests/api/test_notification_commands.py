"""`pollerd rules`, `pollerd channels` and `pollerd deliveries` against a served API."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pollerd.cli.commands import app
from pollerd.errors import DatabaseUnavailableError
from pollerd.events import EventKind, Notice, NoticeState
from pollerd.notifications.channels import apprise_fence
from pollerd.storage.notification_values import AttemptEnd
from tests.api.conftest import Api
from tests.api.test_changes_command import follow, line_of

HOOK = "https://example.org/hook"
Run = Callable[..., Awaitable[Result]]
Read = Callable[..., Awaitable[Any]]


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("POLLERD_URL", api.root)

    async def invoke(*words: str, stdin: str | None = None) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, list(words), input=stdin)

    return invoke


@pytest.fixture
def read(run: Run) -> Read:
    """`await read("rules", "list")`: the JSON of a command that succeeds."""

    async def invoke(*words: str, stdin: str | None = None) -> Any:
        result = await run(*words, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return invoke


@pytest.fixture
async def hook(read: Read) -> Any:
    """A webhook, as `add` showed it."""
    return await read("channels", "add", "hook", "--kind", "webhook", "--set", f"url={HOOK}")


def rows(result: Result) -> list[dict[str, str]]:
    """The lines of a table by the names of its header."""
    assert result.exit_code == 0, result.output
    header, *lines = result.stdout.splitlines()
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]


def fields(result: Result) -> dict[str, str]:
    return {row["field"]: row["value"] for row in rows(result)}


# --- channels --------------------------------------------------------------------------------------------------------


async def test_a_secret_is_shown_once(run: Run, hook: Any) -> None:
    assert hook["secret"].startswith("whsec_")
    shown = await run("channels", "show", "hook")
    assert fields(shown)["url"] == HOOK
    assert "whsec_" not in shown.stdout
    rotated = await run("channels", "rotate", "hook", "--overlap", "1h")
    assert fields(rotated)["secret"].startswith("whsec_")
    assert fields(rotated)["secret"] != hook["secret"]


async def test_channels_are_listed_changed_and_removed(run: Run, read: Read, hook: Any) -> None:
    [row] = rows(await run("channels", "list"))
    assert (row["name"], row["kind"], row["state"], row["waiting"], row["dead"]) == (
        "hook",
        "webhook",
        "active",
        "0",
        "0",
    )
    changed = await read("channels", "edit", "hook", "--set", "delivery.per_minute=6", "--disable")
    assert (changed["settings"]["delivery"]["per_minute"], changed["settings"]["url"]) == (6, HOOK)
    assert rows(await run("channels", "list"))[0]["state"] == "disabled"
    await read("rules", "add", "all", "--channel", "hook")
    refused = await run("channels", "remove", "hook")
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    await run("rules", "remove", "all")
    assert (await run("channels", "remove", str(hook["id"]))).stdout == "removed the channel hook\n"
    assert await read("channels", "list") == []


async def test_secrets_come_from_files(run: Run, read: Read, tmp_path: Path) -> None:
    (tmp_path / "mail.pw").write_text("hunter2\n")
    mail = await read(
        *("channels", "add", "mail", "--kind", "email", "--set", "host=mail.example.org"),
        *("--set", "sender=us@example.org", "--set", "recipients=a@example.org", "--set", "recipients=b@example.org"),
        *("--set", "username=us", "--secret-file", f"password={tmp_path / 'mail.pw'}"),
    )
    assert mail["settings"]["recipients"] == ["a@example.org", "b@example.org"]
    assert mail["settings"]["secrets"] == ["password"]
    kept = await read("channels", "edit", "mail", "--set", "recipients=c@example.org")
    assert (kept["settings"]["recipients"], kept["settings"]["secrets"]) == (["c@example.org"], ["password"])
    moved = await run("channels", "edit", "mail", "--set", "host=mail.example.net")
    assert (moved.exit_code, "password: must be given again" in moved.stderr) == (2, True)


SECRET_ARGUMENTS = [
    ("mail", "--kind", "email", "--set", "password=hunter2"),
    ("chat", "--kind", "apprise", "--set", "url=ntfys://hunter2/x"),
    ("hook", "--kind", "webhook", "--set", f"url={HOOK}?key=hunter2"),
    ("hook", "--kind", "webhook", "--set", "headers.authorization=hunter2"),
]


async def test_a_secret_is_no_argument(run: Run) -> None:
    for words in SECRET_ARGUMENTS:
        refused = await run("channels", "add", *words)
        assert refused.exit_code == 2
        assert "--secret-file" in refused.stderr
        assert "hunter2" not in refused.output


async def test_a_channel_from_a_file(read: Read, tmp_path: Path) -> None:
    (tmp_path / "hook.toml").write_text(f'name = "h"\nkind = "webhook"\nurl = "{HOOK}"\nheaders = {{x-key = "k"}}\n')
    added = await read("channels", "add", "--file", str(tmp_path / "hook.toml"))
    assert (added["name"], added["settings"]["headers"]) == ("h", ["x-key"])


async def test_a_test_tells_what_came_of_it(run: Run, read: Read) -> None:
    await read("channels", "add", "hook", "--kind", "webhook", "--set", "url=http://127.0.0.1:9/")
    tried = await run("channels", "test", "hook")
    assert tried.exit_code == 1
    assert tried.stdout.startswith("field\tvalue\noutcome\t")


# --- rules -----------------------------------------------------------------------------------------------------------


async def test_a_rule_by_options(run: Run, read: Read, hook: Any, api: Api) -> None:
    site = await api.add("https://example.org/news")
    added = await read(
        *("rules", "add", "prices", "--channel", "hook", "--tag", "shop", "--site", "https://example.org/news"),
        *("--event", "site.changed", "--event", "site.failing", "--added", "sale", "--added", r"re:-\d+%"),
        *("--failing-after", "6h", "--digest", "daily@08:00", "--day", "mon", "--zone", "Europe/Berlin"),
        *("--quiet", "22:00-07:00"),
    )
    assert added["rule"] == {
        "name": "prices",
        "channels": ["hook"],
        "events": ["site.changed", "site.failing"],
        "sites": {"ids": [site], "tags": ["shop"]},
        "words": {"added": [{"text": "sale"}, {"re": r"-\d+%"}]},
        "failing": {"after": 21600.0},
        "digest": {"every": "day", "at": "08:00", "days": ["mon"], "zone": "Europe/Berlin"},
        "quiet": {"zone": "Europe/Berlin", "hours": added["rule"]["quiet"]["hours"]},
    }
    [row] = rows(await run("rules", "list"))
    assert (row["name"], row["sites"], row["digest"]) == ("prices", f"ids={site} tags=shop", "daily@08:00")
    later = await read("rules", "edit", "prices", "--digest", "daily@09:30")
    assert later["rule"]["digest"] == {"every": "day", "at": "09:30", "zone": "Europe/Berlin"}
    changed = await read("rules", "edit", "prices", "--site", "none", "--digest", "hourly", "--quiet", "none")
    assert changed["rule"]["sites"] == {"tags": ["shop"]}
    assert changed["rule"]["digest"] == {"every": "hour", "zone": "UTC"}
    assert "quiet" not in changed["rule"]
    assert changed["rule"]["words"] == added["rule"]["words"]
    shown = fields(await run("rules", "show", "prices"))
    assert (shown["events"], json.loads(shown["sites"])) == ("site.changed;site.failing", {"tags": ["shop"]})


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", '{"name": "r", "channels": ["hook"], "matters": false}'),
        (".toml", 'name = "r"\nchannels = ["hook"]\nmatters = false\n'),
        (".yaml", "{name: r, channels: [hook], matters: false}\n"),
        ("-", '{"name": "r", "channels": ["hook"], "matters": false}'),
    ],
)
async def test_a_rule_from_a_file(read: Read, hook: Any, tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"rule{suffix}"
    file.write_text(text)
    given = ("-",) if suffix == "-" else (str(file),)
    added = await read("rules", "add", "--file", *given, "--tag", "x", stdin=text)
    assert added["rule"] == {
        "name": "r",
        "channels": ["hook"],
        "events": ["site.changed"],
        "matters": False,
        "sites": {"tags": ["x"]},
    }
    edited = await read("rules", "edit", "r", "--file", *given, "--disable", stdin=text)
    assert (edited["enabled"], "sites" in edited["rule"]) == (False, False)


async def test_a_rule_is_muted_and_not_any_longer(run: Run, read: Read, hook: Any) -> None:
    await read("rules", "add", "all", "--channel", "hook")
    muted = await read("rules", "mute", "all", "--until", "2h")
    assert muted["muted_until"] is not None
    assert fields(await run("rules", "unmute", "all"))["muted_until"] == ""
    assert (await run("rules", "remove", "all")).stdout == "removed the rule all\n"
    assert (await run("rules", "list")).stdout.count("\n") == 1, "the header alone"


MISTAKES = [
    (("rules", "show", "nobody"), "no such rule: nobody"),
    (("channels", "show", "nobody"), "no such channel: nobody"),
    (("rules", "add", "x"), "a rule needs a name and a channel"),
    (("rules", "add", "x", "--channel", "nowhere"), "nowhere"),
    (
        ("rules", "add", "x", "--channel", "hook", "--event", "site.chnged"),
        "--event: unknown value 'site.chnged'; did you mean site.changed?",
    ),
    (("rules", "edit", "x"), "nothing to change"),
    (("channels", "edit", "hook"), "nothing to change"),
    (("channels", "add", "x"), "a channel needs a name and a kind"),
    (("channels", "add", "x", "--kind", "pigeon", "--set", "a=1"), "kind: unknown kind of channel"),
    (("channels", "rotate", "hook", "--overlap", "90d"), "overlap"),
    (("deliveries", "--channel", "nobody"), "no such channel: nobody"),
]


async def test_mistakes_end_with_one_clear_line(run: Run, hook: Any) -> None:
    for words, told in MISTAKES:
        result = await run(*words)
        assert (result.exit_code, result.stdout) == (2, ""), words
        assert told in result.stderr
        assert result.stderr.count("\n") == 1


WRONG_OPTIONS = [
    (("--digest", "weekly"), "none, hourly, or a time such as daily@08:00"),
    (("--quiet", "night"), "two times of day"),
    (("--zone", "Europe/Berlin"), "--zone is of a digest"),
    (("--digest", "daily@08:00"), "quiet hours need --zone"),
    (("--quiet", "22:00-07:00"), "quiet hours need --zone"),
    (("--day", "mon"), "--day is of a daily digest"),
    (("--file", "/nowhere/rule.json"), "there is no folder /nowhere"),
]


async def test_options_that_cannot_be(run: Run, hook: Any) -> None:
    for words, told in WRONG_OPTIONS:
        result = await run("rules", "add", "x", "--channel", "hook", *words)
        assert (result.exit_code, result.stdout) == (2, ""), words
        assert told in " ".join(result.stderr.replace("│", " ").split())


# --- deliveries ------------------------------------------------------------------------------------------------------


async def test_deliveries_are_listed_and_sent_again(run: Run, read: Read, hook: Any, api: Api) -> None:
    rule = await read("rules", "add", "all", "--channel", "hook")
    assert await read("deliveries") == []
    store = api.store.notifications
    told = [
        Notice(
            event_id=f"e{n}", kind=EventKind.BLIND, at=100.0, rule_id=rule["id"], channel_id=hook["id"], due_at=100.0
        )
        for n in range(2)
    ]
    await store.outbox.put(told)
    [row, _] = rows(await run("deliveries", "--channel", "hook", "--state", "waiting"))
    assert (row["kind"], row["state"], row["channel_id"]) == ("daemon.blind", "waiting", str(hook["id"]))
    while (claim := await store.outbox.claim(hook["id"], 200.0)) is not None:
        end = AttemptEnd(NoticeState.DEAD, "dead", 404, "said no")
        await store.outbox.ended(hook["id"], claim.message_id, 201.0, end)
    [tried, _] = rows(await run("deliveries", "attempts", "--channel", "hook"))
    assert (tried["outcome"], tried["status"]) == ("dead", "404")
    dead = await read("deliveries", "--state", "dead", "--limit", "5")
    assert rows(await run("channels", "list"))[0]["dead"] == str(len(dead)) == "2"
    again = await run("deliveries", "resend", *(str(one["id"]) for one in dead))
    assert again.stdout == f"{len(dead)} queued again\n"
    assert (await run("channels", "resend", "hook")).stdout == "0 queued again\n"


async def tell(api: Api, rule: int, channel: int, event: str) -> None:
    """Makes one attempt to tell an event, which fails for good."""
    store = api.store.notifications
    kind = EventKind.BLIND
    await store.outbox.put(
        [Notice(event_id=event, kind=kind, at=100.0, rule_id=rule, channel_id=channel, due_at=100.0)]
    )
    claim = await store.outbox.claim(channel, 200.0)
    assert claim is not None
    await store.outbox.ended(channel, claim.message_id, 201.0, AttemptEnd(NoticeState.DEAD, "dead", 404, event))


@pytest.mark.parametrize(("limit", "known"), [(5, ["one", "two"]), (1, ["two"]), (0, [])])
async def test_attempts_are_followed(read: Read, hook: Any, api: Api, limit: int, known: list[str]) -> None:
    rule = (await read("rules", "add", "all", "--channel", "hook"))["id"]
    for event in ("one", "two"):
        await tell(api, rule, hook["id"], event)
    words = ("deliveries", "attempts", "--limit", str(limit))
    process = await follow(api, command=words)
    assert (await line_of(process)).startswith("id\tat\t")
    assert [(await line_of(process)).split("\t")[-1] for _ in known] == [f"{event}\n" for event in known]
    for event in ("three", "four"):
        await tell(api, rule, hook["id"], event)
        assert (await line_of(process)).endswith(f"\t{event}\n")
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (130, b"")


async def test_attempts_are_followed_over_a_break(
    read: Read, hook: Any, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def locked(*_: object) -> None:
        raise DatabaseUnavailableError("the database is locked")

    rule = (await read("rules", "add", "all", "--channel", "hook"))["id"]
    process = await follow(api, "--json", command=("deliveries", "attempts"))
    await tell(api, rule, hook["id"], "one")
    assert json.loads(await line_of(process))["detail"] == "one"
    with monkeypatch.context() as broken:
        broken.setattr(api.store.notifications.log, "attempts", locked)
        assert process.stderr is not None
        told = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
    assert told.startswith("pollerd: ")
    assert told.endswith("the database is locked; trying again\n")
    await tell(api, rule, hook["id"], "two")
    assert json.loads(await line_of(process))["detail"] == "two"
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (130, b"")


async def test_an_apprise_channel_that_the_kernel_does_not_fence_says_so(
    run: Run, read: Read, hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apprise_fence, "missing", lambda: None)
    (tmp_path / "url").write_text("json://127.0.0.1/x")
    await read("channels", "add", "chat", "--kind", "apprise", "--secret-file", f"url={tmp_path / 'url'}")
    assert [row["state"] for row in rows(await run("channels", "list"))] == ["active", "active"]
    assert "not fenced" not in (await run("doctor")).stdout
    monkeypatch.setattr(apprise_fence, "missing", lambda: "this kernel has no Landlock")
    assert [row["state"] for row in rows(await run("channels", "list"))] == ["active", "active, not fenced"]
    assert (await read("channels", "show", "chat"))["not_fenced"] == "this kernel has no Landlock"
    assert (await read("channels", "show", "hook"))["not_fenced"] is None
    assert "channel chat: not fenced: this kernel has no Landlock" in (await run("doctor")).stdout
