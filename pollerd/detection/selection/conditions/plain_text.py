"""Text of pages and numbers for one line that people read."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from decimal import ROUND_DOWN, Context, Decimal

MOST_CHARACTERS = 60
"""How much of a page's text is shown at one place."""
_LOOKED_AT = 600
_EXACT = Context(prec=1_000)
_MOST_FACTS = 3


def excerpt(text: str) -> str:
    """Returns a text on one line, at most 60 characters and without control and format characters."""
    plain = "".join(_plain(character) for character in text[:_LOOKED_AT])
    line = " ".join(plain.split())
    whole = len(line) <= MOST_CHARACTERS and len(text) <= _LOOKED_AT
    return line if whole else line[: MOST_CHARACTERS - 1] + "…"


def quoted(text: str) -> str:
    """Returns an excerpt in quotation marks."""
    return f'"{excerpt(text)}"'


def _plain(character: str) -> str:
    if character.isspace():
        return " "
    return "" if unicodedata.category(character)[0] == "C" else character


def plain_number(number: Decimal) -> str:
    """Returns a number without exponent and without zeros at its end, cut to 60 characters."""
    short = _EXACT.normalize(number)
    return excerpt(format(short if short else Decimal(0), "f"))


def plain_percent(part: Decimal, whole: Decimal) -> str:
    """Returns `part` as a percentage of `whole`, both positive, with two places at most; never rounded up."""
    percent = _EXACT.multiply(_EXACT.divide(part, whole), Decimal(100))
    if percent >= Decimal(10) ** 6:
        return "over 1000000 %"
    if percent < Decimal("0.01"):
        return "under 0.01 %"
    return f"{plain_number(percent.quantize(Decimal('0.01'), rounding=ROUND_DOWN, context=_EXACT))} %"


def joined(facts: Sequence[str]) -> str:
    """Returns facts as one line: the first three, and how many more there are."""
    shown = " and ".join(dict.fromkeys(facts[:_MOST_FACTS]))
    more = len(facts) - _MOST_FACTS
    return f"{shown} and {more} more" if more > 0 else shown
