"""Splits a line into tokens: moments, relative times, numbers, codes, words, and single signs between them.

The grammar is loose on purpose: the kind of a token matters only where it differs between two fetches, and a span that
looks like a date there is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST_LINE = 16 * 1024
"""Maximum length in bytes of a line that is split."""


class TokenKind(StrEnum):
    """What a token looks like."""

    MOMENT = "moment"
    AGO = "ago"
    NUMBER = "number"
    CODE = "code"
    WORD = "word"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """Some bytes of a line; the concatenated tokens are the line."""

    kind: TokenKind
    text: bytes


_MONTHS = """
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    januar februar märz mai juni juli oktober dezember mär okt dez
    janvier février mars avril juin juillet août septembre octobre novembre décembre janv févr avr juil déc
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre ene abr ago dic
    gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre gen mag giu lug set ott
    janeiro fevereiro março maio junho julho setembro outubro novembro dezembro fev out
    januari februari maart mei augustus mrt
"""
_WEEKDAYS = """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun
    montag dienstag mittwoch donnerstag freitag samstag sonntag
    lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo
    lunedì martedì mercoledì giovedì venerdì sabato domenica
"""


def _any_of(names: str) -> bytes:
    return b"(?:" + "|".join(sorted(names.split(), key=len, reverse=True)).encode() + rb")(?![a-z\x80-\xff])\.?"


_MONTH = _any_of(_MONTHS)
_WEEKDAY = _any_of(_WEEKDAYS) + rb",?\ "
_ZONE = rb"(?:\ ?(?:z|utc|gmt|[a-z]{2,4}t)(?![a-z]))?(?:\ ?[+-]\d\d:?\d\d(?!\d))?"
_TIME = rb"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[ap]\.?m(?![a-z])\.?)?" + _ZONE
_DAY = rb"\d{1,2}(?:st|nd|rd|th|\.)?"
_DATE = (
    rb"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rb"|\d{4}\xe5\xb9\xb4\d{1,2}\xe6\x9c\x88\d{1,2}\xe6\x97\xa5"
    rb"|(?:" + _WEEKDAY + rb")?(?:" + _DAY + rb"[\ -](?:de\ )?" + _MONTH + rb"(?:,?[\ -](?:de\ )?\d{4})?"
    rb"|" + _MONTH + rb"\ " + _DAY + rb"(?:,?\ \d{4})?))"
)
_MOMENT = (
    rb"(?:" + _DATE + rb"(?:(?:t|,?\ (?:at\ |um\ |\xc3\xa0\ |-\ |\|\ )?)?" + _TIME + rb"(?:\ \d{4})?)?"
    rb"|" + _TIME + rb"(?:,?\ (?:on\ )?" + _DATE + rb")?)"
)
_UNIT = rb"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|mo|months?|y|yrs?|years?)"
_AGO = (
    rb"(?:(?:about\ |over\ |almost\ |less\ than\ )?(?:\d{1,4}|an?|one|a\ few|few)\ ?" + _UNIT + rb"\ ago"
    rb"|just\ now|moments\ ago|yesterday|today|(?:vor|hace|il\ y\ a)\ \d{1,4}\ [a-z\x80-\xff]{1,10})"
)
# A long run of capitals, small letters and digits is one code, including the signs of base64. The lookaheads are
# bounded, so that the time is linear in the line.
_LONG = (
    rb"(?=[a-zA-Z+/_-]{0,40}[0-9])(?=[a-z0-9+/_-]{0,40}[A-Z])(?=[A-Z0-9+/_-]{0,40}[a-z])"
    rb"[A-Za-z0-9+/_-]{16,4096}+={0,2}"
)
_UUID = rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TOKEN = re.compile(
    rb"(?P<moment>(?i:" + _MOMENT + rb")(?![0-9A-Za-z]))|(?P<ago>(?i:" + _AGO + rb")(?![0-9A-Za-z]))"
    rb"|(?P<code>" + _UUID + rb"|" + _LONG + rb")"
    rb"|(?P<number>\d++(?![A-Za-z_])(?:[.,]\d++(?![A-Za-z_]))*+)"
    rb"|(?P<word>[A-Za-z]++(?![0-9_])|[\x80-\xff]++)|(?P<run>[0-9A-Za-z_]++)|(?P<sign>[\x00-\x7f])"
)
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]++")
_DIGITS = re.compile(rb"\d++")


def tokens(line: bytes) -> list[Token]:
    """Splits `line`, any bytes, into tokens; concatenated they are the line. Linear; for up to `LONGEST_LINE`."""
    return [Token(_kind(match), match[0]) for match in _TOKEN.finditer(line)]


def shape(moment: bytes) -> bytes:
    """Returns a moment with every number as 0 and every word as a: `Sat, 21 Nov 2026 9:31` is `a, 0 a 0 0:0`."""
    return _DIGITS.sub(b"0", _LETTERS.sub(b"a", moment))


def _kind(match: re.Match[bytes]) -> TokenKind:
    kind = match.lastgroup or "sign"
    return TokenKind.CODE if kind == "run" else TokenKind(kind)
