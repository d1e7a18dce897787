"""Rules, channels and deliveries over REST."""

from __future__ import annotations

from typing import Any

import pytest

from pollerd.events import EventKind, Notice
from pollerd.notifications.composing import link_of, purpose_of
from tests.api.conftest import Api

HOOK = {"name": "hook", "kind": "webhook", "settings": {"url": "https://example.org/hook?token=t0ken"}}


async def added(api: Api, path: str, document: dict[str, Any]) -> dict[str, Any]:
    reply = await api("POST", path, document)
    assert reply.status == 201, reply.body
    found: dict[str, Any] = reply.json
    assert reply.headers["Location"] == f"/api/v1{path}/{found['id']}"
    return found


async def test_a_webhook_gets_a_secret_that_is_shown_once(api: Api) -> None:
    channel = await added(api, "/channels", HOOK)
    assert channel["secret"].startswith("whsec_")
    again = await api("GET", f"/channels/{channel['id']}")
    assert again.json["secret"] is None
    assert again.json["settings"]["secrets"] == ["query", "secret"]
    assert b"t0ken" not in again.body
    assert channel["secret"].encode() not in (await api("GET", "/channels")).body
    rotated = (await api("POST", f"/channels/{channel['id']}/rotate", {"overlap": 60.0})).json
    assert rotated["secret"] not in (None, channel["secret"])
    assert "previous_secret" in rotated["settings"]["secrets"]


async def test_a_new_address_asks_for_the_secret_anew(api: Api) -> None:
    channel = await added(api, "/channels", HOOK)
    path = f"/channels/{channel['id']}"
    moved = await api("PATCH", path, {"settings": {"url": "https://evil.example/hook"}})
    assert moved.status == 422
    assert "address changes" in moved.json["errors"][0]["allowed"]
    assert (await api("GET", path)).json["settings"]["url"] == "https://example.org/hook"
    same = await api("PATCH", path, {"settings": {**HOOK["settings"], "delivery": {"per_minute": 5}}})  # type: ignore[dict-item]
    assert (same.status, same.json["settings"]["delivery"]["per_minute"]) == (200, 5)
    off = await api("PATCH", path, {"enabled": False, "name": "other"})
    assert (off.json["enabled"], off.json["name"]) == (False, "other")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"name": "x", "kind": "pigeon", "settings": {}}, "kind"),
        ({"name": "x", "kind": "webhook", "settings": {}}, "url"),
        ({"name": "x", "kind": "webhook", "settings": {"url": "ftp://a/"}}, "url"),
        ({"name": "x", "kind": "webhook", "settings": {"url": "http://a/", "delivery": {"group_from": 1}}}, "delivery"),
        (
            {"name": "x", "kind": "webhook", "settings": {"url": "http://a/", "delivery": {"zone": "Europe/Belin"}}},
            "zone",
        ),
        ({"name": " ", "kind": "webhook", "settings": {"url": "http://a/"}}, "name"),
    ],
)
async def test_channels_that_cannot_be(api: Api, document: dict[str, Any], field: str) -> None:
    reply = await api("POST", "/channels", document)
    assert reply.status == 422
    assert field in reply.json["errors"][0]["field"]


async def test_rules_from_their_making_to_their_end(api: Api) -> None:
    channel = await added(api, "/channels", HOOK)
    rule = await added(api, "/rules", {"name": "prices", "channels": ["hook"], "sites": {"tags": ["shop"]}})
    path = f"/rules/{rule['id']}"
    assert (await api("POST", "/rules", {"name": "prices", "channels": ["hook"]})).json["existing_id"] == rule["id"]
    changed = await api("PUT", path, {"name": "prices", "channels": ["hook"], "words": {"added": [{"text": "sale"}]}})
    assert changed.json["rule"]["words"] == {"added": [{"text": "sale"}]}
    muted = await api("POST", f"{path}/mute", {"until": "2030-01-01T00:00:00Z"})
    assert muted.json["muted_until"] == "2030-01-01T00:00:00.000Z"
    assert (await api("POST", f"{path}/mute", {"until": None})).json["muted_until"] is None
    refused = await api("DELETE", f"/channels/{channel['id']}")
    assert (refused.status, "prices" in str(refused.json)) == (422, True)
    assert (await api("DELETE", path)).status == 204
    assert (await api("DELETE", f"/channels/{channel['id']}")).status == 204
    assert (await api("GET", path)).status == 404


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"channels": ["nobody"]}, "channels"),
        ({"channels": []}, "channels"),
        ({"sites": {"tag": ["x"]}}, "rule.sites.tag"),
        ({"events": ["site.exploded"]}, "rule.events"),
        ({"words": {"added": [{"re": "(a"}]}}, "rule.words.added[0]"),
        ({"digest": {"every": "day", "at": "25:00"}}, "rule.digest"),
        ({"quiet": {"zone": "Europe/Belin", "open": []}}, "rule.quiet"),
    ],
)
async def test_rules_that_cannot_be(api: Api, more: dict[str, Any], field: str) -> None:
    await added(api, "/channels", HOOK)
    reply = await api("POST", "/rules", {"name": "x", "channels": ["hook"], **more})
    assert reply.status == 422
    assert field in reply.json["errors"][0]["field"]


async def test_deliveries_and_their_attempts(api: Api) -> None:
    channel = await added(api, "/channels", HOOK)
    notice = Notice("evt_1", EventKind.GONE, 5.0, 1, channel["id"], 5.0, data='{"url": "https://a.example/"}')
    await api.store.notifications.outbox.put([notice])
    (found,) = (await api("GET", f"/deliveries?channel={channel['id']}&state=waiting")).json["items"]
    assert (found["event_id"], found["kind"], found["state"]) == ("evt_1", "site.gone", "waiting")
    assert (await api("GET", "/channels")).json["items"][0]["queue"]["waiting"] == 1
    assert (await api("POST", "/deliveries/resend", {"ids": [found["id"]]})).json == {"resent": 0}
    assert (await api("GET", "/deliveries/attempts?message=evt_1")).json["items"] == []
    assert (await api("GET", "/deliveries?state=lost")).status == 422


async def test_a_private_address_is_refused_when_it_is_tried(api: Api) -> None:
    local = {"name": "home", "kind": "webhook", "settings": {"url": "http://127.0.0.1:1/hook"}}
    channel = await added(api, "/channels", local)
    tried = (await api("POST", f"/channels/{channel['id']}/test")).json
    assert tried["outcome"] == "dead"
    assert "loopback" in tried["detail"]
    assert (await api("GET", f"/channels/{channel['id']}")).json["last_error"] == tried["detail"]
    (attempt,) = (await api("GET", f"/deliveries/attempts?channel={channel['id']}")).json["items"]
    assert attempt["detail"] == tried["detail"]


async def test_readers_of_a_mail_leave_its_rule(api: Api) -> None:
    settings = {"host": "mail.example.org", "sender": "a@example.org", "recipients": ["b@example.org"]}
    mail = await added(api, "/channels", {"name": "mail", "kind": "email", "settings": settings})
    assert "unsubscribe" not in str(mail)
    await added(api, "/channels", HOOK)
    both = await added(api, "/rules", {"name": "both", "channels": ["mail", "hook"]})
    alone = await added(api, "/rules", {"name": "alone", "channels": ["mail"]})
    tokens = {
        one["id"]: api.store.notifications.channels.token_of(purpose_of(mail["id"], one["id"])) for one in (both, alone)
    }
    for rule in (both, alone):
        link = link_of("", tokens[rule["id"]], mail["id"], rule["id"])
        page = await api("GET", f"/{link}")
        assert (page.status, b"<form" in page.body) == (200, True)
        assert "form-action 'self'" in page.headers["Content-Security-Policy"]
        other = link_of("", tokens[both["id"] + alone["id"] - rule["id"]], mail["id"], rule["id"])
        assert (await api("POST", f"/{other}")).status == 404
        assert (await api("POST", f"/{link[:-9]}")).status == 404
    assert (await api("GET", f"/rules/{both['id']}")).json["rule"]["channels"] == ["mail", "hook"]
    for rule in (both, alone):
        left = await api(
            "POST", f"/{link_of('', tokens[rule['id']], mail['id'], rule['id'])}", data=b"List-Unsubscribe=One-Click"
        )
        assert left.status == 200
    assert (await api("GET", f"/rules/{both['id']}")).json["rule"]["channels"] == ["hook"]
    assert (await api("GET", f"/rules/{alone['id']}")).json["muted_until"].startswith("9999")
