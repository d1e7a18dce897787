"""An event in words: a title that stays the same for a site, one line, and facts. Plain lines, not escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any

from msgspec import Struct

from pollerd.detection.noise.learning import without_noise
from pollerd.detection.selection.conditions.change_size import LineChanges, line_changes
from pollerd.detection.summary import common_affix_length, differing_part, noise_named
from pollerd.errors import InvalidValueError
from pollerd.events import EventKind
from pollerd.model import DEFAULT_SELECTION, Media
from pollerd.notifications.message import Event, EventChange
from pollerd.scheduling.windows import local_time
from pollerd.texts import _, n_
from pollerd.timestamps import parse_moment

# Text of pages as plain lines: without characters that break lines, hide, or turn the direction of writing.

_BREAKS = re.compile("[\\s\\x00-\\x1f\\x7f-\\x9f\u2028\u2029]")
_HIDDEN = re.compile(
    "[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164"
    "\\ufdd0-\\ufdef\\ufeff\\uffa0\\ufff9-\\ufffb\\ufffe\\uffff\\U000e0000-\\U000e0fff]"
)
"""Characters without width and marks of direction, but for the joiners that scripts and emoji need (U+200C, U+200D)."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_LOOKED_AT = 4
"""How many times the length to be shown is looked at: the rest may be hidden characters."""


def one_line(text: str, most: int) -> str:
    """Returns a text on one line with single spaces, at most `most` characters."""
    return _cut(text, " ".join(_cleaned(text, most).split()), most)


def plain_line(text: str, most: int) -> str:
    """Returns a text on one line that keeps its spaces, at most `most` characters. Takes time linear in `most`."""
    return _cut(text, _cleaned(text, most).rstrip(), most)


def _cleaned(text: str, most: int) -> str:
    looked_at = text[: _LOOKED_AT * most]
    if looked_at.isprintable():
        return looked_at
    return _SURROGATES.sub("\ufffd", _HIDDEN.sub("", _BREAKS.sub(" ", looked_at)))


def _cut(text: str, line: str, most: int) -> str:
    more = len(line) > most or (line and len(text) > _LOOKED_AT * most)
    return line[: most - 1].rstrip() + "…" if more else line


# An event in words: a title that stays the same for a site, one line, and facts. Plain lines, not escaped.
#
# Keys of `Event.data` that are shown: `detail`, `failures`, `since`, `from`, `to` (moments: epoch s or RFC 3339),
# `new_url`, `selection`, `summary`, `channel`, and `over`: whether a budget fits again, or a channel works again.

LONGEST_NAME = 100
LONGEST_SUMMARY = 300
LONGEST_FACT = 200
_MAX_VALUES = 20


class Description(Struct, frozen=True):
    """An event in words."""

    title: str
    summary: str
    facts: tuple[tuple[str, str], ...] = ()
    """Names and values."""


def describe(event: Event, zone: tzinfo = UTC, *, with_facts: bool = True) -> Description:
    """Returns an event in words; moments in the time of a zone. Without facts it takes half the time."""
    words = _Words(event, zone, with_facts)
    return _KINDS[event.kind](words)


def site_name(event: Event) -> str:
    """Returns what users call the site of an event, else its URL; empty: it concerns none."""
    site = event.site
    return "" if site is None else one_line(site.title, LONGEST_NAME) or one_line(site.url, LONGEST_NAME)


def moment(at: float, zone: tzinfo) -> str:
    """Returns a moment as 2026-11-25 08:00 CET."""
    try:
        return f"{local_time(zone, at):%Y-%m-%d %H:%M %Z}"
    except (ValueError, OverflowError, OSError):  # no clock ever shows it
        return f"{at:.0f}"


class _Words:
    """An event with short ways to what it says."""

    def __init__(self, event: Event, zone: tzinfo, with_facts: bool) -> None:
        self.event, self.zone, self.data, self.with_facts = event, zone, event.data, with_facts
        self.site = site_name(event) or _("a site")

    def said(self, key: str, most: int = LONGEST_SUMMARY) -> str:
        """Returns a value of the event's data as one line; empty: it says none."""
        value = self.data.get(key)
        if value is None or isinstance(value, Mapping | list | tuple):
            return ""
        return one_line(str(value), most)

    def moment(self, key: str) -> str:
        """Returns a moment of the event's data: epoch seconds or RFC 3339; other texts as they are."""
        value: Any = self.data.get(key)
        if not self.with_facts:
            return ""
        if isinstance(value, int | float):
            return moment(float(value), self.zone)
        try:
            return moment(parse_moment(key, value), self.zone) if "T" in str(value) else self.said(key, LONGEST_FACT)
        except InvalidValueError:
            return self.said(key, LONGEST_FACT)

    def facts(self, *pairs: tuple[str, str]) -> tuple[tuple[str, str], ...]:
        """Returns those that say something, and when it happened; nothing, if no facts are wanted."""
        if not self.with_facts:
            return ()
        return tuple((name, value) for name, value in (*pairs, (_("at"), moment(self.event.at, self.zone))) if value)


def _changed(words: _Words) -> Description:
    change = words.event.change
    if change is None:
        return Description(
            _("{site} changed", site=words.site), words.said("summary") or _("It changed."), words.facts()
        )
    facts = _of_change(words, change) if words.with_facts else ()
    return Description(_("{site} changed", site=words.site), one_line(change.summary, LONGEST_SUMMARY), facts)


def _of_change(words: _Words, change: EventChange) -> tuple[tuple[str, str], ...]:
    values = list(change.values.items())[:_MAX_VALUES]
    before = change.previous_poll_at
    selection = "" if change.selection == DEFAULT_SELECTION else one_line(change.selection, LONGEST_FACT)
    return words.facts(
        *((one_line(name, 64), one_line(value, LONGEST_FACT)) for name, value in values),
        (_("matched"), one_line(change.why, LONGEST_FACT)),
        (_("selection"), selection),
        (_("changed after"), "" if before is None else moment(before, words.zone)),
    )


def _first_seen(words: _Words) -> Description:
    return Description(
        _("New site: {site}", site=words.site),
        words.said("summary") or _("It was fetched for the first time."),
        words.facts(),
    )


def _failing(words: _Words) -> Description:
    failures = words.data.get("failures")
    in_a_row = n_("{count} poll in a row", "{count} polls in a row", failures) if isinstance(failures, int) else ""
    facts = words.facts((_("failed"), in_a_row), (_("last successful poll"), words.moment("since")))
    return Description(
        _("{site} is failing", site=words.site), words.said("detail") or _("It cannot be fetched."), facts
    )


def _recovered(words: _Words) -> Description:
    facts = words.facts((_("failed since"), words.moment("since")))
    return Description(
        _("{site} is back", site=words.site), words.said("detail") or _("It can be fetched again."), facts
    )


def _gone(words: _Words) -> Description:
    detail = words.said("detail") or _("The server says that the page was removed for good (410).")
    return Description(_("{site} is gone", site=words.site), detail, words.facts())


def _moved(words: _Words) -> Description:
    facts = words.facts((_("new URL"), words.said("new_url", 2_000)))
    return Description(
        _("{site} moved", site=words.site), words.said("detail") or _("The page redirects permanently."), facts
    )


def _no_text(words: _Words) -> Description:
    detail = words.said("detail") or _("The page has no text that could be compared.")
    return Description(_("{site} has no text", site=words.site), detail, words.facts())


def _nothing_selected(words: _Words) -> Description:
    detail = words.said("detail") or _("The selection matches nothing on the page.")
    return Description(
        _("{site}: the watched part is missing", site=words.site),
        detail,
        words.facts((_("selection"), words.said("selection"))),
    )


def _blind(words: _Words) -> Description:
    facts = words.facts((_("from"), words.moment("from")), (_("to"), words.moment("to")))
    return Description(_("pollerd could not poll"), words.said("detail") or _("Polling stopped for a while."), facts)


def _over_budget(words: _Words) -> Description:
    if words.data.get("over"):
        return Description(
            _("The budget is large enough again"),
            words.said("detail") or _("All maximum intervals can be kept."),
            words.facts(),
        )
    detail = words.said("detail") or _("Some sites cannot be polled within their maximum interval.")
    return Description(_("The budget is too small for the maximum intervals"), detail, words.facts())


def _channel_down(words: _Words) -> Description:
    channel = words.said("channel", LONGEST_NAME)
    name = _("Channel {name}", name=channel) if channel else _("A channel")
    if words.data.get("over"):
        return Description(
            _("{name} works again", name=name),
            words.said("detail") or _("Queued messages are sent now."),
            words.facts(),
        )
    detail = words.said("detail") or _(
        "Its credentials were rejected. Messages are queued until the channel works again."
    )
    return Description(_("{name} is down", name=name), detail, words.facts())


def _test(words: _Words) -> Description:
    return Description(_("Test message from pollerd"), _("This channel works."), words.facts())


_KINDS: Mapping[EventKind, Callable[[_Words], Description]] = {
    EventKind.CHANGED: _changed,
    EventKind.FIRST_SEEN: _first_seen,
    EventKind.FAILING: _failing,
    EventKind.RECOVERED: _recovered,
    EventKind.GONE: _gone,
    EventKind.MOVED: _moved,
    EventKind.NO_TEXT: _no_text,
    EventKind.NOTHING_SELECTED: _nothing_selected,
    EventKind.BLIND: _blind,
    EventKind.OVER_BUDGET: _over_budget,
    EventKind.CHANNEL_DOWN: _channel_down,
    EventKind.TEST: _test,
}


# Lines that a change added and removed, for rules and messages. Takes time linear in the contents.

MAX_LINES = 100
LONGEST_LINE = 400
_BEFORE_DIFFERENCE = 60
_NONE = LineChanges((), ())


class CutLines(Struct, frozen=True):
    """Lines as messages show them; cut: there are more, or longer ones."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    cut: bool


def changed_lines(before: bytes | None, after: bytes, media: Media, mask: bytes = b"") -> LineChanges:
    """Returns the lines that differ between two contents as kept by `detect`, in full.

    Of a feed: its entries as title, date and text. One that is gone is left out, since feeds drop their old entries.
    before None: the earlier content is not kept. mask: the noise that does not count. Raises InvalidValueError for an
    invalid mask.
    """
    if before is None or media is Media.BINARY:
        return _NONE
    if mask:
        before, after = (noise_named(without_noise(content, mask)) for content in (before, after))
    old, new = (part.decode("utf-8", "replace") for part in differing_part(before, after))
    changes = line_changes(old, new)
    return _entries(changes, after) if media is Media.FEED else changes


def _entries(changes: LineChanges, after: bytes) -> LineChanges:
    ids = {line.partition(b"\t")[0].decode("utf-8", "replace") for line in after.split(b"\n")}
    edited = tuple(line for line in changes.removed if line.partition("\t")[0] in ids)
    return LineChanges(tuple(map(_entry, changes.added)), tuple(map(_entry, edited)))


def _entry(line: str) -> str:
    key, *rest = line.split("\t")
    return " · ".join(part for part in rest if part) or key


def cut_lines(changes: LineChanges, most: int = MAX_LINES, longest: int = LONGEST_LINE) -> CutLines:
    """Returns the first lines of a change, on one line each without control characters, long ones cut.

    Of a long line that took the place of another, what is around the first difference is shown. most: lines of either
    kind.
    """
    added, removed = changes.added[:most], changes.removed[:most]
    starts = [0] * max(len(added), len(removed))
    if len(changes.added) == len(changes.removed):
        starts = [_start(line, other, longest) for line, other in zip(added, removed, strict=True)]
    cut = max(len(changes.added), len(changes.removed)) > most
    cut = cut or any(len(line) > longest for line in (*added, *removed))
    return CutLines(_shown(added, starts, longest), _shown(removed, starts, longest), cut)


def _start(line: str, other: str, longest: int) -> int:
    """Returns from which character on two lines are shown: from a bit before they differ, if one is too long."""
    if max(len(line), len(other)) <= longest:
        return 0
    data = line.encode("utf-8", "replace"), other.encode("utf-8", "replace")
    same = common_affix_length(*data, 1)
    return max(0, len(data[0][:same].decode("utf-8", "ignore")) - _BEFORE_DIFFERENCE)


def _shown(lines: Sequence[str], starts: Sequence[int], longest: int) -> tuple[str, ...]:
    shown = (
        f"…{plain_line(line[start:], longest - 1).lstrip()}" if start else plain_line(line, longest)
        for line, start in zip(lines, starts, strict=False)
    )
    return tuple(shown)
