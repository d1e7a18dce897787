"""Channels and rules in a TOML or YAML list: what it says wins, and what is wrong changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pollerd.app.url_list import check_list, list_at_once, read_list
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.storage.notification_values import Origin, StoredChannel
from tests.daemon.conftest import Running, Start

TOML = """
[[sites]]
url = "https://a.invalid/"

[[channels]]
name = "hook"
kind = "webhook"
url = "https://example.org/hook"
secret_file = "hook.key"
headers = {x-key = {file = "header.key"}}

[[channels]]
name = "mail"
kind = "email"
host = "mail.example.org"
sender = "us@example.org"
recipients = ["me@example.org"]
username = "us"
password_file = "mail.pw"
delivery = {per_minute = 5}

[[rules]]
name = "prices"
channels = ["hook", "mail"]
digest = {every = "day", at = "08:00", zone = "Europe/Berlin"}
"""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "hook.key").write_text(f"{SECRET}\n")
    (tmp_path / "header.key").write_text("hunter2\n")
    (tmp_path / "mail.pw").write_text("hunter3\n")
    return tmp_path / "list.toml"


async def take(running: Running, file: Path, text: str, *, sync: bool = False) -> None:
    file.write_text(text)
    await asyncio.to_thread(check_list, file)
    await read_list(file, running.control, sync=sync)


async def channel(running: Running, name: str) -> StoredChannel:
    return next(one for one in await running.store.notifications.channels.all() if one.spec.name == name)


async def there(running: Running) -> dict[str, Origin]:
    store = running.store.notifications
    found = {one.spec.name: one.spec.origin for one in await store.channels.all()}
    return found | {one.spec.name: one.spec.origin for one in await store.rules.all()}


async def test_a_list_says_how_its_channels_and_rules_are(start: Start, file: Path) -> None:
    async with start() as running:
        control, store = running.control.notifications, running.store.notifications
        own = await control.add_channel("own", "webhook", {"url": "https://example.org/own"})
        await take(running, file, TOML)
        assert await there(running) == {
            "own": Origin.API,
            "hook": Origin.FILE,
            "mail": Origin.FILE,
            "prices": Origin.FILE,
        }
        hook, mail = [await channel(running, name) for name in ("hook", "mail")]
        assert control.signing_secret(hook) == SECRET
        assert control.shown(mail)["secrets"] == ["password"]
        with pytest.raises(InvalidValueError, match="the configuration file"):
            await control.change_channel(hook.id, None, enabled=False)
        await take(running, file, TOML)
        assert await channel(running, "hook") == hook, "the same list changes nothing"
        await take(running, file, TOML.replace("per_minute = 5", "per_minute = 6"), sync=True)
        changed = await channel(running, "mail")
        assert (changed.id, control.shown(changed)["delivery"]["per_minute"]) == (mail.id, 6)
        await take(running, file.with_suffix(".txt"), "https://a.invalid/\n", sync=True)
        assert len(await there(running)) == 4, "a format that cannot name any leaves them alone"
        await take(running, file.with_suffix(".yaml"), "sites: [https://a.invalid/]\n")
        assert await there(running) == {"own": Origin.API}
        assert (await store.channels.get(own.id)).spec.name == "own"


async def test_what_is_refused_changes_nothing(start: Start, file: Path) -> None:
    async with start() as running:
        control = running.control.notifications
        await take(running, file, TOML)
        before = await there(running)
        await control.add_channel("own", "webhook", {"url": "https://example.org/own"})
        await control.add_rule({"name": "of own", "channels": ["hook"]})
        taken = TOML.replace('name = "mail"', 'name = "own"').replace('"hook", "mail"', '"hook"')
        for text in (taken, '[[sites]]\nurl = "https://b.invalid/"\n'):
            file.write_text(text)
            with pytest.raises(ConfigError, match=r"list\.toml: (channels|channel|rules)"):
                await read_list(file, running.control, sync=True)
        assert await there(running) == {**before, "own": Origin.API, "of own": Origin.API}
        assert [site.spec.url async for site in running.store.sites.iterate()] == ["https://a.invalid/"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TOML.replace("per_minute = 5", "per_minute = 0"), r"channels\[1\]\.delivery\.per_minute"),
        (TOML.replace('secret_file = "hook.key"', ""), r"channels\[0\]\.secret"),
        (TOML.replace("mail.pw", "none.pw"), r"channels\[1\]\.password_file"),
        (TOML.replace('name = "mail"', 'name = "hook"'), r"channels\[1\]\.name"),
        (TOML.replace("email", "pigeon"), r"channels\[1\]\.kind"),
        (TOML.replace('at = "08:00"', 'at = "8"'), r"rules\[0\]\.digest\.at"),
        (TOML.replace('name = "prices"', ""), r"rules\[0\]\.name"),
        ("channels = 5", "channels must be a list of tables"),
        ("rules = [5]", r"rules\[0\] must be a table"),
    ],
)
def test_a_wrong_entry_is_named_by_its_place(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    for read in (check_list, list_at_once):
        with pytest.raises(ConfigError, match=told) as refused:
            read(file)
        assert "hunter" not in str(refused.value)
