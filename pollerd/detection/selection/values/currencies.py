"""Currencies beside a number: codes and signs."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.characters import is_cased
from pollerd.detection.selection.values.currency_signs import CODES, CODES_LIKE_WORDS, MINOR_SIGNS, SIGNS

_REACH = 16
_PENCE = "p"


class CurrencySign(msgspec.Struct, frozen=True):
    """A sign or code where it stands in a text.

    `codes`: what it can mean, empty for any; `minor`: of a hundredth; `gap`: spaces between it and the number.
    """

    sign: str
    codes: frozenset[str]
    minor: bool
    start: int
    end: int
    gap: int


class CurrencyFinder:
    """Finds the currency beside a number."""

    def __init__(self, locale: str | None, currency: str | None) -> None:
        self._own = {} if locale is None else cldr.own_currency_signs(locale)
        codes = {code: frozenset({code}) for code in CODES if code not in CODES_LIKE_WORDS or code == currency}
        signs = {sign: frozenset(meant.split()) for sign, meant in SIGNS.items()}
        own = {sign: frozenset({code}) | signs.get(sign, frozenset()) for sign, code in self._own.items()}
        self._whole = {**codes, **signs, **own}
        self._minor = {sign: frozenset(meant.split()) for sign, meant in MINOR_SIGNS.items()}
        self._before = re.compile(f"(?:{_alternatives(self._whole)})(?P<gap>[ \u202f]?)$")
        self._after = re.compile(f"(?P<gap>[ \u202f]?)(?:{_alternatives({**self._whole, **self._minor})})")

    def before(self, text: str, end: int) -> CurrencySign | None:
        """Returns the currency that ends before position `end`, a space between at most."""
        start = max(0, end - _REACH)
        match = self._before.search(text[start:end])
        if match is None:
            return None
        begin = start + match.start()
        sign = match[0][: len(match[0]) - len(match["gap"])]
        if begin and is_cased(sign[0]) and is_cased(text[begin - 1]):
            return None
        return CurrencySign(sign, self._whole[sign], False, begin, begin + len(sign), len(match["gap"]))

    def after(self, text: str, start: int) -> CurrencySign | None:
        """Returns the currency that begins at position `start`, a space between at most."""
        match = self._after.match(text[start : start + _REACH])
        if match is None:
            return None
        gap = len(match["gap"])
        sign, end = match[0][gap:], start + match.end()
        if is_cased(sign[-1]) and is_cased(text[end : end + 1] or " "):
            return None
        if sign == _PENCE and gap:
            return None
        minor = sign in self._minor and sign not in self._whole
        codes = self._minor[sign] if minor else self._whole[sign]
        return CurrencySign(sign, codes, minor, start + gap, end, gap)

    def is_sign(self, text: str) -> bool:
        """Returns whether the text is a currency and nothing else."""
        return text in self._whole

    def name(self, sign: str, codes: frozenset[str]) -> str:
        """Returns the code of a sign that can mean `codes`; the sign itself if it can mean several."""
        if len(codes) == 1:
            return next(iter(codes))
        return self._own.get(sign, sign)


@lru_cache(maxsize=64)
def finder_for(locale: str | None, currency: str | None) -> CurrencyFinder:
    """Returns the finder of a format's locale and currency."""
    return CurrencyFinder(locale, currency)


def _alternatives(signs: dict[str, frozenset[str]]) -> str:
    return "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))
