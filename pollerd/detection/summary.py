"""Summaries of changes in one line for users: old → new, + what was added, − what was removed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import AnyStr, Literal

from pollerd.detection.edits import unmatched
from pollerd.detection.feed import ABOUT, key_of, left_at_end, remembered
from pollerd.detection.media import parsed
from pollerd.detection.noise.learning import without_noise
from pollerd.detection.noise.templates import MARK, MARK_END
from pollerd.model import Media
from pollerd.texts import _, n_


def common_affix_length(a: AnyStr, b: AnyStr, end: Literal[1, -1]) -> int:
    """Returns the length of the common prefix (1) or suffix (-1), by halving: each step compares half of the last."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle] if end == 1 else a[-middle : len(a) - low] == b[-middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low


LONGEST = 200
COMPARED_MOST_BYTES = 1_000_000
"""Size of a content above which its lines or keys are not compared."""
_EXCERPT = 60
_NAMED = 3
_COUNTED = 100
"""Keys that differ are counted up to here."""
_DEEPEST = 8
_OPEN, _CLOSE = "‹".encode(), "›".encode()


def summarise(
    before: bytes | None, after: bytes, media: Media, mask: bytes = b"", order: tuple[bytes, bytes] = (b"", b"")
) -> str:
    """Returns what changed between two contents as kept by `detect`, in one line of at most 200 characters.

    `before` None: the earlier content is unavailable. `media` is that of `after`. Changes that `mask` hides do not
    count. Of contents that are `is_large` only the sizes are given. order: the items of the baselines before and after,
    which distinguish displaced feed entries from removed ones. Raises InvalidValueError for an invalid mask.
    """
    if before is not None and is_large(before, after, media):
        return _("large: {before:,} → {after:,} bytes", before=len(before), after=len(after))
    if mask and before is not None:
        before, after = (noise_named(without_noise(content, mask)) for content in (before, after))
    if before is None:
        line = _("now {count:,} bytes", count=len(after))
    elif media is Media.BINARY:
        line = f"{len(before):,} → {len(after):,} bytes"
    elif media is Media.FEED:
        line = _entries(before, after, order)
    elif media is Media.JSON:
        line = _keys(before, after) or _lines(before, after)
    else:
        line = _lines(before, after)
    return _shortened(_printable(line), LONGEST)


def is_large(before: bytes | None, after: bytes, media: Media) -> bool:
    """Returns whether the contents are too large to be compared; a feed's entries are compared at any size."""
    return media is not Media.FEED and max(len(before or b""), len(after)) > COMPARED_MOST_BYTES


def noise_named(content: bytes) -> bytes:
    """Returns a content without noise, as `without_noise` makes it, with the names of noise in quotation marks."""
    return content.replace(MARK, _OPEN).replace(MARK_END, _CLOSE)


def _lines(before: bytes, after: bytes) -> str:
    old, new = (part.splitlines() for part in differing_part(before, after))
    added, removed = ([*filter(None, map(_text_of, lines))] for lines in _only(old, new))
    if not added and not removed:
        return _("no line changed") if before == after else _("only blank lines, or the order of lines, changed")
    if len(added) == len(removed):
        pairs = [*zip(removed, added, strict=True)]
        # What a thing costs is what most people look for.
        old_line, new_line = next((pair for pair in pairs if all(map(_PRICE.search, pair))), pairs[0])
        return replaced(old_line, new_line) + _more(len(pairs) - 1)
    parts = ((sign, lines) for sign, lines in (("+", added), ("−", removed)) if lines)
    return ", ".join(f"{sign} {_shortened(lines[0], _EXCERPT)}{_more(len(lines) - 1)}" for sign, lines in parts)


def _only(old: list[bytes], new: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Returns the lines of the new part that the old one does not have, and those of the old one."""
    return [new[n] for n in unmatched(new, old)], [old[n] for n in unmatched(old, new)]


def _text_of(line: bytes) -> str:
    return " ".join(line.decode("utf-8", "replace").split())


def _more(count: int, *, at_least: bool = False) -> str:
    if count < 1:
        return ""
    return " " + (_("(at least {count:,} more)", count=count) if at_least else _("({count:,} more)", count=count))


# A line that was replaced: what stayed in front of it names it, and only what differs is shown.

_CURRENCY = r"(?:[$€£¥₣₤₩₪₫₱₴₹₺₽₿]|\b(?:EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK|HUF|AUD|CAD|Fr\.|kr)(?!\w))"
_AMOUNT = r"([0-9](?:[0-9.,'’\s]*[0-9])?)"
_PRICE = re.compile(rf"{_CURRENCY}\s?{_AMOUNT}|{_AMOUNT}\s?{_CURRENCY}")
_WORD = re.compile(r"[0-9]{1,3}(?:\s[0-9]{3})+(?![0-9])\S*|\S+")
_UNIT = re.compile(rf"\W{{1,3}}|{_CURRENCY}")
_LABEL = 40
_MOST_PERCENT = 900


def replaced(old: str, new: str) -> str:
    """Returns how a line became another, as in "Price: € 1,199 → € 999, −17 %"; lines without white space at the ends.

    Words that both have at the start name the line, else those at its end; the percentage is that of prices.
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    if before == after:
        return new
    head -= sum(1 for _word in takewhile(_UNIT.fullmatch, before[:head][::-1]))
    tail -= sum(1 for _word in takewhile(_UNIT.fullmatch, before[len(before) - tail :]))
    gone, come = (" ".join(words[head : len(words) - tail]) for words in (before, after))
    label = " ".join(before[:head])
    label = label if len(label) <= _LABEL else "…" + label[-_LABEL:].partition(" ")[2]
    unit = "" if label or not tail else _shortened(" ".join(after[-tail:]), _LABEL)
    if gone and come:
        words = f"{_cut(gone, come)} → {_cut(come, gone)} {unit}".rstrip() + _by_percent(gone, come)
    else:
        words = f"+ {_shortened(come, _EXCERPT)}" if come else f"− {_shortened(gone, _EXCERPT)}"
    return f"{label} {words}".strip()


def _common(before: list[str], after: list[str]) -> int:
    return sum(1 for _pair in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def _cut(text: str, other: str) -> str:
    """Returns a text from near where it begins to differ from the other, if it is long."""
    if len(text) <= _EXCERPT:
        return text
    start = max(common_affix_length(text, other, 1) - _EXCERPT // 4, 0)
    return _shortened(f"…{text[start:]}" if start else text, _EXCERPT)


def _by_percent(old: str, new: str) -> str:
    """Returns by how much a price moved; empty for what is none."""
    before, after = (_amount(text) for text in (old, new))
    if not before or after is None:
        return ""
    percent = round(100.0 * (after / before - 1.0))
    return f", {percent:+d} %".replace("-", "−") if percent and abs(percent) <= _MOST_PERCENT else ""


def _amount(text: str) -> float | None:
    """Returns the one price in a text; None: there is none, or there are several."""
    prices = _PRICE.findall(text)
    if len(prices) != 1:
        return None
    digits = re.sub(r"[\s'’]", "", "".join(prices[0]))
    whole, mark, cents = digits.rpartition(max(".", ",", key=digits.rfind))
    if mark and len(cents) != _THOUSANDS and mark not in whole:
        return float(f"{re.sub('[.,]', '', whole)}.{cents}")
    return float(re.sub("[.,]", "", digits))


_THOUSANDS = 3
"""Digits between two separators of thousands."""


def differing_part(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Returns both contents without their common first and last lines, which are most of a page."""
    head = before.rfind(b"\n", 0, common_affix_length(before, after, 1)) + 1
    old, new = before[head:], after[head:]
    tail = common_affix_length(old, new, -1)
    start = old.find(b"\n", len(old) - tail) if tail else -1
    kept = len(old) - start - 1 if start >= 0 else 0
    return old[: len(old) - kept], new[: len(new) - kept]


def _entries(before: bytes, after: bytes, order: tuple[bytes, bytes]) -> str:
    old, new = _by_id(before), _by_id(after)
    about, about_now = old.pop(ABOUT, None), new.pop(ABOUT, None)
    known = set(remembered(order[0]))
    fresh = [title for key, (title, _line) in new.items() if key not in old and key_of(key) not in known]
    back = [title for key, (title, _line) in new.items() if key not in old and key_of(key) in known]
    edited = [title for key, (title, line) in new.items() if key in old and old[key][1] != line]
    missing = [key for key in old if key not in new]
    left = left_at_end(*order, set(map(key_of, old)), set(map(key_of, new)))
    gone = sum(key_of(key) not in left for key in missing)
    parts = []
    if fresh:
        parts.append(f"+ {_titles(fresh)}")
    if edited:
        parts.append(f"edited: {_titles(edited)}")
    if back:
        parts.append(f"back: {_titles(back)}")
    if about_now is not None and about is not None and about != about_now:
        parts.append(_("text of the feed: {about_now}", about_now=about_now[0]))
    if gone:
        parts.append(f"{gone:,} gone")
    if missing and not parts:
        parts.append(n_("{count} old entry left at the end", "{count} old entries left at the end", len(missing)))
    return ", ".join(parts) or _("entries repeated")


def _by_id(content: bytes) -> dict[bytes, tuple[str, bytes]]:
    by_id = {}
    for line in content.split(b"\n"):
        if line:
            key, _tab, rest = line.partition(b"\t")
            title, _tab, dated = rest.partition(b"\t")
            by_id[key] = (_excerpt(title or dated.partition(b"\t")[2] or key), line)
    return by_id


def _titles(titles: list[str]) -> str:
    return "; ".join(titles[:_NAMED]) + _more(len(titles) - _NAMED)


_MISSING = object()


def _keys(before: bytes, after: bytes) -> str:
    differing = _differing(parsed(before), parsed(after), "", 0)
    try:
        changed = list(islice(differing, _COUNTED + 1))
    except RecursionError:  # comparing values nested a thousand deep
        return ""
    if not changed or not all(path for path, _before, _after in changed):
        return ""
    more = max(len(changed) - _NAMED, 0)
    words = "; ".join(_of_key(*change) for change in changed[:_NAMED])
    return words + _more(min(more, _COUNTED - _NAMED), at_least=len(changed) > _COUNTED)


def _of_key(path: str, old: object, new: object) -> str:
    if old is _MISSING:
        return f"+ {path}: {_value(new)}"
    return f"− {path}" if new is _MISSING else f"{path}: {_value(old)} → {_value(new)}"


def _value(value: object) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return _shortened(" ".join(text[: 2 * _EXCERPT].split()), _EXCERPT // 2)


def _differing(old: object, new: object, path: str, depth: int) -> Iterator[tuple[str, object, object]]:
    """Yields where two values differ: the path, the old value and the new one."""
    if isinstance(old, dict) and isinstance(new, dict) and depth < _DEEPEST:
        for key in sorted(old.keys() | new.keys()):
            pair = old.get(key, _MISSING), new.get(key, _MISSING)
            yield from _differing(*pair, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and depth < _DEEPEST:
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from _differing(*pair, f"{path}[{index}]", depth + 1)
    elif old != new:
        yield path, old, new


def _printable(text: str) -> str:
    # Line breaks of all scripts, NUL (which databases refuse) and surrogates become spaces.
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.split())


def _excerpt(line: bytes) -> str:
    return _shortened(" ".join(line.decode("utf-8", "replace").split()), _EXCERPT)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
