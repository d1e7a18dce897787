"""Which rules an event matches, and that lines are computed only where a rule asks for words in them."""

from __future__ import annotations

from typing import Any

import pytest

from pollerd.detection.selection.conditions.change_size import LineChanges
from pollerd.events import EventKind
from pollerd.model import Media
from pollerd.notifications.matching import Facts, RuleSet
from pollerd.notifications.rules import parse_rule

NOW = 1_800_000_000.0


class CountedLines:
    """Lines that count how often they are computed."""

    def __init__(self, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        self.lines, self.calls = LineChanges(added, removed), 0

    def __call__(self) -> LineChanges:
        self.calls += 1
        return self.lines


def rule_set(*settings: dict[str, Any]) -> RuleSet:
    rules = [
        parse_rule({"name": str(number), "channels": ["mail"], **given}, id=number)
        for number, given in enumerate(settings, 1)
    ]
    return RuleSet(reversed(rules))


def change(**given: Any) -> Facts:
    facts: dict[str, Any] = {
        "kind": EventKind.CHANGED,
        "site_id": 1,
        "tags": ("shop", "eu"),
        "host": "shop.example",
        "media": Media.HTML,
        "selection": "default",
        "summary": "1 line added: «On Sale now»",
    }
    return Facts(**(facts | given))


def ids(rules: RuleSet, facts: Facts, now: float = NOW) -> list[int]:
    return [rule.id for rule in rules.matching(facts, now)]


def test_without_rules_nothing_listens() -> None:
    none = rule_set()
    assert not none
    assert not none.listens(EventKind.CHANGED)
    assert none.matching(change(), NOW) == []
    assert not rule_set({"enabled": False})


@pytest.mark.parametrize(
    ("given", "facts", "matches"),
    [
        ({}, {}, True),
        ({}, {"matters": False}, False),
        ({"matters": False}, {"matters": False}, True),
        ({"events": ["site.gone"]}, {}, False),
        ({"sites": {"ids": [1, 2]}}, {}, True),
        ({"sites": {"ids": [2]}}, {}, False),
        ({"sites": {"ids": [2], "tags": ["eu"]}}, {}, True),
        ({"sites": {"tags": ["us", "eu"]}}, {}, True),
        ({"sites": {"tags": ["us"]}}, {}, False),
        ({"sites": {"hosts": ["SHOP.example"]}}, {}, True),
        ({"sites": {"hosts": ["other.example"]}}, {}, False),
        ({"sites": {"media": ["html", "json"]}}, {}, True),
        ({"sites": {"media": ["json"]}}, {}, False),
        ({"sites": {"media": ["json"]}}, {"media": None}, False),
        ({"sites": {"selections": ["default"]}}, {}, True),
        ({"sites": {"selections": ["price"]}}, {}, False),
        ({"sites": {"ids": [1], "selections": ["price"]}}, {}, False),
        ({"words": {"summary": ["on sale"]}}, {}, True),
        ({"words": {"summary": [{"text": "on sale", "case": True}]}}, {}, False),
        ({"words": {"summary": ["x", {"re": "S[ai]le"}]}}, {}, True),
        ({"words": {"added": ["new thing"]}}, {}, True),
        ({"words": {"added": ["old thing"]}}, {}, False),
        ({"words": {"removed": ["old thing"]}}, {}, True),
        ({"words": {"summary": ["nothing"], "removed": ["old thing"]}}, {}, True),
        ({"words": {"added": [{"re": "^a new thing$"}]}}, {}, True),
        ({"words": {"added": ["new thing"]}}, {"lines": None}, False),
        ({"muted_until": NOW + 1}, {}, False),
        ({"muted_until": NOW}, {}, True),
        ({"enabled": False}, {}, False),
    ],
)
def test_changes(given: dict[str, Any], facts: dict[str, Any], matches: bool) -> None:
    lines = CountedLines(("first", "a new thing"), ("an old thing",))
    assert ids(rule_set(given), change(**({"lines": lines} | facts))) == ([1] if matches else [])


@pytest.mark.parametrize(
    ("given", "kind", "facts", "matches"),
    [
        ({"words": {"summary": ["x"]}, "sites": {"media": ["json"], "selections": ["x"]}}, "site.gone", {}, True),
        ({"sites": {"tags": ["us"]}}, "site.gone", {}, False),
        ({"sites": {"media": ["json"]}}, "site.first_seen", {}, False),
        ({"sites": {"selections": ["x"]}}, "site.nothing_selected", {}, False),
        ({"sites": {"tags": ["us"], "ids": [9]}}, "daemon.blind", {"site_id": None}, True),
        ({"sites": {"ids": [9]}}, "daemon.over_budget", {"site_id": None}, True),
    ],
)
def test_other_events(given: dict[str, Any], kind: str, facts: dict[str, Any], matches: bool) -> None:
    rules = rule_set({"events": [kind], **given})
    assert ids(rules, change(kind=EventKind(kind), **facts)) == ([1] if matches else [])


def test_lines_are_computed_once_and_only_where_a_rule_that_matches_otherwise_asks() -> None:
    lines = CountedLines(("new",))
    asking: dict[str, Any] = {"words": {"added": ["new"]}}
    others: list[dict[str, Any]] = [
        {},
        {**asking, "sites": {"ids": [2]}},
        {"words": {"summary": ["sale"], "added": ["x"]}},
    ]
    others += [{**asking, "muted_until": NOW + 5}, {**asking, "enabled": False}]
    assert ids(rule_set(*others), change(lines=lines)) == [1, 3]
    assert lines.calls == 0
    assert ids(rule_set(asking, asking, {"words": {"removed": ["new"]}}), change(lines=lines)) == [1, 2]
    assert lines.calls == 1


def test_rules_of_single_sites_are_found_among_thousands_and_keep_the_order_of_ids() -> None:
    rules = rule_set(*[{"sites": {"ids": [number]}} for number in range(1, 2_000)], {}, {"sites": {"ids": [7]}})
    assert ids(rules, change(site_id=7)) == [7, 2_000, 2_001]
    assert ids(rules, change(site_id=5_000)) == [2_000]
