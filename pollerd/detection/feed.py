"""Feeds as entries (RSS, Atom, RDF, JSON Feed), their time to live, and the evidence on new items.

RSS, Atom and RDF are parsed by feedparser, JSON Feed by the JSON parser. Read are the entries, the feed's own title and
description, and the time to live; ignored are build dates, generators, comment counts, the order of entries.
"""

from __future__ import annotations

import calendar
import io
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_entry
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import xxhash
from msgspec.structs import replace

from pollerd.detection import media
from pollerd.detection.html import is_entity_bomb, is_tag_bomb, visible_text
from pollerd.detection.last_modified import TOLERANCE_S, server_age
from pollerd.model import FIRST_READER, READER, Baseline, Evidence, FeedWindow, Media, Outcome

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_FEED = "jsonfeed.org/version/"
_DECLARATION = re.compile(rb"^\s*<\?xml[^>]*\?>")
_UTF8 = {"content-type": "application/xml; charset=utf-8"}
# Exceptions that feedparser and its SGML parser raise on hostile input, although documented to raise none.
_ESCAPES = (ValueError, AssertionError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)


def key_of(name: bytes) -> int:
    """Returns the 64-bit hash of an entry's id, as UTF-8."""
    return xxhash.xxh3_64_intdigest(name)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One entry of a feed."""

    id: str
    """Its identifier: the id, else the link, else the title, else the text."""
    title: str
    text: str
    """Its summary or content as visible text on one line."""
    dates: tuple[float, ...] = ()
    """Its publication and update dates, epoch seconds."""
    link: str = ""
    """The URL of its page, as written; empty if there is none."""
    full_text: str = ""
    """Its content, where `text` is only its summary, as visible text on one line."""
    more: tuple[str, ...] = ()
    """What else it shows: files, categories, and fields of shops with their names."""

    @property
    def key(self) -> int:
        """64-bit hash of `id`."""
        return key_of(self.id.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Feed:
    """What is read of a feed."""

    entries: tuple[FeedEntry, ...]
    """In order; those that share an identifier are told apart by what else they have."""
    about: tuple[str, str] = ("", "")
    """Its own title, empty if it has entries, and description."""


ABOUT = b""
"""In place of the identifier of an entry, in the line of the feed's own title and description."""


def content(entries: Sequence[FeedEntry], about: tuple[str, str] = ("", ""), reader: int = READER) -> bytes:
    """Returns one line per entry as UTF-8, sorted: id, title, newest date, text, and what else there is, in columns.

    Columns are separated by tabs. `about`: title and description of the feed, in a line without an id. Omits the dates
    if all entries share one: that is when the feed was built, not news.
    """
    newest = [max(entry.dates, default=None) for entry in entries]
    stamped = len(newest) > 1 and len(set(newest)) == 1
    lines = [
        f"{entry.id}\t{entry.title}\t{'' if stamped or date is None else _stamp(date)}\t{entry.text}"
        + ("" if reader == FIRST_READER else _besides(entry))
        for entry, date in zip(entries, newest, strict=True)
    ]
    if any(about) and reader != FIRST_READER:
        lines.append(f"\t{about[0]}\t\t{about[1]}")
    return "\n".join(sorted(lines)).encode("utf-8", "replace")


def _besides(entry: FeedEntry) -> str:
    """Returns further columns of an entry: what it does not show already."""
    full = () if entry.full_text in (entry.text, entry.title) else (entry.full_text,)
    link = () if entry.link in (entry.id, "") else (entry.link,)
    return "".join(f"\t{part}" for part in (*full, *link, *entry.more) if part)


def _stamp(date: float) -> str:
    try:
        return f"{_EPOCH + timedelta(seconds=round(date)):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return str(date)


def xml_entries(body: bytes) -> tuple[FeedEntry, ...] | None:
    """Returns the entries of `xml_feed`."""
    parsed = xml_feed(body)
    return None if parsed is None else parsed.entries


def xml_feed(body: bytes, reader: int = READER) -> Feed | None:
    """Returns an RSS, Atom or RDF feed, or None if it is not readable as one.

    `body` is UTF-8 without byte order mark. Nothing is fetched; a document whose own entities would expand to much more
    is rejected. Raises nothing.
    """
    if is_tag_bomb(body) or is_entity_bomb(body):
        return None
    import feedparser  # loaded with the first feed: a list without feeds saves 1 MB

    plain = b"<?xml version='1.0' encoding='utf-8'?>" + _DECLARATION.sub(b"", body, count=1)
    try:
        # A stream, never bytes: feedparser would first try those as a file name.
        parsed = feedparser.parse(
            io.BytesIO(plain), response_headers=_UTF8, resolve_relative_uris=False, sanitize_html=False
        )
        if not parsed.get("version") and not parsed["entries"]:
            return None
        if reader == FIRST_READER:
            return Feed(tuple(_xml_entry_at_first(entry) for entry in parsed["entries"]))
        shop = {prefix for prefix, uri in parsed.get("namespaces", {}).items() if _SHOP_NAMESPACE in uri}
        entries = _with_own_ids([_xml_entry(entry, shop) for entry in parsed["entries"]])
        about = parsed.get("feed", {})
        return Feed(entries, _about(entries, about.get("title"), about.get("subtitle")))
    except _ESCAPES:
        return None


def _about(entries: Sequence[FeedEntry], title: object, description: object) -> tuple[str, str]:
    """Returns what a feed says of itself; its title only where there is nothing else, since some have a date in it."""
    return ("" if entries else _line(str(title or ""))), _line(str(description or ""))


def _xml_entry_at_first(entry: Any) -> FeedEntry:
    """Returns an entry as the first reader did: a date that is none spoils the feed."""
    read_entry = _xml_entry(entry, ())
    dates = (dict.get(entry, "published_parsed"), dict.get(entry, "updated_parsed"))
    return replace_entry(
        read_entry, dates=tuple(float(calendar.timegm(date)) for date in dates if isinstance(date, tuple))
    )


def _xml_entry(entry: Any, shop: Collection[str]) -> FeedEntry:
    """shop: prefixes of the fields of shops in this feed."""
    # dict.get, because feedparser's own `get` substitutes one date for another and warns about it.
    title = _line(str(entry.get("title", "")))
    contents = [str(block.get("value", "")) for block in entry.get("content") or ()]
    text = _line(str(entry.get("summary") or (contents[0] if contents else "")))
    dates = (_date(dict.get(entry, name), dict.get(entry, f"{name}_parsed")) for name in ("published", "updated"))
    files = (_word(enclosure.get("href") or "") for enclosure in entry.get("enclosures") or ())
    categories = ", ".join(_word(tag.get("term") or tag.get("label") or "") for tag in entry.get("tags") or ())
    fields = (f"{name}: {_line(str(value))}" for name, value in entry.items() if _is_of_shop(name, value, shop))
    return FeedEntry(
        id=_word(entry.get("id") or entry.get("link") or title or text),
        title=title,
        text=text,
        dates=tuple(date for date in dates if date is not None),
        link=_word(entry.get("link") or ""),
        full_text=_line(" ".join(contents)),
        more=tuple(filter(None, (*files, categories, *sorted(fields)))),
    )


_SHOP_NAMESPACE = "base.google.com/ns/"
_SHOP_FIELDS = frozenset(
    [
        "price",
        "sale_price",
        "saleprice",
        "oldprice",
        "availability",
        "stock",
        "quantity",
        "condition",
        "currency",
        "shipping",
        "discount",
    ]
)


def _is_of_shop(name: str, value: object, shop: Collection[str]) -> bool:
    if not isinstance(value, str):
        return False
    prefix, _, field = name.partition("_")
    return name.lower() in _SHOP_FIELDS or (prefix in shop and field != "")


def _with_own_ids(entries: Sequence[FeedEntry]) -> tuple[FeedEntry, ...]:
    """Returns the entries with what else they have behind identifiers that several share.

    The last of them, in feeds the oldest, keeps the bare one: it may have been alone until now.
    """
    left = Counter(entry.id for entry in entries)
    if len(left) == len(entries):
        return tuple(entries)
    named = []
    for entry in entries:
        left[entry.id] -= 1
        besides = entry.link if entry.link not in (entry.id, "") else ""
        mark = " ".join(filter(None, (besides, entry.title))) or entry.text
        named.append(replace_entry(entry, id=f"{entry.id} {mark}") if left[entry.id] and mark else entry)
    return tuple(named)


_ISO_DATE = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[T ]+([0-9]{2}):?([0-9]{2})?.*)?", re.DOTALL)
_YEARS = range(1000, 3000)


def _date(text: object, parsed: object) -> float | None:
    """Returns a date as feedparser read it, epoch seconds; None where it is no date, or part of it is made up."""
    if not isinstance(parsed, tuple) or not isinstance(text, str) or parsed[0] not in _YEARS:
        return None
    text = text.strip()
    if text.startswith("-") or (text[:1].isdigit() and " " not in text[:3]):  # not "24 Nov 2026"
        match = _ISO_DATE.fullmatch(text)
        if match is None:
            return None
        year, month, day, hour, minute = (int(part or 0) for part in match.groups())
        try:
            datetime(year, month, day, tzinfo=UTC)
        except ValueError:
            return None
        if hour > _LAST_HOUR or minute > _LAST_MINUTE:
            return None
        if "T" in text and (exact := _iso(text)) is not None:
            return exact
    try:
        return float(calendar.timegm(parsed))
    except (ValueError, OverflowError):
        return None


_LAST_HOUR, _LAST_MINUTE = 24, 59


def json_entries(body: bytes) -> tuple[FeedEntry, ...] | None:
    """Returns the entries of `json_feed`."""
    parsed = json_feed(body)
    return None if parsed is None else parsed.entries


def json_feed(body: bytes, reader: int = READER) -> Feed | None:
    """Returns a JSON Feed, or None if the body is not one. `body` is UTF-8. Raises nothing."""
    if _JSON_FEED.encode() not in body and b"jsonfeed.org\\/version" not in body:
        return None
    document = media.parsed(body)
    if not isinstance(document, dict) or _JSON_FEED not in str(document.get("version")):
        return None
    items = document.get("items")
    if not isinstance(items, list):
        return None
    entries = [_json_entry(item) for item in items if isinstance(item, dict)]
    if reader == FIRST_READER:
        return Feed(tuple(entries))
    return Feed(_with_own_ids(entries), _about(entries, document.get("title"), document.get("description")))


def _json_entry(item: dict[str, Any]) -> FeedEntry:
    title = _line(str(item.get("title") or ""))
    content, summary = str(item.get("content_html") or item.get("content_text") or ""), str(item.get("summary") or "")
    text = _line(content or summary)
    dates = (_iso(item.get("date_published")), _iso(item.get("date_modified")))
    attachments, tags = item.get("attachments"), item.get("tags")
    files = (
        [attachment.get("url") for attachment in attachments if isinstance(attachment, dict)]
        if isinstance(attachments, list)
        else []
    )
    categories = ", ".join(map(_word, tags)) if isinstance(tags, list) else ""
    return FeedEntry(
        id=_word(item.get("id") or item.get("url") or title or text),
        title=title,
        text=text,
        dates=tuple(date for date in dates if date is not None),
        link=_word(item.get("url") or ""),
        full_text=_line(content),
        more=tuple(
            filter(None, (_line(summary) if content else "", *(_word(file or "") for file in files), categories))
        ),
    )


def _iso(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        date = datetime.fromisoformat(value)
        return date.timestamp() if date.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _line(text: str) -> str:
    if "<" in text or "&" in text:
        text = visible_text(text.encode("utf-8", "replace")).decode()
    return _word(text)


def _word(text: object) -> str:
    return " ".join(str(text).split())


# Time to live that a feed announces: RSS `ttl`, and `updatePeriod` of mod_syndication.

_HEAD_BYTES = 65_536
_ENTRY = re.compile(rb"<(?:[\w.-]+:)?(?:item|entry)[\s/>]")
_TTL = re.compile(rb"<ttl(?:\s[^>]*)?>\s*([0-9]{1,9})\s*</ttl\s*>")
_PERIOD = re.compile(rb"<[\w.-]+:updatePeriod(?:\s[^>]*)?>\s*([a-z]{1,7})\s*</", re.IGNORECASE)
_FREQUENCY = re.compile(rb"<[\w.-]+:updateFrequency(?:\s[^>]*)?>\s*([0-9]{1,6})\s*</")
_PERIODS = {b"hourly": 3_600.0, b"daily": 86_400.0, b"weekly": 604_800.0, b"monthly": 2_592_000.0, b"yearly": 3.1536e7}
_DAILY = b"daily"


def feed_ttl(text: bytes) -> float | None:
    """Returns the TTL, seconds above 0, of an RSS or RDF feed as UTF-8; None without one.

    `ttl` (minutes, RSS 2.0) takes precedence over `updatePeriod` divided by `updateFrequency` (mod_syndication: daily
    and 1 if one of them is missing). Only the part before the first entry counts.
    """
    head = text[:_HEAD_BYTES]
    first = _ENTRY.search(head)
    head = head if first is None else head[: first.start()]
    ttl = _TTL.search(head)
    if ttl is not None:
        return 60.0 * int(ttl[1]) or None
    period, frequency = _PERIOD.search(head), _FREQUENCY.search(head)
    if period is None and frequency is None:
        return None
    seconds = _PERIODS.get(_DAILY if period is None else period[1].lower())
    times = 1 if frequency is None else int(frequency[1])
    return seconds / times if seconds is not None and times else None


# Evidence from a feed's entries: the number of new ones, and the age of the newest.


REMEMBERED = 256
LARGEST_WINDOW = 1024


def remembered(items: bytes) -> list[int]:
    """Returns the entry keys of a baseline, oldest first. Ignores a damaged tail."""
    whole = len(items) // 8 * 8
    return [int(key) for key in np.frombuffer(items[:whole], dtype="<u8")]


def remember(items: bytes, entries: Sequence[FeedEntry]) -> bytes:
    """Returns the baseline's items after seeing `entries` (newest first, as feeds list them).

    Keeps every entry of the present window, up to 1,024, and earlier ones up to 256 in total.
    """
    window = list(dict.fromkeys(entry.key for entry in entries[:LARGEST_WINDOW]))[::-1]
    present = set(window)
    earlier = [key for key in remembered(items) if key not in present]
    room = max(REMEMBERED - len(window), 0)
    return np.array(earlier[len(earlier) - min(room, len(earlier)) :] + window, dtype="<u8").tobytes()


def unseen(items: bytes, entries: Sequence[FeedEntry]) -> list[FeedEntry]:
    """Returns the entries that are not in the baseline's items, each key once."""
    if not entries:
        return []
    known = set(remembered(items))
    fresh: dict[int, FeedEntry] = {}
    for entry in entries[:LARGEST_WINDOW]:
        if entry.key not in known:
            fresh.setdefault(entry.key, entry)
    return list(fresh.values())


def count(fresh: Sequence[FeedEntry], entries: Sequence[FeedEntry]) -> int | None:
    """Returns the number of new entries, if known.

    None if no entry is new (an edited or withdrawn entry is a change without a number) or all are: the feed's window
    has rolled over, so the number would be only a lower bound.
    """
    known = len({entry.key for entry in entries[:LARGEST_WINDOW]}) - len(fresh)
    return len(fresh) if fresh and known else None


def age(entries: Sequence[FeedEntry], outcome: Outcome, elapsed: float) -> float | None:
    """Returns the seconds since the newest plausible date in `entries`: before the response, not before the last poll.

    Dates within 2 s of the response are ignored: they mark a feed that stamps its entries on request. None if no date
    remains.
    """
    ages = [server_age(outcome, date) for entry in entries for date in entry.dates]
    within = [age for age in ages if TOLERANCE_S < age <= elapsed]
    return min(within, default=None)


def left_at_end(before: bytes, after: bytes, old: set[int], new: set[int]) -> set[int]:
    """Returns the entries of `old` that are missing from `new` because newer ones displaced them or they expired.

    before, after: the items of both baselines, which give the order; if they are empty it is unknown, and the result is
    empty. old, new: keys of both windows. A feed shows a limited number of entries, and each new one displaces one at
    the other end, which is no edit. An entry that is missing while an older one stays was removed. Feeds that list the
    oldest first are recognised by the position of new entries. If all entries are new, all old ones were displaced.
    """
    place = {key: n for n, key in enumerate(remembered(before))}
    place_now = {key: n for n, key in enumerate(remembered(after))}
    missing, fresh, kept = old - new, new - old, old & new
    if not place or not kept:
        return missing if place and fresh else set()
    first_kept = min(place_now.get(key, 0) for key in kept)
    if fresh and all(place_now.get(key, first_kept) < first_kept for key in fresh):
        newest = max(place.get(key, 0) for key in kept)
        return {key for key in missing if place.get(key, 0) > newest}
    oldest = min(place.get(key, 0) for key in kept)
    return {key for key in missing if place.get(key, oldest) < oldest}


# The window of a feed: how many items it shows, how many of them are new, since when, and whether it drops older ones.

_FEWEST_DATED = 4
"""Items that a first poll has to date: with fewer their dates say little."""


def feed_window(before: Baseline, entries: Sequence[FeedEntry], fresh: int, outcome: Outcome) -> FeedWindow | None:
    """Returns what a feed with these entries shows, of which `fresh` are not in the baseline; None: it shows none.

    Its items are those of its newest 1,024. A feed is limited unless it was seen to take new items in without dropping
    one; at its first poll as a feed it is believed to be, as nearly all feeds are.
    """
    keys = {entry.key for entry in entries[:LARGEST_WINDOW]}
    if not keys:
        return None
    first = before.fingerprint is None or before.media is not Media.FEED
    full = not first and fresh == len(keys)
    known = before.window
    if first or any(key not in keys for key in remembered(before.items)):
        limited = True
    else:
        limited = not fresh and (known is None or known.limited)
    dates = [min(entry.dates) for entry in entries[:LARGEST_WINDOW] if entry.dates]
    return FeedWindow(
        items=len(keys),
        new=None if first else fresh,
        limited=limited,
        oldest_at=min(dates, default=None),
        newest_at=max(dates, default=None),
        read_at=outcome.started_at,
        full_polls=(0 if known is None else known.full_polls) + int(full),
    )


KEPT_SECONDS, KEPT_POLLS = 14 * 86_400.0, 50
"""For how long the items of a feed are kept that answers with something else: the longer of the two."""


def kept_over_other_medium(before: Baseline, outcome: Outcome) -> tuple[bytes, FeedWindow | None]:
    """Returns items and window of a feed after an answer that is none, so that its entries are not new when it is back.

    Nothing for what was no feed, or is none any more.
    """
    window = before.window
    if window is None or not before.items:
        return b"", None
    away = window.away + 1
    if away > KEPT_POLLS and outcome.started_at - window.read_at > KEPT_SECONDS:
        return b"", None
    return before.items, replace(window, new=0, away=away)


def nothing_new(window: FeedWindow | None) -> FeedWindow | None:
    """Returns the window after a poll at which the feed was as before."""
    return window if window is None or not window.new else replace(window, new=0)


def with_items(
    evidence: Evidence, fresh: Sequence[FeedEntry], window: FeedWindow, outcome: Outcome, elapsed: float
) -> Evidence:
    """Returns the evidence of a poll after `elapsed` s with the number of new items, and the time in which they came.

    The time is needed only if all are new, and known only if all are dated within the gap, one by one: dates of a burst
    tell of the burst, not of the feed.
    """
    if not fresh:
        return evidence
    span = None
    if window.full:
        ages = _ages(fresh, outcome)
        if len(set(ages)) == len(fresh) and min(ages) > TOLERANCE_S and max(ages) <= elapsed:
            span = max(ages)
    return replace(evidence, at_least=len(fresh), span=span)


def of_first_poll(entries: Sequence[FeedEntry], outcome: Outcome) -> Evidence | None:
    """Returns the evidence of a first poll: within how long the newer half of the items came; None: it has none.

    The half, because some feeds keep old items at hand. None if dates are missing, not in the past, or the same.
    """
    ages = sorted(_ages(entries[:LARGEST_WINDOW], outcome))
    half = (len(ages) + 1) // 2
    if len(ages) < max(_FEWEST_DATED, len(entries[:LARGEST_WINDOW])) or ages[0] <= TOLERANCE_S:
        return None
    if len(set(ages[:half])) < half:
        return None
    return Evidence(changed=False, at_least=half, span=ages[half - 1])


def _ages(entries: Sequence[FeedEntry], outcome: Outcome) -> list[float]:
    """Returns the seconds from the first date of each dated entry to the response."""
    return [server_age(outcome, min(entry.dates)) for entry in entries if entry.dates]
