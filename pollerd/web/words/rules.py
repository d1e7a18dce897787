"""A rule in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pollerd.web.words.sentences import Sentence, Strong

_EVENTS = {
    "site.changed": "changes",
    "site.first_seen": "is read for the first time",
    "site.failing": "fails",
    "site.recovered": "answers again",
    "site.gone": "is gone",
    "site.moved": "moves",
    "site.nothing_selected": "no longer has what is selected",
}
_OF_DAEMON = {
    "daemon.blind": "nothing could be polled for a while",
    "daemon.over_budget": "the budget cannot hold the intervals",
    "channel.down": "a channel is refused",
}

EVENT_WORDS: Mapping[str, str] = {**{kind: f"a page {said}" for kind, said in _EVENTS.items()}, **_OF_DAEMON}
"""Each kind of event in words."""


def rule_words(rule: Mapping[str, Any]) -> Sentence:
    """Returns what a rule does; `rule` as REST shows it."""
    events = rule.get("events") or ["site.changed"]
    of_pages = [_EVENTS[one] for one in events if one in _EVENTS]
    others = [_OF_DAEMON[one] for one in events if one in _OF_DAEMON]
    when = [f"{_pages(rule.get('sites') or {})} {_listed(of_pages, 'or')}"] if of_pages else []
    condition = _listed([*when, *others], "or") or "nothing happens"
    words = " with the words it names" if rule.get("words") else ""
    return (
        f"When {condition}{words}, tell ",
        Strong(_listed([str(one) for one in rule.get("channels") or ()], "and")),
        f" {_time(rule)}.",
    )


def _pages(scope: Mapping[str, Any]) -> str:
    said = []
    if scope.get("tags"):
        said.append(f"tagged {_listed([str(one) for one in scope['tags']], 'or')}")
    if scope.get("hosts"):
        said.append(f"of {_listed([str(one) for one in scope['hosts']], 'or')}")
    if scope.get("ids"):
        count = len(scope["ids"])
        said.append("that it names" if count == 1 else f"of {count} that it names")
    return f"a page {' or '.join(said)}" if said else "any page"


def _time(rule: Mapping[str, Any]) -> str:
    digest, quiet, said = rule.get("digest"), rule.get("quiet"), "at once"
    if isinstance(digest, Mapping):
        zone = f" ({digest['zone']})" if digest.get("zone") else ""
        said = "in a digest every hour" if digest.get("every") == "hour" else f"daily at {digest.get('at')}{zone}"
    return f"{said}, but not in quiet hours" if quiet else said


def _listed(items: Sequence[str], last: str) -> str:
    """Joins "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
