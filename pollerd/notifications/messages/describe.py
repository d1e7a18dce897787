"""What an event says, in words: a title that stays the same for a site, one line, and facts. Plain lines, not escaped.

Keys of `Event.data` that are shown: `detail`, `failures`, `since`, `from`, `to` (moments: epoch s or RFC 3339),
`new_url`, `selection`, `summary`, `channel`, and `over`: whether a budget fits again, or a channel works again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Any

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.events import EventKind
from pollerd.model import DEFAULT_SELECTION
from pollerd.notifications.message import Event, EventChange
from pollerd.notifications.messages.plain import one_line
from pollerd.quantities import counted
from pollerd.scheduling.times.local_time import local_time
from pollerd.timestamps import parse_moment

LONGEST_NAME = 100
LONGEST_SUMMARY = 300
LONGEST_FACT = 200
_MOST_VALUES = 20


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
        self.site = site_name(event) or "a site"

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
        return tuple((name, value) for name, value in (*pairs, ("at", moment(self.event.at, self.zone))) if value)


def _changed(words: _Words) -> Description:
    change = words.event.change
    if change is None:
        return Description(f"{words.site} changed", words.said("summary") or "It changed.", words.facts())
    facts = _of_change(words, change) if words.with_facts else ()
    return Description(f"{words.site} changed", one_line(change.summary, LONGEST_SUMMARY), facts)


def _of_change(words: _Words, change: EventChange) -> tuple[tuple[str, str], ...]:
    values = list(change.values.items())[:_MOST_VALUES]
    before = change.previous_poll_at
    selection = "" if change.selection == DEFAULT_SELECTION else one_line(change.selection, LONGEST_FACT)
    return words.facts(
        *((one_line(name, 64), one_line(value, LONGEST_FACT)) for name, value in values),
        ("because", one_line(change.why, LONGEST_FACT)),
        ("selection", selection),
        ("not before", "" if before is None else moment(before, words.zone)),
    )


def _first_seen(words: _Words) -> Description:
    return Description(f"{words.site} was read", words.said("summary") or "Read for the first time.", words.facts())


def _failing(words: _Words) -> Description:
    failures = words.data.get("failures")
    in_a_row = f"{counted(failures, 'poll')} in a row" if isinstance(failures, int) else ""
    facts = words.facts(("failed", in_a_row), ("last seen working", words.moment("since")))
    return Description(f"{words.site} fails", words.said("detail") or "It cannot be read.", facts)


def _recovered(words: _Words) -> Description:
    facts = words.facts(("failed since", words.moment("since")))
    return Description(f"{words.site} answers again", words.said("detail") or "It can be read again.", facts)


def _gone(words: _Words) -> Description:
    said = words.said("detail") or "The page says that it is gone for good (410)."
    return Description(f"{words.site} is gone", said, words.facts())


def _moved(words: _Words) -> Description:
    facts = words.facts(("new URL", words.said("new_url", 2_000)))
    return Description(f"{words.site} moved", words.said("detail") or "The page redirects permanently.", facts)


def _nothing_selected(words: _Words) -> Description:
    said = words.said("detail") or "What is selected of the page is not there."
    return Description(f"{words.site}: nothing selected", said, words.facts(("selection", words.said("selection"))))


def _blind(words: _Words) -> Description:
    facts = words.facts(("from", words.moment("from")), ("to", words.moment("to")))
    return Description("pollerd was blind", words.said("detail") or "Nothing could be polled for a while.", facts)


def _over_budget(words: _Words) -> Description:
    if words.data.get("over"):
        return Description("The budget is enough again", words.said("detail") or "All intervals hold.", words.facts())
    said = words.said("detail") or "It cannot hold the longest intervals that are set."
    return Description("The budget is too small", said, words.facts())


def _channel_down(words: _Words) -> Description:
    channel = words.said("channel", LONGEST_NAME)
    name = f"Channel {channel}" if channel else "A channel"
    if words.data.get("over"):
        return Description(f"{name} works again", words.said("detail") or "What waited is sent now.", words.facts())
    said = (
        words.said("detail")
        or "The receiver refuses the credentials. Messages are kept, and sent once the channel works again."
    )
    return Description(f"{name} is down", said, words.facts())


def _test(words: _Words) -> Description:
    return Description("Test of pollerd", "This channel works: you can read this.", words.facts())


_KINDS: Mapping[EventKind, Callable[[_Words], Description]] = {
    EventKind.CHANGED: _changed,
    EventKind.FIRST_SEEN: _first_seen,
    EventKind.FAILING: _failing,
    EventKind.RECOVERED: _recovered,
    EventKind.GONE: _gone,
    EventKind.MOVED: _moved,
    EventKind.NOTHING_SELECTED: _nothing_selected,
    EventKind.BLIND: _blind,
    EventKind.OVER_BUDGET: _over_budget,
    EventKind.CHANNEL_DOWN: _channel_down,
    EventKind.TEST: _test,
}
