"""Rules: which events, of which sites, are sent on which channels, and when; and the form in which users write them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from pollerd import quantities
from pollerd.detection.selection.document import flag, known_table, list_of, shown, text, whole_number
from pollerd.detection.selection.expressions.pattern import compile_pattern
from pollerd.errors import InvalidValueError, refusal, unknown_name, with_nearest
from pollerd.events import EventKind
from pollerd.model import Media, OutcomeKind
from pollerd.notifications.schedule import Digest, ends_some_time
from pollerd.scheduling.windows import clock_of, windows_of, zone_of
from pollerd.site_settings import DAYS, Windows
from pollerd.texts import N_, _
from pollerd.timestamps import parse_moment, rfc3339

PatternSettings = Mapping[str, object]
"""`{"text": …, "case": false}` or `{"re": …}`, as `detection.selection.expressions.pattern` compiles them."""


class RuleScope(Struct, frozen=True):
    """Which sites a rule concerns: those with one of the ids, tags or hosts; without any of these, all sites.

    media, selections: of these, only changes of such contents, or found in such a selection.
    """

    ids: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()
    selections: tuple[str, ...] = ()


class Words(Struct, frozen=True):
    """Patterns of which one must be found: in the summary of a change, or in a line that it added or removed."""

    summary: tuple[PatternSettings, ...] = ()
    added: tuple[PatternSettings, ...] = ()
    removed: tuple[PatternSettings, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.summary or self.added or self.removed)


class Patience(Struct, frozen=True, gc=False):
    """When a site counts as failing: after so many polls in a row, or so many seconds, whichever comes first."""

    after_polls: int | None = 3
    after: float | None = None
    """Seconds since the site was last seen working, or was added."""
    except_outcomes: tuple[OutcomeKind, ...] = ()
    """A poll with such an outcome is never the one with which a site begins to fail."""


class Rule(Struct, frozen=True):
    """Who is told of what."""

    name: str
    channels: tuple[str, ...]
    """Names of channels."""
    id: int = 0
    """Its row; 0: it has none yet."""
    events: tuple[EventKind, ...] = (EventKind.CHANGED,)
    scope: RuleScope = RuleScope()
    matters: bool = True
    """Of changes only those that matter by the conditions of their selection."""
    words: Words = Words()
    failing: Patience = Patience()
    digest: Digest | None = None
    """None: told at once."""
    quiet: Windows | None = None
    """Hours in which nothing is sent; what they hold back is told at their end, in one digest."""
    muted_until: float | None = None
    """Until then (epoch s) the rule matches nothing."""
    enabled: bool = True

    def is_silent(self, now: float) -> bool:
        """Returns whether the rule is switched off or muted."""
        return not self.enabled or (self.muted_until is not None and now < self.muted_until)


def check_keys(field: str, fields: Mapping[object, object], known: Sequence[str]) -> None:
    """Raises InvalidValueError for an unknown key; it names the known ones, and that which looks most like it."""
    for key in fields:
        if key not in known:
            name = str(key)[:60]
            raise unknown_name(f"{field}.{name}", N_("field"), name, known)


# Times of a rule: digests, quiet hours, muted until.

_HOURLY, _DAILY = ("every", "zone"), ("every", "at", "days", "zone")
_NONE = "none"


def digest_of(field: str, value: object) -> Digest | None:
    """Returns the digest of `{"every": "hour"}` or `{"every": "day", "at": "08:00", "zone": "Europe/Berlin"}`.

    "none" is none. Raises InvalidValueError.
    """
    if value is None or value == _NONE:
        return None
    allowed = _('"none", {"every": "hour"} or {"every": "day", "at": "08:00", "zone": "Europe/Berlin"}')
    if not isinstance(value, Mapping):
        raise InvalidValueError(field, allowed, shown(value))
    every = value.get("every")
    if every not in ("hour", "day"):
        raise InvalidValueError(f"{field}.every", _("hour or day"), shown(every))
    check_keys(field, value, _HOURLY if every == "hour" else _DAILY)
    if every == "hour":
        return Digest("hour", zone=_zone(f"{field}.zone", value.get("zone", "UTC")))
    for needed in ("at", "zone"):
        if needed not in value:
            raise refusal(f"{field}.{needed}", _("a daily digest needs it"))
    if not isinstance(value["at"], str):
        raise InvalidValueError(f"{field}.at", _("a time such as 08:00"), shown(value["at"]))
    clock_of(value["at"], f"{field}.at")
    days = _days(f"{field}.days", value.get("days"))
    return Digest("day", value["at"], days, _zone(f"{field}.zone", value["zone"]))


def quiet_of(field: str, value: object) -> Windows | None:
    """Returns quiet hours, `{"zone": "Europe/Berlin", "hours": [{"from": "22:00", "to": "07:00"}]}`.

    Raises InvalidValueError, also for hours that never end.
    """
    if isinstance(value, Mapping):
        check_keys(field, value, ("zone", "hours"))
    windows = windows_of(value, field, hours="hours")
    if windows is not None and not ends_some_time(windows):
        raise InvalidValueError(f"{field}.hours", _("hours that leave some time of the week"), _("the whole week"))
    return windows


def moment_of(field: str, value: object) -> float | None:
    """Returns epoch seconds, to the millisecond, of RFC 3339 with an offset, a TOML date-time, or epoch seconds.

    Raises InvalidValueError.
    """
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return round(value.timestamp(), 3)
    if isinstance(value, str):
        return round(parse_moment(field, value), 3)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValueError(field, _("a time such as 2026-01-31T12:00:00Z, or epoch seconds"), shown(value))
    return round(float(value), 3)


def _zone(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValueError(field, _("the name of a time zone, such as Europe/Berlin"), shown(value))
    zone_of(value, field)
    return value


def _days(field: str, value: object) -> tuple[str, ...]:
    if value is None:
        return DAYS
    days = list_of(field, value, len(DAYS), _("days among {days}", days=", ".join(DAYS)))
    for place, day in enumerate(days):
        if day not in DAYS:
            raise InvalidValueError(
                f"{field}[{place}]", with_nearest(_("one of {days}", days=", ".join(DAYS)), str(day), DAYS), shown(day)
            )
    return tuple(day for day in DAYS if day in days)


# Rules as users write them: JSON, TOML or YAML objects, checked.

MAX_ITEMS = 1_000
MAX_PATTERNS = 50
LONGEST_NAME = 100
MAX_POLLS = 10_000
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


def parse_rule(value: object, field: str = "rule", id: int = 0) -> Rule:
    """Returns the rule of an object.

    `{"name": "prices", "channels": ["mail"], "sites": {"tags": ["shop"]}, "words": {"added": [{"text": "sale"}]}}`; all
    but name and channels may be left out. Raises InvalidValueError with the place, what is allowed and what was given.
    """
    fields = _table(field, value, _KNOWN)
    for needed in ("name", "channels"):
        if fields.get(needed) is None:
            raise refusal(f"{field}.{needed}", _("is needed"))
    return Rule(
        name=_name(f"{field}.name", fields["name"]),
        channels=_names(f"{field}.channels", fields["channels"], _("names of channels")),
        id=id,
        events=_events(f"{field}.events", fields.get("events")),
        scope=_scope(f"{field}.sites", fields.get("sites")),
        matters=flag(f"{field}.matters", fields.get("matters", True)),
        words=_words(f"{field}.words", fields.get("words")),
        failing=_patience(f"{field}.failing", fields.get("failing")),
        digest=digest_of(f"{field}.digest", fields.get("digest")),
        quiet=quiet_of(f"{field}.quiet", fields.get("quiet")),
        muted_until=moment_of(f"{field}.muted_until", fields.get("muted_until")),
        enabled=flag(f"{field}.enabled", fields.get("enabled", True)),
    )


def _table(field: str, value: object, known: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        check_keys(field, value, known)
    return known_table(field, value, known)


def _name(field: str, value: object) -> str:
    name = text(field, value, LONGEST_NAME)
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise InvalidValueError(field, _("a name of printable characters, without spaces around it"), shown(name))
    return name


def _names(field: str, value: object, things: str) -> tuple[str, ...]:
    items = list_of(field, value, MAX_ITEMS, things)
    return tuple(dict.fromkeys(_name(f"{field}[{place}]", item) for place, item in enumerate(items)))


def _among(field: str, value: object, allowed: Collection[str]) -> list[str]:
    """Returns a list of allowed words, each once."""
    words = list(allowed)
    items = list_of(field, value, MAX_ITEMS, f"of {', '.join(words)}")
    for place, word in enumerate(items):
        if not isinstance(word, str):
            raise InvalidValueError(f"{field}[{place}]", _("a text"), shown(word))
        if word not in words:
            raise unknown_name(f"{field}[{place}]", N_("value"), word, words, shown(word))
    return list(dict.fromkeys(str(item) for item in items))


def _events(field: str, value: object) -> tuple[EventKind, ...]:
    if value is None:
        return (EventKind.CHANGED,)
    kinds = tuple(EventKind(kind) for kind in _among(field, value, _EVENTS))
    if EventKind.RECOVERED in kinds and EventKind.FAILING not in kinds:
        allowed = _(
            "together with {failing}: a rule reports the recovery from a failure that it reported",
            failing=EventKind.FAILING.value,
        )
        raise InvalidValueError(field, allowed, EventKind.RECOVERED.value)
    return kinds


def _scope(field: str, value: object) -> RuleScope:
    if value is None:
        return RuleScope()
    fields = _table(field, value, _SITES)
    lists: dict[str, Any] = {}
    for key in _SITES:
        if fields.get(key) is None:
            continue
        where = f"{field}.{key}"
        if key == "ids":
            ids = list_of(where, fields[key], MAX_ITEMS, _("ids of sites"))
            checked = (whole_number(f"{where}[{place}]", site_id, 1, 2**63 - 1) for place, site_id in enumerate(ids))
            lists[key] = tuple(dict.fromkeys(checked))
        elif key == "media":
            lists[key] = tuple(Media(media) for media in _among(where, fields[key], [media.value for media in Media]))
        else:
            names = _names(where, fields[key], key)
            lists[key] = tuple(name.lower() for name in names) if key == "hosts" else names
    return RuleScope(**lists)


def _words(field: str, value: object) -> Words:
    if value is None:
        return Words()
    fields = _table(field, value, _WORDS)
    return Words(**{key: _patterns(f"{field}.{key}", fields[key]) for key in _WORDS if fields.get(key) is not None})


def _patterns(field: str, raw: object) -> tuple[PatternSettings, ...]:
    patterns: list[PatternSettings] = []
    for place, pattern in enumerate(list_of(field, raw, MAX_PATTERNS, "patterns")):
        compile_pattern(f"{field}[{place}]", pattern)
        settings = {"text": pattern} if isinstance(pattern, str) else pattern
        assert isinstance(settings, Mapping)  # else it was no pattern
        patterns.append({key: value for key, value in settings.items() if (key, value) != ("case", False)})
    return tuple(patterns)


def _patience(field: str, value: object) -> Patience:
    if value is None:
        return Patience()
    fields = _table(field, value, _FAILING)
    polls, after = fields.get("after_polls"), fields.get("after")
    excepted = fields.get("except")
    return Patience(
        after_polls=(
            whole_number(f"{field}.after_polls", polls, 1, MAX_POLLS)
            if polls is not None
            else (Patience().after_polls if after is None else None)
        ),
        after=None if after is None else _seconds(f"{field}.after", after),
        except_outcomes=(
            ()
            if excepted is None
            else tuple(OutcomeKind(kind) for kind in _among(f"{field}.except", excepted, _FAILURES))
        ),
    )


def _seconds(field: str, value: object) -> float:
    """Returns a duration from 1 s to a year, given in seconds or as 6h."""
    allowed = _("{duration}, from 1 s to 365 d", duration=quantities.DURATION)
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(allowed)
        duration = quantities.seconds(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError) as error:
        raise InvalidValueError(field, allowed, shown(value)) from error
    if not 1 <= duration <= LONGEST_PATIENCE_S:
        raise InvalidValueError(field, allowed, shown(value))
    return duration


# A rule as a JSON object, which `parse_rule` reads to the same rule. Defaults are left out.


def document_of(rule: Rule) -> dict[str, Any]:
    """Returns the rule as plain JSON values, without its id."""
    document: dict[str, Any] = {
        "name": rule.name,
        "events": [kind.value for kind in rule.events],
        "sites": _lists(rule.scope),
        "words": _lists(rule.words),
        "failing": _patience_document(rule.failing),
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
    lists: Mapping[str, Sequence[Any]] = msgspec.to_builtins(of)
    return {key: list(some) for key, some in lists.items() if some}


def _patience_document(patience: Patience) -> dict[str, Any] | None:
    if patience == Patience():
        return None
    fields = {"after_polls": patience.after_polls, "after": patience.after}
    document: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
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
    return {
        "zone": quiet.zone,
        "hours": [msgspec.to_builtins(window) | {"days": list(window.days)} for window in quiet.open],
    }
