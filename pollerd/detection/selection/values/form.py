"""How a value is written, and what was read."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

Kind = Literal["price", "number", "date", "text"]
Which = Literal["only", "first", "last", "min", "max"]


class ValueFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How a value is written; made by `compile_value_format`, which checks it.

    `which`: the one that counts of several; `only` refuses two different ones. `locale`: of CLDR, as in "de-DE".
    `decimal`, `group`: separators, a character each, above those of the locale. `currency`: ISO 4217. `format`: of a
    date, a pattern of CLDR. `zone`: of times that name none, of the IANA database (UTC if None). `step`: above 0;
    numbers are rounded to its multiples, halves to even.
    """

    kind: Kind
    which: Which = "only"
    locale: str | None = None
    decimal: str | None = None
    group: str | None = None
    currency: str | None = None
    format: str | None = None
    zone: str | None = None
    step: Decimal | None = None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: a value, or a problem in one line.

    `number`: exact, at most 30 digits, of a price in the main unit (99 cents are 0.99). `text`: to show and to compare,
    equal for equal values: a plain decimal without trailing zeros, ISO 8601, or the text itself. `moment`: of a date,
    UTC epoch seconds. `currency`: ISO 4217, or the sign as written if several currencies have it.
    """

    number: Decimal | None = None
    text: str = ""
    moment: float | None = None
    currency: str | None = None
    problem: str = ""
