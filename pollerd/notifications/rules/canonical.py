"""A rule as a JSON object: what `parse_rule` reads to the same rule. Defaults are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pollerd.model import DAYS, Windows
from pollerd.notifications.rules.rule import Patience, Rule
from pollerd.notifications.schedule.digest import Digest
from pollerd.timestamps import rfc3339


def document_of(rule: Rule) -> dict[str, Any]:
    """Returns the rule as plain JSON values, without its id."""
    document: dict[str, Any] = {
        "name": rule.name,
        "events": [kind.value for kind in rule.events],
        "sites": _lists(rule.scope),
        "words": _lists(rule.words),
        "failing": _patience(rule.failing),
        "channels": list(rule.channels),
        "digest": _digest(rule.digest),
        "quiet": _quiet(rule.quiet),
        "muted_until": None if rule.muted_until is None else rfc3339(rule.muted_until),
    }
    document = {key: value for key, value in document.items() if value}
    if not rule.matters:
        document["matters"] = False
    if not rule.enabled:
        document["enabled"] = False
    return document


def _lists(of: msgspec.Struct) -> dict[str, Any]:
    found: Mapping[str, Sequence[Any]] = msgspec.to_builtins(of)
    return {key: list(some) for key, some in found.items() if some}


def _patience(patience: Patience) -> dict[str, Any] | None:
    if patience == Patience():
        return None
    found = {"after_polls": patience.after_polls, "after": patience.after}
    document: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    if patience.except_outcomes:
        document["except"] = [kind.value for kind in patience.except_outcomes]
    return document


def _digest(digest: Digest | None) -> dict[str, Any] | None:
    if digest is None:
        return None
    if digest.every == "hour":
        return {"every": "hour", "zone": digest.zone}
    days = {} if digest.days == DAYS else {"days": list(digest.days)}
    return {"every": "day", "at": digest.at, **days, "zone": digest.zone}


def _quiet(quiet: Windows | None) -> dict[str, Any] | None:
    if quiet is None:
        return None
    return {"zone": quiet.zone, "hours": [msgspec.to_builtins(one) | {"days": list(one.days)} for one in quiet.open]}
