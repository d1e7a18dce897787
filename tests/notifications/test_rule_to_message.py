"""From an event to what is sent: a rule matches, its notice is due, the message and its payload are made."""

from __future__ import annotations

import orjson

from pollerd.events import EventKind
from pollerd.model import Media
from pollerd.notifications.matching import Facts, RuleSet
from pollerd.notifications.messages import changed_lines, cut_lines
from pollerd.notifications.payload import payload_of
from pollerd.notifications.rules import parse_rule
from pollerd.notifications.schedule import due_at
from pollerd.notifications.writing import message_of_digest, message_of_one
from tests.support.sample_events import AT, change_event

BEFORE, AFTER = b"Shop\nBall 12 EUR\nBook 9 EUR", b"Shop\nBall 8 EUR, sale\nBook 9 EUR"
DIGEST = {"every": "day", "at": "08:00", "zone": "Europe/Berlin"}
RULES = RuleSet(
    [
        parse_rule({"name": "sales", "channels": ["chat"], "words": {"added": ["SALE"]}, "digest": DIGEST}, id=1),
        parse_rule({"name": "sold out", "channels": ["chat"], "words": {"added": ["sold out"]}}, id=2),
        parse_rule({"name": "failures", "channels": ["mail"], "events": ["site.failing"]}, id=3),
    ]
)


def test_a_change_is_told_with_the_next_digest() -> None:
    facts = Facts(EventKind.CHANGED, 1, media=Media.HTML, lines=lambda: changed_lines(BEFORE, AFTER, Media.HTML))
    (rule,) = RULES.matching(facts, AT)
    assert rule.name == "sales"
    due = due_at(rule.id, AT, rule.digest, rule.quiet)
    assert (due.at, due.digest) == (AT + 23 * 3_600, "1:day:2026-11-26")
    lines = cut_lines(changed_lines(BEFORE, AFTER, Media.HTML))
    event = change_event(added=lines.added, removed=lines.removed, cut=lines.cut)
    digest = message_of_digest([event, change_event(2)])
    assert "- Ball 12 EUR\n+ Ball 8 EUR, sale\n" in digest.text
    assert orjson.loads(payload_of(digest))["data"]["count"] == 2
    assert orjson.loads(payload_of(message_of_one(event)))["data"]["change"]["added"] == ["Ball 8 EUR, sale"]
