"""Numbers as a page prints them: their digits, and their standard error if it is printed beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(
    r"(?P<value>-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|-?\.\d+)(?: ?± ?(?P<error>\d+(?:\.\d+)?|\.\d+))?"
)


@dataclass(frozen=True)
class PrintedNumber:
    """A number of a page: `value` and `error` (None if there is none) with their printed digits."""

    value: str
    error: str | None = None

    def __str__(self) -> str:
        return self.value if self.error is None else f"{self.value} ± {self.error}"


def numbers_in(text: str) -> list[PrintedNumber]:
    """Returns the numbers of a cell, from left to right."""
    return [PrintedNumber(found["value"], found["error"]) for found in _NUMBER.finditer(text)]


def decimals(digits: str) -> int:
    """Returns the number of digits after the point."""
    return len(digits.partition(".")[2])


def number(digits: str) -> float:
    """Returns the value; "3,640" is 3640."""
    return float(digits.replace(",", ""))


def half_a_digit(digits: str) -> float:
    """Returns half a unit of the last digit, plus a margin for float rounding."""
    return float(0.5 * 10.0 ** -decimals(digits) * (1 + 1e-6))


def in_digits_of(value: float, digits: str) -> str:
    """Formats a value with the digits of another number, ".297" if that has no zero before its point, either."""
    text = f"{value:,.{decimals(digits)}f}"
    return text.replace("0.", ".", 1) if digits.lstrip("-").startswith(".") and abs(value) < 1 else text
