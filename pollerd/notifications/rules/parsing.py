"""Rules as users write them: JSON, TOML or YAML objects, checked, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pollerd import quantities
from pollerd.detection.selection.document import flag, known_table, list_of, shown, text, whole_number
from pollerd.detection.selection.expressions.pattern import compile_pattern
from pollerd.detection.selection.values.nearest import with_nearest
from pollerd.errors import InvalidValueError
from pollerd.events import EventKind
from pollerd.model import Media, OutcomeKind
from pollerd.notifications.rules.keys import check_keys
from pollerd.notifications.rules.rule import Patience, PatternSettings, Rule, RuleScope, Words
from pollerd.notifications.rules.times import digest_of, moment_of, quiet_of

MOST_ITEMS = 1_000
MOST_PATTERNS = 50
LONGEST_NAME = 100
MOST_POLLS = 10_000
LONGEST_PATIENCE_S = 365 * 86_400.0
_KNOWN = (
    *("name", "events", "sites", "matters", "words", "failing", "channels", "digest", "quiet", "muted_until"),
    "enabled",
)
_SITES = ("ids", "tags", "hosts", "media", "selections")
_WORDS = ("summary", "added", "removed")
_FAILING = ("after_polls", "after", "except")
_EVENTS = tuple(kind.value for kind in EventKind if kind is not EventKind.TEST)
_FAILURES = tuple(
    kind.value for kind in OutcomeKind if not kind.informative and kind not in (OutcomeKind.BODY, OutcomeKind.PROVING)
)


def parse_rule(given: object, field: str = "rule", id: int = 0) -> Rule:
    """Returns the rule of an object.

    `{"name": "prices", "channels": ["mail"], "sites": {"tags": ["shop"]}, "words": {"added": [{"text": "sale"}]}}`; all
    but name and channels may be left out. Raises InvalidValueError with the place, what is allowed and what was given.
    """
    found = _table(field, given, _KNOWN)
    for needed in ("name", "channels"):
        if found.get(needed) is None:
            raise InvalidValueError(f"{field}.{needed}", "given", None)
    return Rule(
        name=_name(f"{field}.name", found["name"]),
        channels=_names(f"{field}.channels", found["channels"], "names of channels"),
        id=id,
        events=_events(f"{field}.events", found.get("events")),
        scope=_scope(f"{field}.sites", found.get("sites")),
        matters=flag(f"{field}.matters", found.get("matters", True)),
        words=_words(f"{field}.words", found.get("words")),
        failing=_patience(f"{field}.failing", found.get("failing")),
        digest=digest_of(f"{field}.digest", found.get("digest")),
        quiet=quiet_of(f"{field}.quiet", found.get("quiet")),
        muted_until=moment_of(f"{field}.muted_until", found.get("muted_until")),
        enabled=flag(f"{field}.enabled", found.get("enabled", True)),
    )


def _table(field: str, given: object, known: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        check_keys(field, given, known)
    return known_table(field, given, known)


def _name(field: str, given: object) -> str:
    name = text(field, given, LONGEST_NAME)
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise InvalidValueError(field, "a name of printable characters, without spaces around it", shown(name))
    return name


def _names(field: str, given: object, things: str) -> tuple[str, ...]:
    items = list_of(field, given, MOST_ITEMS, things)
    return tuple(dict.fromkeys(_name(f"{field}[{place}]", one) for place, one in enumerate(items)))


def _among(field: str, given: object, allowed: Collection[str]) -> list[str]:
    """Returns a list of allowed words, each once."""
    words = list(allowed)
    items = list_of(field, given, MOST_ITEMS, f"of {', '.join(words)}")
    for place, one in enumerate(items):
        if one not in words:
            reason = with_nearest(f"one of {', '.join(words)}", str(one), words)
            raise InvalidValueError(f"{field}[{place}]", reason, shown(one))
    return list(dict.fromkeys(str(one) for one in items))


def _events(field: str, given: object) -> tuple[EventKind, ...]:
    if given is None:
        return (EventKind.CHANGED,)
    kinds = tuple(EventKind(one) for one in _among(field, given, _EVENTS))
    if EventKind.RECOVERED in kinds and EventKind.FAILING not in kinds:
        allowed = f"together with {EventKind.FAILING.value}: a rule tells of recoveries from what it told of"
        raise InvalidValueError(field, allowed, EventKind.RECOVERED.value)
    return kinds


def _scope(field: str, given: object) -> RuleScope:
    if given is None:
        return RuleScope()
    found = _table(field, given, _SITES)
    lists: dict[str, Any] = {}
    for key in _SITES:
        if found.get(key) is None:
            continue
        where = f"{field}.{key}"
        if key == "ids":
            ids = list_of(where, found[key], MOST_ITEMS, "ids of sites")
            checked = (whole_number(f"{where}[{place}]", one, 1, 2**63 - 1) for place, one in enumerate(ids))
            lists[key] = tuple(dict.fromkeys(checked))
        elif key == "media":
            lists[key] = tuple(Media(one) for one in _among(where, found[key], [one.value for one in Media]))
        else:
            names = _names(where, found[key], key)
            lists[key] = tuple(name.lower() for name in names) if key == "hosts" else names
    return RuleScope(**lists)


def _words(field: str, given: object) -> Words:
    if given is None:
        return Words()
    found = _table(field, given, _WORDS)
    return Words(**{key: _patterns(f"{field}.{key}", found[key]) for key in _WORDS if found.get(key) is not None})


def _patterns(field: str, given: object) -> tuple[PatternSettings, ...]:
    patterns: list[PatternSettings] = []
    for place, one in enumerate(list_of(field, given, MOST_PATTERNS, "patterns")):
        compile_pattern(f"{field}[{place}]", one)
        settings = {"text": one} if isinstance(one, str) else one
        assert isinstance(settings, Mapping)  # else it was no pattern
        patterns.append({key: value for key, value in settings.items() if (key, value) != ("case", False)})
    return tuple(patterns)


def _patience(field: str, given: object) -> Patience:
    if given is None:
        return Patience()
    found = _table(field, given, _FAILING)
    polls, after = found.get("after_polls"), found.get("after")
    excepted = found.get("except")
    return Patience(
        after_polls=(
            whole_number(f"{field}.after_polls", polls, 1, MOST_POLLS)
            if polls is not None
            else (Patience().after_polls if after is None else None)
        ),
        after=None if after is None else _seconds(f"{field}.after", after),
        except_outcomes=(
            ()
            if excepted is None
            else tuple(OutcomeKind(one) for one in _among(f"{field}.except", excepted, _FAILURES))
        ),
    )


def _seconds(field: str, given: object) -> float:
    """Returns a duration from 1 s to a year, given in seconds or as 6h."""
    allowed = f"{quantities.DURATION}, from 1 s to 365 d"
    try:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise ValueError(allowed)
        found = quantities.seconds(given) if isinstance(given, str) else float(given)
    except (ValueError, OverflowError) as error:
        raise InvalidValueError(field, allowed, shown(given)) from error
    if not 1 <= found <= LONGEST_PATIENCE_S:
        raise InvalidValueError(field, allowed, shown(given))
    return found
