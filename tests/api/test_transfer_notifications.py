"""Channels and rules in exports: what goes out comes back; secrets only sealed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import Api, Reply
from tests.api.test_transfer import get, made, put

URL, PASSPHRASE = "https://example.org/hook?key=hunter2", "correct horse battery"


@pytest.fixture
async def furnished(api: Api) -> Api:
    control = api.control.notifications
    await control.add_channel("hook", "webhook", {"url": URL, "headers": {"x-key": "hunter3"}})
    mail = {"host": "mail.example.org", "sender": "us@example.org", "recipients": ["me@example.org"]}
    await control.add_channel("mail", "email", {**mail, "username": "us", "password": "hunter4"}, enabled=False)
    rule = await control.add_rule({"name": "all", "channels": ["hook", "mail"], "digest": {"every": "hour"}})
    await control.mute_rule(rule.id, 4e9)
    return api


async def state(api: Api) -> list[Any]:
    store = api.store.notifications
    rules = [(one.spec, one.muted_until) for one in await store.rules.all()]
    return [*(one.spec for one in await store.channels.all()), *rules]


async def clear(api: Api) -> None:
    for rule in await api.store.notifications.rules.all():
        await api.control.notifications.delete_rule(rule.id)
    for channel in await api.store.notifications.channels.all():
        await api.control.notifications.delete_channel(channel.id)


def sections(reply: Reply) -> dict[str, Any]:
    assert reply.status == 200, reply.body
    found = {one["section"]: one for one in reply.json["sections"]}
    return {name: found[name] for name in ("channels", "rules")}


async def test_with_secrets_all_comes_back(furnished: Api) -> None:
    before, document = await state(furnished), await get(furnished, PASSPHRASE)
    assert b"hunter" not in document
    again = sections(await put(furnished, document, PASSPHRASE))
    assert (again["channels"]["unchanged"], again["rules"]["unchanged"]) == (2, 1)
    await clear(furnished)
    dry = sections(await put(furnished, document, PASSPHRASE, "?dry_run=true"))
    assert (dry["channels"]["added"], await state(furnished)) == (2, [])
    added = sections(await put(furnished, document, PASSPHRASE))
    assert (added["channels"]["added"], added["rules"]["added"]) == (2, 1)
    assert await state(furnished) == before


async def test_without_them_the_export_names_what_is_missing(furnished: Api) -> None:
    before, document = await state(furnished), await get(furnished)
    assert b"hunter" not in document
    assert b"whsec_" not in document
    kept = await put(furnished, document)
    assert [(one["channel"], one["kinds"]) for one in kept.json["secrets_missing"]] == [
        ("hook", ["header.x-key", "query", "secret"]),
        ("mail", ["password"]),
    ]
    assert await state(furnished) == before, "secrets that are here stay"
    await clear(furnished)
    assert sections(await put(furnished, document))["channels"]["added"] == 2
    channels = await furnished.store.notifications.channels.all()
    assert [(one.spec.enabled, one.spec.secrets) for one in channels] == [(False, None), (False, None)]
    assert furnished.control.notifications.shown(channels[0])["secrets"] == []


async def test_a_section_is_taken_whole_or_not_at_all(api: Api) -> None:
    settings = {"host": "nats.example.org", "subject": "changes"}
    channel = {"section": "channels", "channel": "bus", "kind": "nats", "enabled": True, "settings": settings}
    rules = [{"section": "rules", "rule": {"name": n, "channels": [n]}, "muted_until": None} for n in ("bus", "none")]
    reply = await put(api, made(channel, *rules, sections=["channels", "rules"]))
    found = sections(reply)
    assert (found["channels"]["status"], found["rules"]["status"]) == ("applied", "refused")
    assert "none" in found["rules"]["reason"]
    assert await api.store.notifications.rules.all() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "pigeon"},
        {"settings": {"host": "x y"}},
        {"settings": 5},
        {"more": 1},
        {"channel": None},
        {"secrets_left_out": [5]},
        {"secrets_sealed": "x"},
    ],
)
async def test_a_wrong_record_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    settings = {"host": "nats.example.org", "subject": "changes"}
    record = {"section": "channels", "channel": "bus", "kind": "nats", "enabled": True, "settings": settings, **wrong}
    reply = await put(api, made(record, sections=["channels"]))
    assert (reply.status, "line 2" in json.dumps(reply.json)) == (422, True)
    assert await state(api) == []
