"""Summaries of changes in one line for users. Lines and keys are counted, not aligned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import AnyStr, Literal

from pollerd.detection.edits import unmatched
from pollerd.detection.feed import ABOUT, key_of, left_at_end, remembered
from pollerd.detection.media import parsed
from pollerd.detection.noise.learning import without_noise
from pollerd.detection.noise.templates import MARK, MARK_END
from pollerd.model import Media
from pollerd.quantities import counted


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
_NAMED = 5
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
        return f"large: {len(before):,} -> {len(after):,} bytes"
    if mask and before is not None:
        before, after = (noise_named(without_noise(content, mask)) for content in (before, after))
    if before is None:
        line = f"now {len(after):,} bytes"
    elif media is Media.BINARY:
        line = f"{len(before):,} -> {len(after):,} bytes"
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
    added, removed = [new[n] for n in unmatched(new, old)], [old[n] for n in unmatched(old, new)]
    parts = [f"{counted(len(added), 'line')} added"] if added else []
    if removed:
        parts.append(f"{len(removed):,} removed" if added else f"{counted(len(removed), 'line')} removed")
    if not parts:
        return "lines reordered" if before != after else "no line changed"
    example = next((line for line in (added or removed) if line.strip()), b"")
    return f"{', '.join(parts)}: «{_excerpt(example)}»" if example else ", ".join(parts)


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
    fresh = [title for key, (title, _) in new.items() if key not in old and key_of(key) not in known]
    back = [title for key, (title, _) in new.items() if key not in old and key_of(key) in known]
    edited = [title for key, (title, line) in new.items() if key in old and old[key][1] != line]
    missing = [key for key in old if key not in new]
    left = left_at_end(*order, set(map(key_of, old)), set(map(key_of, new)))
    gone = sum(key_of(key) not in left for key in missing)
    parts = []
    if fresh:
        parts.append(f"{counted(len(fresh), 'new entry', 'new entries')}: {_titles(fresh)}")
    if edited:
        parts.append(f"{len(edited):,} edited: {_titles(edited)}")
    if back:
        parts.append(f"{len(back):,} back: {_titles(back)}")
    if about_now is not None and about is not None and about != about_now:
        parts.append(f"text of the feed: {about_now[0]}")
    if gone:
        parts.append(f"{gone:,} gone")
    if missing and not parts:
        parts.append(f"{counted(len(missing), 'old entry', 'old entries')} left at the end")
    return ", ".join(parts) or "entries repeated"


def _by_id(content: bytes) -> dict[bytes, tuple[str, bytes]]:
    by_id = {}
    for line in content.split(b"\n"):
        if line:
            key, _, rest = line.partition(b"\t")
            title, _, dated = rest.partition(b"\t")
            by_id[key] = (_excerpt(title or dated.partition(b"\t")[2] or key), line)
    return by_id


def _titles(titles: list[str]) -> str:
    return "; ".join(titles[:3]) + ("; …" if len(titles) > 3 else "")


def _keys(before: bytes, after: bytes) -> str:
    paths = _differing(parsed(before), parsed(after), "", 0)
    try:
        named = list(islice(paths, _NAMED + 1))
    except RecursionError:  # comparing values nested a thousand deep
        return ""
    if not named or not all(named):
        return ""
    return "keys changed: " + ", ".join(named[:_NAMED]) + (", …" if len(named) > _NAMED else "")


def _differing(old: object, new: object, path: str, depth: int) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict) and depth < _DEEPEST:
        for key in sorted(old.keys() | new.keys()):
            yield from _differing(old.get(key), new.get(key), f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and depth < _DEEPEST:
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from _differing(*pair, f"{path}[{index}]", depth + 1)
    elif old != new:
        yield path


def _printable(text: str) -> str:
    # Line breaks of all scripts, NUL (which databases refuse) and surrogates become spaces.
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.split())


def _excerpt(line: bytes) -> str:
    return _shortened(" ".join(line.decode("utf-8", "replace").split()), _EXCERPT)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
