"""The page Alerts: forms of rules with all their fields, of channels, and what links fill in."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from pollerd.web.alerts import rule_words
from pollerd.web.rule_form import field_of, values_of
from pollerd.web.words import plain
from tests.web.conftest import Web

WHOLE: dict[str, Any] = {
    "name": "all of it",
    "channels": ["hook"],
    "events": ["site.changed", "site.failing", "daemon.blind"],
    "sites": {
        "ids": [1, 3],
        "tags": ["shop", "a, b"],
        "hosts": ["example.org:8443"],
        "media": ["html", "feed"],
        "selections": ["default", "price"],
    },
    "matters": False,
    "words": {
        "summary": [{"re": r"€ \d+"}],
        "added": [{"text": "sale"}, {"text": "SALE", "case": True}, {"text": "/no pattern/"}, {"text": '"quoted"'}],
        "removed": [{"text": " with space"}, {"text": '{"text": "x"}'}, {"text": "a\nb"}],
    },
    "failing": {"after_polls": 5, "after": 5400.0, "except": ["denied", "timeout"]},
    "digest": {"every": "day", "at": "07:30", "days": ["mon", "fri"], "zone": "Europe/Vienna"},
    "quiet": {
        "zone": "Asia/Kolkata",
        "hours": [
            {"from": "22:00", "to": "07:00", "days": ["sat", "sun"]},
            {"from": "12:00", "to": "24:00", "days": ["mon"]},
        ],
    },
    "enabled": False,
}


async def _with_channel(web: Web) -> Web:
    channel = {"name": "hook", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
    assert (await web.api("POST", "/channels", channel)).status == 201
    return web


def form_on(page: str, action: str) -> list[tuple[str, str]]:
    """Returns what a browser sends of the form as it was drawn."""
    part = re.search(rf'<form [^>]*action="{re.escape(action)}"[^>]*>(.*?)</form>', page, re.DOTALL)
    assert part is not None
    sent = []
    pattern = r"<(input)\b([^>]*)>|<(textarea|select)\b([^>]*)>(.*?)</\3>"
    for found in re.finditer(pattern, part[1], re.DOTALL):
        kind, attributes, inner = found[1] or found[3], found[2] or found[4] or "", found[5] or ""
        name = re.search(r' name="([^"]*)"', attributes)
        value = re.search(r' value="([^"]*)"', attributes)
        if name is None or ('type="checkbox"' in attributes and " checked" not in attributes):
            continue
        if kind == "select":
            chosen = re.search(r'<option value="([^"]*)" selected>', inner) or re.search('value="([^"]*)"', inner)
            text = chosen[1] if chosen else ""
        else:
            text = inner if kind == "textarea" else value[1] if value else "on" if "checkbox" in attributes else ""
        sent.append((unescape(name[1]), unescape(text)))
    return sent


async def test_a_rule_comes_back_from_its_form_as_it_was(busy: Web) -> None:
    await _with_channel(busy)
    assert (await busy.api("POST", "/rules", WHOLE)).status == 201
    before = (await busy.api("GET", "/rules/1")).json["rule"]
    form = form_on((await busy.get("/rules/1")).text, "/rules/1")
    assert (await busy.post("/rules/1", form)).status == 303
    assert (await busy.api("GET", "/rules/1")).json["rule"] == before
    assert before.keys() == WHOLE.keys(), "each field is in the form"


async def test_a_new_rule_says_all_that_its_form_says(busy: Web) -> None:
    await _with_channel(busy)
    form = [
        *(("name", "n"), ("event", "site.changed"), ("channel", "hook"), ("digest", "none"), ("enabled", "on")),
        *(("tags", "shop"), ("hosts", "Example.org"), ("ids", "1, 2"), ("matters", "all"), ("media", "html")),
        ("words_added", '  sale \n\n"Sale"\n/€ \\d+/\n'),
        *(("after_polls", ""), ("after", "6h"), ("quiet_from", "22:00"), ("quiet_to", "06:00"), ("quiet_zone", "")),
    ]
    assert (await busy.post("/rules/new", form)).status == 303
    assert (await busy.api("GET", "/rules/1")).json["rule"] == {
        "name": "n",
        "channels": ["hook"],
        "events": ["site.changed"],
        "sites": {"ids": [1, 2], "tags": ["shop"], "hosts": ["example.org"], "media": ["html"]},
        "matters": False,
        "words": {"added": [{"text": "sale"}, {"text": "Sale", "case": True}, {"re": r"€ \d+"}]},
        "failing": {"after": 21600.0},
        "quiet": {
            "zone": "UTC",
            "hours": [{"from": "22:00", "to": "06:00", "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}],
        },
    }


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("words_added", "/(/"),
        ("zone", "Mars/Olympus"),
        ("quiet_zone", "Mars/Olympus"),
        ("ids", "one"),
        ("after", "soon"),
        ("after_polls", "0"),
        ("hosts", "bad\x07host"),
        ("name", ""),
        ("event", ""),
    ],
)
async def test_an_error_stands_beside_its_field_and_what_was_typed_stays(busy: Web, field: str, text: str) -> None:
    await _with_channel(busy)
    form = {
        "name": "<b>kept</b>",
        "event": "site.changed",
        "channel": "hook",
        "digest": "day",
        "tags": "typed tag",
        "digest_at": "08:00",
        "zone": "UTC",
        "quiet_from": "22:00",
        "quiet_to": "06:00",
    }
    answer = await busy.post("/rules/new", form | {field: text})
    assert answer.status == 422
    assert f'id="error-{field}"' in answer.text
    assert 'value="typed tag"' in answer.text
    assert 'value="22:00"' in answer.text
    if field != "name":
        assert 'value="&lt;b&gt;kept&lt;/b&gt;"' in answer.text
    assert (await busy.api("GET", "/rules")).json["items"] == []


async def test_a_name_that_is_taken_is_said_beside_the_name(busy: Web) -> None:
    await _with_channel(busy)
    form = {"name": "twice", "event": "site.changed", "channel": "hook", "digest": "none"}
    assert (await busy.post("/rules/new", form)).status == 303
    answer = await busy.post("/rules/new", form)
    assert (answer.status, 'id="error-name"' in answer.text) == (422, True)


async def test_links_fill_in_a_rule(busy: Web) -> None:
    await _with_channel(busy)
    page = (await busy.get("/sites/1")).text
    link = re.search(r'href="(/rules/new\?[^"]*)">Alert me of this', page)
    assert link is not None
    form = dict(form_on((await busy.get(unescape(link[1]))).text, "/rules/new"))
    assert (form["ids"], form["name"], form["channel"]) == ("1", "Page 0", "hook")
    difference = (await busy.get("/changes/1")).text
    link = re.search(r'href="(/rules/new\?[^"]*)">Alert me of this', difference)
    assert link is not None
    form = dict(form_on((await busy.get(unescape(link[1]))).text, "/rules/new"))
    assert (form["ids"], form["words_added"]) == ("1", "2")
    tagged = await busy.get("/sites?tag=shop")
    assert 'href="/rules/new?tag=shop&amp;name=shop"' in tagged.text
    assert (await busy.get("/rules/new?site=none")).status == 422


async def test_rules_that_are_ready_can_be_saved_as_they_are(busy: Web) -> None:
    await _with_channel(busy)
    links = re.findall(r'href="(/rules/new\?ready=\w+)"', (await busy.get("/rules")).text)
    assert len(links) == 3
    for link in links:
        form = form_on((await busy.get(link)).text, "/rules/new")
        assert (await busy.post("/rules/new", form)).status == 303
    rules = {rule["name"]: rule["rule"] for rule in (await busy.api("GET", "/rules")).json["items"]}
    assert rules["A digest each morning at 8"]["digest"] == {"every": "day", "at": "08:00", "zone": "UTC"}
    assert "site.changed" in rules["Everything at once"]["events"]
    assert "site.changed" not in rules["Only failures"]["events"]


async def test_a_rule_is_muted_for_a_while(busy: Web) -> None:
    await _with_channel(busy)
    await busy.post("/rules/new", {"name": "r", "event": "site.changed", "channel": "hook", "digest": "none"})
    assert (await busy.post("/rules/1/mute", {"for": "8h"})).status == 303
    assert "muted until" in (await busy.get("/rules")).text
    assert (await busy.post("/rules/1/mute", {})).status == 303
    assert "muted until" not in (await busy.get("/rules")).text
    assert (await busy.post("/rules/1/mute", {"for": "3y"})).status == 422


async def test_a_channel_is_edited_and_its_secrets_stay(web: Web) -> None:
    settings = {"url": "https://hooks.example.org/x?token=t0psecret", "headers": {"X-Key": "hush"}}
    assert (await web.api("POST", "/channels", {"name": "h", "kind": "webhook", "settings": settings})).status == 201
    before = await web.api.store.notifications.channels.get(1)
    page = await web.get("/rules/channels/1")
    assert "hush" not in page.text
    assert "t0psecret" not in page.text
    form = dict(form_on(page.text, "/rules/channels/1"))
    form |= {"name": "renamed", "zone": "Europe/Vienna", "per_minute": "5", "template": "{{ summary }}"}
    answer = await web.post("/rules/channels/1", form)
    assert answer.status == 303, re.findall("error-.*", answer.text)
    after = await web.api.store.notifications.channels.get(1)
    assert (after.spec.name, after.spec.secrets) == ("renamed", before.spec.secrets)
    shown = (await web.api("GET", "/channels/1")).json["settings"]
    assert shown["delivery"] == {
        "per_minute": 5,
        "group_from": 10,
        "zone": "Europe/Vienna",
        "template": "{{ summary }}",
    }
    moved = await web.post("/rules/channels/1", form | {"url": "https://elsewhere.example.org/"})
    assert moved.status == 422, "secrets go only where they were given for"
    assert (await web.api.store.notifications.channels.get(1)).spec == after.spec


@pytest.mark.parametrize(
    ("kind", "more", "field"),
    [
        ("webhook", {"url": "ftp://x"}, "url"),
        ("webhook", {"url": "https://a.example", "headers": "A: 1\nB:"}, "headers"),
        ("email", {"host": "mail.example.org", "sender": "x@example.org", "recipients": "nobody"}, "recipients"),
        ("email", {"host": "mail.example.org", "port": "many"}, "port"),
        ("nats", {"host": "nats.example.org", "subject": "a b"}, "subject"),
        ("apprise", {"url": "nonsense://x"}, "url"),
        ("webhook", {"url": "https://a.example", "per_minute": "0"}, "per_minute"),
        ("webhook", {"url": "https://a.example", "per_minute": "5", "template": "{{"}, "template"),
        ("webhook", {"url": "https://a.example", "per_minute": "5", "zone": "Nowhere"}, "zone"),
    ],
)
async def test_a_channel_that_cannot_be_used_says_so_beside_the_field(
    web: Web, kind: str, more: dict[str, str], field: str
) -> None:
    answer = await web.post("/rules/channels", {"kind": kind, "name": "typed", **more})
    assert answer.status == 422
    assert f'id="error-{field}"' in answer.text
    assert 'value="typed"' in answer.text
    assert (await web.api("GET", "/channels")).json["items"] == []


async def test_each_kind_of_channel_is_made_by_its_form(web: Web) -> None:
    mail = {"host": "mail.example.org", "sender": "p@example.org", "recipients": "a@example.org, b@example.org"}
    made = [
        ("email", mail | {"port": "25", "security": "none"}),
        ("apprise", {"url": "ntfys://topic", "format": "markdown"}),
        ("nats", {"host": "nats.example.org", "subject": "s", "tls": "on", "token": "t"}),
    ]
    for kind, settings in made:
        form = form_on((await web.get(f"/rules/channels/new?kind={kind}")).text, "/rules/channels")
        answer = await web.post("/rules/channels", dict(form) | {"name": kind, **settings})
        assert answer.status == 303, answer.text
    channels = {channel["name"]: channel for channel in (await web.api("GET", "/channels")).json["items"]}
    assert channels["email"]["settings"]["recipients"] == ["a@example.org", "b@example.org"]
    assert channels["nats"]["settings"]["tls"] is True
    assert channels["apprise"]["settings"]["format"] == "markdown"
    for n in (1, 2, 3):
        form = form_on((await web.get(f"/rules/channels/{n}")).text, f"/rules/channels/{n}")
        assert (await web.post(f"/rules/channels/{n}", form)).status == 303
    again = {channel["name"]: channel for channel in (await web.api("GET", "/channels")).json["items"]}
    assert {name: one["settings"] for name, one in again.items()} == {
        name: one["settings"] for name, one in channels.items()
    }


async def test_alerts_is_a_name_of_the_page(web: Web) -> None:
    answer = await web.get("/alerts")
    assert (answer.status, answer.headers["Location"]) == (303, "/rules")
    assert "<h1>Alerts</h1>" in (await web.get("/rules")).text


def test_a_rule_in_words_has_each_of_its_parts() -> None:
    text = plain(rule_words(WHOLE))
    for part in (
        *("tagged shop or a, b", "of example.org:8443", "“sale”", r"/€ \d+/", "not important", "5 failed checks"),
        *(
            "nothing could be checked",
            "at 07:30 (Europe/Vienna) on Mon and Fri",
            "22:00 to 07:00",
            "Asia/Kolkata",
        ),
    ):
        assert part in text
    assert plain(rule_words({"channels": ["mail"]})) == "When a site changes, alert mail at once."


def test_places_of_errors_lead_to_fields() -> None:
    assert field_of("rule.words.added[0].re") == "words_added"
    assert field_of("rule.digest.zone") == "zone"
    assert field_of("rule.digest.every") == "digest"
    assert field_of("rule.quiet.hours[0].from") == "quiet"
    assert field_of("rule.enabled") == ""
    assert values_of({})["event"] == ["site.changed"]
