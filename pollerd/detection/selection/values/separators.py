"""What separators of a written number mean: by settings or locale, by the number itself, by the document's language."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from pollerd.detection.selection.values.characters import NARROW_SPACE, excerpt

MOST_DIGITS = 30
EITHER = ".,"
ALWAYS_DECIMAL = "٫·"
ALWAYS_GROUP = "٬" + NARROW_SPACE
GROUP_OR_NOTHING = "' "
SEPARATORS = EITHER + ALWAYS_DECIMAL + ALWAYS_GROUP + GROUP_OR_NOTHING
_SPLIT = re.compile(f"([{SEPARATORS}])")


class Separators(msgspec.Struct, frozen=True):
    """Characters that part the fraction, and those that group the whole digits; `indian`: also as 1,23,456."""

    decimals: str
    groups: str
    indian: bool = True


def amount(body: str, stated: Separators | None, hints: tuple[Separators, ...]) -> Decimal | str:
    """Returns what a written number is, or why it is none.

    `body`: digits with single separators between, perhaps one in front. `stated`: settings or locale; the number must
    be written so. Without, a number that can only mean one thing means that; of the others the first hint that fits
    decides.
    """
    pieces = _SPLIT.split(body)
    parts, marks = pieces[::2], pieces[1::2]
    if sum(map(len, parts)) > MOST_DIGITS:
        return f"{excerpt(body)} has more than {MOST_DIGITS} digits"
    if stated is not None:
        found = _by(parts, marks, stated)
        return f"{excerpt(body)} is not written as locale or separators say" if found is None else found
    if _is_ambiguous(parts, marks):
        fitting = (found for hint in hints if (found := _by(parts, marks, hint)) is not None)
        return next(fitting, _readings(parts, marks))
    found = _by(parts, marks, _evident(marks, parts))
    return f"{excerpt(body)} is no number: its digits are grouped oddly" if found is None else found


def _is_ambiguous(parts: list[str], marks: list[str]) -> bool:
    """One separator with exactly three digits behind it; or spaces, which also stand between two numbers."""
    if " " in marks:
        return True
    if len(marks) != 1 or marks[0] not in EITHER + "'":
        return False
    whole, rest = parts
    return len(rest) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0")


def _readings(parts: list[str], marks: list[str]) -> str:
    body = excerpt("".join(part + mark for part, mark in zip(parts, [*marks, ""], strict=True)))
    if " " in marks:
        return f"{body} can be one number or several; set locale, or group"
    if marks == ["'"]:
        return f"{body} can be {parts[0]}{parts[1]} or something else; set locale, or group"
    fraction = parts[1].rstrip("0")
    small = f"{parts[0]}.{fraction}" if fraction else parts[0]
    return f"{body} can be {small} or {parts[0]}{parts[1]}; set locale, or decimal"


def _evident(marks: list[str], parts: list[str]) -> Separators:
    """The separators that a number shows which can only mean one thing."""
    groups = EITHER + ALWAYS_GROUP + "'"
    if not marks:
        return Separators("", groups)
    last, others = marks[-1], set(marks[:-1])
    alone = len(marks) == 1 and last in EITHER
    is_decimal = alone or last in ALWAYS_DECIMAL or (last in EITHER and bool(others) and last not in others)
    return Separators(last if is_decimal else "", groups.replace(last, "") if is_decimal else groups)


def _by(parts: list[str], marks: list[str], separators: Separators) -> Decimal | None:
    """The number if it is written with these separators."""
    fraction = ""
    if marks and marks[-1] in separators.decimals:
        parts, fraction, marks = parts[:-1], parts[-1], marks[:-1]
    if marks and not (len(set(marks)) == 1 and marks[0] in separators.groups and _is_grouped(parts, separators.indian)):
        return None
    if not parts[0] and not fraction:
        return None
    return Decimal(f"{''.join(parts) or '0'}.{fraction}" if fraction else "".join(parts))


def _is_grouped(parts: list[str], indian: bool) -> bool:
    """Threes (1,234,567), or as in India twos before the last three (12,34,567)."""
    if not 1 <= len(parts[0]) <= 3 or len(parts[-1]) != 3:
        return False
    between = {len(part) for part in parts[1:-1]}
    return between <= {3} or (indian and between == {2} and len(parts[0]) <= 2)
