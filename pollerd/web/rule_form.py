"""The form of a rule: all its fields as texts, from the rule's document and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pollerd.errors import InvalidValueError
from pollerd.quantities import duration
from pollerd.site_settings import DAYS
from pollerd.texts import _
from pollerd.web.http import PostedForm, tags_in_one_field

LISTS = ("event", "channel", "media", "except", "day")
_WORDS = ("summary", "added", "removed")
_SCOPE = ("ids", "tags", "hosts", "selections")
_TEXTS = (
    *("name", "matters", "after_polls", "after", "digest", "digest_at", "zone", "quiet_zone"),
    *_SCOPE,
    *(f"words_{name}" for name in _WORDS),
)
_ROWS = 20
"""Most rows of quiet hours that a form sends."""
_FIELDS_OF = {
    "rule.name": "name",
    "rule.channels": "channel",
    "channels": "channel",
    "rule.events": "event",
    **{f"rule.sites.{name}": name for name in (*_SCOPE, "media")},
    **{f"rule.words.{name}": f"words_{name}" for name in _WORDS},
    **{f"rule.failing.{name}": name for name in ("after_polls", "after", "except")},
    "rule.digest.at": "digest_at",
    "rule.digest.zone": "zone",
    "rule.digest.days": "day",
    "rule.digest": "digest",
    "rule.quiet.zone": "quiet_zone",
    "rule.quiet": "quiet",
}
"""Place in a rule's document -> field of the form."""


def field_of(place: str) -> str:
    """Returns the field of the form beside which an error of that place in the document stands; empty: none."""
    fitting = [known for known in _FIELDS_OF if place == known or place.startswith((f"{known}.", f"{known}["))]
    return _FIELDS_OF[max(fitting, key=len)] if fitting else place if place in _TEXTS else ""


# From a rule's document to the form.


def values_of(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the form's values of a rule, as REST shows it; of an empty one those of a new rule."""
    scope, words, failing = rule.get("sites") or {}, rule.get("words") or {}, rule.get("failing") or {}
    digest, quiet = rule.get("digest") or {}, rule.get("quiet") or {}
    return {
        "name": rule.get("name", ""),
        "enabled": rule.get("enabled", True),
        "event": rule.get("events", ["site.changed"]),
        "channel": rule.get("channels", []),
        "matters": "true" if rule.get("matters", True) else "all",
        "ids": ", ".join(map(str, scope.get("ids", ()))),
        "hosts": ", ".join(scope.get("hosts", ())),
        "tags": tags_in_one_field(scope.get("tags", ())),
        "selections": tags_in_one_field(scope.get("selections", ())),
        "media": scope.get("media", []),
        **{f"words_{name}": "\n".join(map(_line, words.get(name, ()))) for name in _WORDS},
        "after_polls": failing.get("after_polls", "" if "after" in failing else 3),
        "after": duration(failing["after"]) if "after" in failing else "",
        "except": failing.get("except", []),
        "digest": digest.get("every", "none"),
        "digest_at": digest.get("at", "08:00"),
        "day": digest.get("days", list(DAYS)),
        "zone": digest.get("zone", ""),
        "quiet": [(hours["from"], hours["to"], hours.get("days", list(DAYS))) for hours in quiet.get("hours", ())],
        "quiet_zone": quiet.get("zone", ""),
    }


def _line(pattern: Mapping[str, Any] | str) -> str:
    """Returns a pattern as its line: words, "Words" if upper and lower case differ, /a regular expression/."""
    settings = {"text": pattern} if isinstance(pattern, str) else dict(pattern)
    if "re" in settings:
        line = f"/{settings['re']}/"
    else:
        line = f'"{settings["text"]}"' if settings.get("case") else str(settings["text"])
    is_plain = line == line.strip() and "\n" not in line and "\r" not in line
    return line if is_plain and _pattern(line) == settings else orjson.dumps(settings).decode()


def _pattern(line: str) -> dict[str, Any]:
    """Returns the pattern of a line."""
    if len(line) > 2 and line[0] == line[-1] == "/":
        return {"re": line[1:-1]}
    if len(line) > 2 and line[0] == line[-1] == '"':
        return {"text": line[1:-1], "case": True}
    if line.startswith(("{", "[")):
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            document = None
        if isinstance(document, dict):
            return document
    return {"text": line}


# From what was sent to the form again, and to a rule's document.


def sent_values(form: PostedForm) -> dict[str, Any]:
    """Returns what was typed, to be shown again beside an error."""
    return {
        **{name: form.text(name) for name in _TEXTS},
        **{name: [text for text in form.texts(name) if text] for name in LISTS},
        "enabled": form.has("enabled"),
        "quiet": _quiet_rows(form),
    }


def _quiet_rows(form: PostedForm) -> list[tuple[str, str, list[str]]]:
    """Returns the rows of quiet hours that are not empty; days: none ticked means every day."""
    begins, ends = form.texts("quiet_from"), form.texts("quiet_to")
    rows = []
    for place, (begin, end) in enumerate(zip(begins[:_ROWS], ends, strict=False)):
        if begin or end:
            days = [day for day in form.texts(f"quiet_days_{place}") if day]
            rows.append((begin, end, days or list(DAYS)))
    return rows


def document_of_form(form: PostedForm, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the rule that the form describes; what a form does not have stays as it is in `kept`.

    Raises `InvalidValueError`.
    """
    document = {
        **kept,
        "name": form.text("name"),
        "channels": list(form.texts("channel")),
        "events": [event for event in form.texts("event") if event],
        "enabled": form.has("enabled"),
        "digest": _digest(form),
    }
    if form.has("matters"):
        document["matters"] = form.text("matters") != "all"
    parts = {"sites": _scope(form), "words": _words(form), "failing": _failing(form)}
    for name, part in parts.items():
        whole = {**(kept.get(name) or {}), **part}
        document[name] = {key: value for key, value in whole.items() if value not in ("", [], None)} or None
    if form.has("quiet_from"):
        hours = [{"from": begin, "to": end, "days": days} for begin, end, days in _quiet_rows(form)]
        document["quiet"] = {"zone": form.text("quiet_zone") or "UTC", "hours": hours} if hours else None
    return {name: value for name, value in document.items() if value is not None}


def _digest(form: PostedForm) -> Any:
    every, zone = form.text("digest"), form.text("zone") or "UTC"
    if every == "hour":
        return {"every": "hour", "zone": zone}
    if every != "day":
        return "none" if every in ("", "none") else {"every": every}
    days = [day for day in form.texts("day") if day]
    return {"every": "day", "at": form.text("digest_at") or "08:00", "zone": zone, **({"days": days} if days else {})}


def _scope(form: PostedForm) -> dict[str, Any]:
    scope: dict[str, Any] = {name: _listed(form, name) for name in ("hosts", "selections") if form.has(name)}
    if form.has("tags"):
        scope["tags"] = form.tags("tags")
    if form.has("media"):
        scope["media"] = [text for text in form.texts("media") if text]
    if form.has("ids"):
        numbers = _listed(form, "ids")
        if not all(number.isascii() and number.isdecimal() and len(number) < 20 for number in numbers):
            raise InvalidValueError("ids", _("numbers of sites, such as 12, 15"), form.text("ids")[:100])
        scope["ids"] = [int(number) for number in numbers]
    return scope


def _listed(form: PostedForm, name: str) -> list[str]:
    text = form.text(name)
    return [item.strip() for item in text.split(";" if ";" in text else ",") if item.strip()]


def _words(form: PostedForm) -> dict[str, Any]:
    fields: Sequence[str] = [name for name in _WORDS if form.has(f"words_{name}")]
    lines = {name: form.text(f"words_{name}").splitlines() for name in fields}
    return {name: [_pattern(line.strip()) for line in lines[name] if line.strip()] for name in fields}


def _failing(form: PostedForm) -> dict[str, Any]:
    failing: dict[str, Any] = {}
    if form.has("after_polls"):
        polls = form.text("after_polls")
        failing["after_polls"] = int(polls) if polls.isascii() and polls.isdecimal() and len(polls) < 9 else polls
    if form.has("after"):
        failing["after"] = form.text("after")
    if form.has("except"):
        failing["except"] = [text for text in form.texts("except") if text]
    return failing
