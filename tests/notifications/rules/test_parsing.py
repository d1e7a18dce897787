"""Rules as users write them: what is read, what is refused and how, and that reading a written rule gives it back."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.events import EventKind
from pollerd.model import Media, OutcomeKind
from pollerd.notifications.rules import Patience, Rule, RuleScope, Words, document_of, parse_rule
from pollerd.notifications.schedule import Digest
from pollerd.site_settings import DAYS, DayWindow, Windows

LEAST: dict[str, Any] = {"name": "all", "channels": ["mail"]}


def test_the_least_rule() -> None:
    rule = parse_rule(LEAST, id=4)
    assert rule == Rule(name="all", channels=("mail",), id=4)
    assert rule.events == (EventKind.CHANGED,)
    assert rule.matters
    assert rule.enabled
    assert document_of(rule) == {"name": "all", "events": ["site.changed"], "channels": ["mail"]}


def test_a_rule_that_says_everything() -> None:
    settings_given = {
        "name": "prices",
        "events": ["site.changed", "site.failing", "site.recovered", "daemon.blind"],
        "sites": {
            "ids": [3, 1, 3],
            "tags": ["shop"],
            "hosts": ["Shop.example"],
            "media": ["html"],
            "selections": ["price"],
        },
        "matters": False,
        "words": {
            "summary": ["sale"],
            "added": [{"text": "Sale", "case": True}],
            "removed": [{"re": "\\bsold out\\b"}],
        },
        "failing": {"after_polls": 5, "after": "6h", "except": ["timeout"]},
        "channels": ["mail", "chat", "mail"],
        "digest": {"every": "day", "at": "08:00", "days": ["fri", "mon"], "zone": "Europe/Berlin"},
        "quiet": {"zone": "Europe/Berlin", "hours": [{"from": "22:00", "to": "07:00"}]},
        "muted_until": "2026-11-25T09:00:00+01:00",
        "enabled": False,
    }
    rule = parse_rule(settings_given)
    assert rule == Rule(
        name="prices",
        channels=("mail", "chat"),
        events=(EventKind.CHANGED, EventKind.FAILING, EventKind.RECOVERED, EventKind.BLIND),
        scope=RuleScope((3, 1), ("shop",), ("shop.example",), (Media.HTML,), ("price",)),
        matters=False,
        words=Words(({"text": "sale"},), ({"text": "Sale", "case": True},), ({"re": "\\bsold out\\b"},)),
        failing=Patience(5, 21_600.0, (OutcomeKind.TIMEOUT,)),
        digest=Digest("day", "08:00", ("mon", "fri"), "Europe/Berlin"),
        quiet=Windows("Europe/Berlin", (DayWindow(DAYS, "22:00", "07:00"),)),
        muted_until=datetime(2026, 11, 25, 8, tzinfo=UTC).timestamp(),
        enabled=False,
    )
    assert parse_rule(orjson.loads(orjson.dumps(document_of(rule)))) == rule


def test_moments_as_toml_and_numbers() -> None:
    moment = datetime(2026, 11, 25, 8, tzinfo=UTC)
    for spelled in (moment, moment.timestamp(), int(moment.timestamp()), "2026-11-25T08:00:00Z"):
        assert parse_rule({**LEAST, "muted_until": spelled}).muted_until == moment.timestamp()


def test_patience() -> None:
    assert parse_rule({**LEAST, "failing": {"after": 3600}}).failing == Patience(None, 3600.0)
    assert parse_rule({**LEAST, "failing": {"except": ["timeout"]}}).failing.after_polls == 3


def test_hourly_and_no_digest() -> None:
    assert parse_rule({**LEAST, "digest": {"every": "hour"}}).digest == Digest("hour")
    assert parse_rule({**LEAST, "digest": "none"}).digest is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "rule.name: is needed"),
        ({"name": "x"}, "rule.channels: is needed"),
        ([], "rule: must be a table with name, events"),
        ({"name": "x", "channels": []}, "rule.channels: must be a list of 1 to 1000 names"),
        ({"name": "x\n", "channels": ["c"]}, "rule.name: must be a name of printable characters"),
        ({**LEAST, "chanels": []}, r"rule.chanels: unknown field; did you mean channels\?"),
        (
            {**LEAST, "events": ["site.change"]},
            r"rule.events\[0\]: unknown value 'site.change'; did you mean site.changed",
        ),
        ({**LEAST, "events": ["channel.test"]}, r"rule.events\[0\]"),
        ({**LEAST, "events": ["site.recovered"]}, "rule.events: must be together with site.failing"),
        ({**LEAST, "events": [["x"]]}, r"rule.events\[0\].*given: 'a list'"),
        ({**LEAST, "sites": {"tag": ["x"]}}, r"rule.sites.tag: .*did you mean tags\?"),
        ({**LEAST, "sites": {"ids": [0]}}, r"rule.sites.ids\[0\]: must be a whole number from 1"),
        ({**LEAST, "sites": {"ids": [True]}}, r"rule.sites.ids\[0\]"),
        ({**LEAST, "sites": {"media": ["htm"]}}, r"rule.sites.media\[0\]: unknown value 'htm'; did you mean html"),
        ({**LEAST, "matters": "yes"}, "rule.matters: must be true or false"),
        ({**LEAST, "words": {"added": [{"re": "(?<=a)b"}]}}, r"rule.words.added\[0\].re, character 1"),
        ({**LEAST, "words": {"title": ["x"]}}, "rule.words.title: unknown field; known: summary, added, removed"),
        ({**LEAST, "failing": {"after": "soon"}}, "rule.failing.after: must be seconds, or a number with s, m"),
        ({**LEAST, "failing": {"after": 0}}, "rule.failing.after"),
        ({**LEAST, "failing": {"after": True}}, "rule.failing.after"),
        ({**LEAST, "failing": {"after_polls": 0}}, "rule.failing.after_polls: must be a whole number from 1"),
        (
            {**LEAST, "failing": {"except": ["timeot"]}},
            r"rule.failing.except\[0\]: unknown value 'timeot'; did you mean timeout",
        ),
        ({**LEAST, "failing": {"except": ["unchanged"]}}, r"rule.failing.except\[0\]"),
        ({**LEAST, "digest": "daily"}, 'rule.digest: must be "none", '),
        ({**LEAST, "digest": {"every": "week"}}, "rule.digest.every: must be hour or day"),
        ({**LEAST, "digest": {"every": "hour", "at": "08:00"}}, "rule.digest.at: unknown field"),
        ({**LEAST, "digest": {"every": "day", "zone": "UTC"}}, "rule.digest.at: a daily digest needs it"),
        (
            {**LEAST, "digest": {"every": "day", "at": "24:00", "zone": "UTC"}},
            "rule.digest.at: must be a time such as 08:00",
        ),
        (
            {**LEAST, "digest": {"every": "day", "at": "08:00", "zone": "Europe/Belin"}},
            "rule.digest.zone: .*nearest: Europe/Berlin",
        ),
        (
            {**LEAST, "digest": {"every": "day", "at": "08:00", "zone": "UTC", "days": ["monday"]}},
            r"rule.digest.days\[0\]: must be one of mon, .*nearest: mon",
        ),
        (
            {**LEAST, "quiet": {"zone": "UTC", "open": [{"from": "08:00", "to": "09:00"}]}},
            "rule.quiet.open: unknown field",
        ),
        ({**LEAST, "quiet": {"zone": "UTC", "hours": [{"from": "8", "to": "09:00"}]}}, r"rule.quiet.hours\[0\].from"),
        (
            {**LEAST, "quiet": {"zone": "UTC", "hours": [{"from": "00:00", "to": "24:00"}]}},
            "rule.quiet.hours: must be hours that leave some time of the week",
        ),
        ({**LEAST, "muted_until": "tomorrow"}, "rule.muted_until: must be a time"),
        ({**LEAST, "muted_until": True}, "rule.muted_until: must be a time"),
        ({**LEAST, "enabled": 1}, "rule.enabled: must be true or false"),
    ],
)
def test_refused_with_place_and_reason(given: Any, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_rule(given)
    assert re.search(message, str(caught.value)), str(caught.value)


names = st.from_regex(r"[a-zäß0-9][a-z.-]{0,12}", fullmatch=True)


def lists(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, min_size=1, max_size=3)


patterns = st.one_of(names, st.fixed_dictionaries({"text": names, "case": st.booleans()}), st.just({"re": "a+b"}))
rules = st.fixed_dictionaries(
    {"name": names, "channels": lists(names)},
    optional={
        "events": lists(
            st.sampled_from([kind for kind in EventKind if kind.value not in ("channel.test", "site.recovered")])
        ),
        "sites": st.fixed_dictionaries(
            {},
            optional={
                "ids": lists(st.integers(1, 9)),
                "tags": lists(names),
                "hosts": lists(names),
                "media": lists(st.sampled_from(Media)),
                "selections": lists(names),
            },
        ),
        "matters": st.booleans(),
        "words": st.fixed_dictionaries({}, optional={key: lists(patterns) for key in ("summary", "added", "removed")}),
        "failing": st.fixed_dictionaries(
            {},
            optional={
                "after_polls": st.integers(1, 100),
                "after": st.one_of(st.integers(1, 10_000), st.just("2d")),
                "except": lists(st.just("timeout")),
            },
        ),
        "digest": st.one_of(
            st.just("none"),
            st.just({"every": "hour", "zone": "Asia/Kolkata"}),
            st.fixed_dictionaries(
                {"every": st.just("day"), "at": st.just("23:59"), "zone": st.just("Africa/Cairo")},
                optional={"days": lists(st.sampled_from(DAYS))},
            ),
        ),
        "muted_until": st.floats(0, 4e9),
        "enabled": st.booleans(),
    },
)


@settings(deadline=None, max_examples=200)
@given(rules)
def test_a_rule_that_is_written_reads_as_the_same(given: dict[str, Any]) -> None:
    rule = parse_rule(given)
    written = document_of(rule)
    assert parse_rule(orjson.loads(orjson.dumps(written))) == rule
    assert document_of(parse_rule(written)) == written
