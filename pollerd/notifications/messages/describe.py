"""What an event says, in words: a title that stays the same for a site, one line, and facts. Plain lines, not escaped.

Keys of `Event.data` that are shown: `detail`, `failures`, `since`, `from`, `to` (moments as epoch s), `new_url`,
`selection`, `summary`, `channel`, and `over`: whether a budget fits again, or a channel works again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Any

from msgspec import Struct

from pollerd.events import EventKind
from pollerd.model import DEFAULT_SELECTION
from pollerd.notifications.message import Event, EventChange
from pollerd.notifications.messages.plain import one_line
from pollerd.scheduling.local_time import local_time
from pollerd.wording import counted

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
    told = _Told(event, zone, with_facts)
    return _KINDS[event.kind](told)


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


class _Told:
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
        value: Any = self.data.get(key)
        if not self.with_facts:
            return ""
        return moment(float(value), self.zone) if isinstance(value, int | float) else self.said(key, LONGEST_FACT)

    def facts(self, *pairs: tuple[str, str]) -> tuple[tuple[str, str], ...]:
        """Returns those that say something, and when it happened; nothing, if no facts are wanted."""
        if not self.with_facts:
            return ()
        return tuple((name, value) for name, value in (*pairs, ("at", moment(self.event.at, self.zone))) if value)


def _changed(told: _Told) -> Description:
    change = told.event.change
    if change is None:
        return Description(f"{told.site} changed", told.said("summary") or "It changed.", told.facts())
    facts = _of_change(told, change) if told.with_facts else ()
    return Description(f"{told.site} changed", one_line(change.summary, LONGEST_SUMMARY), facts)


def _of_change(told: _Told, change: EventChange) -> tuple[tuple[str, str], ...]:
    values = list(change.values.items())[:_MOST_VALUES]
    before = change.previous_poll_at
    selection = "" if change.selection == DEFAULT_SELECTION else one_line(change.selection, LONGEST_FACT)
    return told.facts(
        *((one_line(name, 64), one_line(value, LONGEST_FACT)) for name, value in values),
        ("because", one_line(change.why, LONGEST_FACT)),
        ("selection", selection),
        ("not before", "" if before is None else moment(before, told.zone)),
    )


def _first_seen(told: _Told) -> Description:
    return Description(f"{told.site} was read", told.said("summary") or "Read for the first time.", told.facts())


def _failing(told: _Told) -> Description:
    failures = told.data.get("failures")
    in_a_row = f"{counted(failures, 'poll')} in a row" if isinstance(failures, int) else ""
    facts = told.facts(("failed", in_a_row), ("last seen working", told.moment("since")))
    return Description(f"{told.site} fails", told.said("detail") or "It cannot be read.", facts)


def _recovered(told: _Told) -> Description:
    facts = told.facts(("failed since", told.moment("since")))
    return Description(f"{told.site} answers again", told.said("detail") or "It can be read again.", facts)


def _gone(told: _Told) -> Description:
    said = told.said("detail") or "The page says that it is gone for good (410)."
    return Description(f"{told.site} is gone", said, told.facts())


def _moved(told: _Told) -> Description:
    facts = told.facts(("new URL", told.said("new_url", 2_000)))
    return Description(f"{told.site} moved", told.said("detail") or "The page redirects permanently.", facts)


def _nothing_selected(told: _Told) -> Description:
    said = told.said("detail") or "What is selected of the page is not there."
    return Description(f"{told.site}: nothing selected", said, told.facts(("selection", told.said("selection"))))


def _blind(told: _Told) -> Description:
    facts = told.facts(("from", told.moment("from")), ("to", told.moment("to")))
    return Description("pollerd was blind", told.said("detail") or "Nothing could be polled for a while.", facts)


def _over_budget(told: _Told) -> Description:
    if told.data.get("over"):
        return Description("The budget is enough again", told.said("detail") or "All intervals hold.", told.facts())
    said = told.said("detail") or "It cannot hold the longest intervals that are set."
    return Description("The budget is too small", said, told.facts())


def _channel_down(told: _Told) -> Description:
    channel = told.said("channel", LONGEST_NAME)
    name = f"Channel {channel}" if channel else "A channel"
    if told.data.get("over"):
        return Description(f"{name} works again", told.said("detail") or "What waited is sent now.", told.facts())
    said = told.said("detail") or "Its receiver refuses our credentials. What is to be told waits."
    return Description(f"{name} is down", said, told.facts())


def _test(told: _Told) -> Description:
    return Description("Test of pollerd", "This channel works: you can read this.", told.facts())


_KINDS: Mapping[EventKind, Callable[[_Told], Description]] = {
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
