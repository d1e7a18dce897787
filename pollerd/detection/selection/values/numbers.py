"""Numbers and prices, read from texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal

import msgspec

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.cldr import (
    EITHER,
    MAX_DIGITS,
    SEPARATORS,
    Separators,
    amount,
    excerpt,
    is_cased,
)
from pollerd.detection.selection.values.currencies import CurrencyFinder, CurrencySign, finder_for
from pollerd.detection.selection.values.form import Reading, ValueFormat
from pollerd.model import FIRST_READER, READER
from pollerd.texts import _

# The numbers in a text, with sign, currency and their doubtful traits. Linear in the text.

_DECIMAL_MARKS = ".,·٫"
_NUMBER = re.compile(
    "[0-9]{1,3}(?: [0-9]{3}(?![0-9]))+(?:[.,·٫][0-9]+)?"  # with spaces: one number or several
    "|[0-9]+(?:[.,'٫٬·\u202f][0-9]+)*"
)
_WHOLE_AMOUNT = re.compile("[.,][-—]{1,2}(?![0-9A-Za-z])")  # 12,-
_DATE = re.compile(r"(?<![0-9])[0-9]{1,4}([/-])[0-9]{1,4}\1[0-9]{1,4}(?![0-9])")
_EXPONENT = re.compile("[eE][+-]?[0-9]")
_NAME = re.compile(r"[^\W\d]{1,20}[0-9]|_")
_PERCENT = re.compile("[ \u202f]?[%٪‰]")
_MULTIPLIER = re.compile(
    "(?:[kKMBT]|[ \u202f]?(?:[kK]|tsd|tausend|thousand|mille?|mio|mln|mn|million(?:en|s|es)?|millones|mrd|bn|bln"
    "|billion(?:en|s)?|milliarden?|milliards?|crores?|cr|lakhs?|lacs?|тыс|млн|млрд))(?![^\\W\\d_])"
    "|[ \u202f]?[千万萬億亿兆만억]",
    re.IGNORECASE,
)
_LOWER_CASE_UNITS = frozenset("mbt")  # metres, bits, tons: "M", "B" and "T" multiply


class NumberFound(msgspec.Struct, kw_only=True):
    """A number in a text: digits with their separators, perhaps one in front (`body`), and what stands beside it.

    `whole_mark`: the separator of "12,-". `trouble`: why it cannot be read, empty if nothing speaks against it.
    """

    body: str
    start: int
    end: int
    negative: bool = False
    percent: bool = False
    whole_mark: str = ""
    alone_in_parentheses: bool = False
    trouble: str = ""
    before: CurrencySign | None = None
    after: CurrencySign | None = None


def numbers_in(text: str, finder: CurrencyFinder) -> Iterator[NumberFound]:
    """Yields the numbers of a plain text in order; digits of names (A4, 2x4) are none."""
    in_dates = {place for match in _DATE.finditer(text) for place in range(*match.span())}
    previous_end, last = -1, None
    for match in _NUMBER.finditer(text):
        number = _number(text, match, previous_end, finder)
        previous_end = match.end()
        if number is None:
            continue
        previous_end = number.end if number.after is None else number.after.end
        if match.start() in in_dates and not number.trouble:
            number.trouble = _("{excerpt} looks like a date", excerpt=excerpt(text[match.start() : match.start() + 10]))
        if last is not None:
            _part(last, number)
            yield last
        last = number
    if last is not None:
        last.alone_in_parentheses = _is_alone_in_parentheses(text, last, finder)
        yield last


def _number(text: str, match: re.Match[str], previous_end: int, finder: CurrencyFinder) -> NumberFound | None:
    start, end = match.span()
    leading = _has_leading_mark(text, start)
    start -= leading
    whole = _WHOLE_AMOUNT.match(text, end)
    number = NumberFound(body=text[start:end], start=start, end=end if whole is None else whole.end())
    number.whole_mark = "" if whole is None else whole[0][0]
    _look_left(text, number, previous_end, finder)
    number.after = finder.after(text, number.end)
    if _is_of_a_name(text, number):
        return None
    number.percent = _PERCENT.match(text, number.end) is not None
    number.trouble = _trouble(text, number, match)
    return number


def _has_leading_mark(text: str, start: int) -> bool:
    """Whether the mark before the digits is decimal (",89"): not behind a word ("Rs.500") or another mark ("...5")."""
    if not start or text[start - 1] not in _DECIMAL_MARKS:
        return False
    before = text[start - 2 : start - 1]
    return start == 1 or not (before.isalnum() or before in _DECIMAL_MARKS)


def _look_left(text: str, number: NumberFound, previous_end: int, finder: CurrencyFinder) -> None:
    """Minus and currency in either order; `start` moves before the minus."""
    edge = number.start
    if _is_minus(text, edge - 1, previous_end, finder):
        number.negative, edge = True, edge - 1
    number.before = finder.before(text, edge)
    if number.before is not None and not number.negative:
        number.negative = _is_minus(text, number.before.start - 1, previous_end, finder)
    number.start = edge


def _is_minus(text: str, place: int, previous_end: int, finder: CurrencyFinder) -> bool:
    """Whether a sign stands there: none behind a number (10-20) or a word (SKU-15), but behind a currency (EUR-5)."""
    if place < 0 or text[place] != "-" or place == previous_end:
        return False
    before = text[place - 1] if place else " "
    if before in "-—" or "0" <= before <= "9":
        return False
    return not is_cased(before) or finder.before(text, place) is not None


def _is_of_a_name(text: str, number: NumberFound) -> bool:
    if number.before is None and number.start and is_cased(text[number.start - 1]):
        return True
    if number.after is not None or not is_cased(text[number.end : number.end + 1] or " "):
        return False
    return _NAME.match(text, number.end) is not None and _EXPONENT.match(text, number.end) is None


def _trouble(text: str, number: NumberFound, match: re.Match[str]) -> str:
    shown = excerpt(text[max(0, number.start - 1) : number.end + 6].strip())
    if number.negative and number.body[0] in _DECIMAL_MARKS:
        return _("{shown} can be below 0, or a dash for no whole units", shown=shown)
    if _EXPONENT.match(text, number.end) and number.after is None:
        return _("{shown} has an exponent", shown=shown)
    if _is_multiplied(text, number.end):
        return _("{shown} is multiplied by a word or letter, which is not read", shown=shown)
    return _bad_neighbours(text, number, match, shown)


def _is_multiplied(text: str, end: int) -> bool:
    match = _MULTIPLIER.match(text, end)
    return match is not None and match[0].strip() not in _LOWER_CASE_UNITS


def _bad_neighbours(text: str, number: NumberFound, match: re.Match[str], shown: str) -> str:
    after, behind = text[number.end : number.end + 1], text[number.end + 1 : number.end + 2]
    before, front = text[match.start() - 1 : match.start()], text[max(0, match.start() - 2) : max(0, match.start() - 1)]
    if not match.start():
        before = ""
    if after == "-" and not behind.isalnum():
        return _("{shown} can be below 0", shown=shown)
    if any(unicodedata.category(sign) in ("No", "Nl") for sign in (before, after) if sign):
        return _("{shown} has a raised digit or a fraction next to it", shown=shown)
    if (after == ":" and _is_digit(behind)) or (before == ":" and _is_digit(front)):
        return _("{shown} is a time or a ratio", shown=shown)
    joined = (after, behind), (before, front)
    if any(mark and mark in ".,'·٫٬\u202f" and _is_digit(digit) for mark, digit in joined):
        return _("{shown} is no number: its digits are grouped oddly", shown=shown)
    return ""


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def _part(left: NumberFound, right: NumberFound) -> None:
    """Gives a currency between two numbers to the one that it belongs to; to both if that cannot be told."""
    after, before = left.after, right.before
    if after is None or before is None or after.end <= before.start:
        return
    if after.gap == before.gap == 0:
        trouble = _("a currency stands inside {excerpt}", excerpt=excerpt(f"{left.body}{after.sign}{right.body}"))
        left.trouble, right.trouble = left.trouble or trouble, right.trouble or trouble
    elif before.gap < after.gap or (before.gap == after.gap and left.before is not None):
        left.after = None
    elif after.gap < before.gap or right.after is not None:
        right.before = None


def _is_alone_in_parentheses(text: str, number: NumberFound, finder: CurrencyFinder) -> bool:
    begin = number.start if number.before is None else min(number.start, number.before.start)
    end = number.end if number.after is None else number.after.end
    left, right = text[:begin].rstrip(), text[end:].lstrip()
    if not (left.endswith("(") and right.startswith(")")):
        return False
    rest = (left[:-1] + right[1:]).strip()
    return not rest or finder.is_sign(rest)


MAX_NUMBERS = 1_000
_EXACT = Context(prec=200)
_HUNDREDTH = Decimal("0.01")
_MACHINE_NUMBER = re.compile(
    r"-?(?P<digits>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]{1,3}))?", re.ASCII
)
_EVERY_GROUP = "".join(sign for sign in SEPARATORS if sign not in "·٫")


def number_readings(
    texts: Sequence[str], form: ValueFormat, language: str | None, machine: bool, reader: int = READER
) -> Iterator[Reading]:
    """Yields a reading for each number that counts: of prices those with a currency, if any has one.

    `texts`: plain; `language`, `machine`, `reader`: as for `read_value`.
    """
    finder = finder_for(form.locale, form.currency)
    numbers: list[NumberFound] = []
    stated = None if machine else stated_separators(form)
    ready: list[Reading] = []
    for text in texts:
        exact = _machine_number(text.strip()) if machine else None
        if exact is not None:
            ready.append(_reading(exact, form, form.currency))
            continue
        for number in numbers_in(text, finder):
            if len(numbers) >= MAX_NUMBERS:
                yield Reading(problem=_("more than {max_numbers:,} numbers", max_numbers=MAX_NUMBERS))
                return
            numbers.append(number)
    chosen = _prices(numbers, form) if form.kind == "price" else numbers
    yield from ready
    if isinstance(chosen, Reading):
        yield chosen
        return
    for number in chosen:
        hints = _hints(number, language, form if form.kind == "price" and reader != FIRST_READER else None)
        yield _read(number, form, _machine_separators(number) if machine else stated, hints, finder)


def stated_separators(form: ValueFormat) -> Separators | None:
    """Returns the separators that settings and locale say; None if they say none."""
    by_locale = None if form.locale is None else cldr.separators_of(form.locale)
    decimals, groups = ("", "") if by_locale is None else (by_locale.decimals, by_locale.groups)
    if form.group is not None:
        groups = form.group + "\u202f" if form.group == " " else form.group
        decimals = "".join(sign for sign in decimals if sign not in groups) or EITHER.replace(form.group, "")
    if form.decimal is not None:
        decimals = form.decimal
        groups = "".join(sign for sign in groups if sign != form.decimal) or _EVERY_GROUP.replace(form.decimal, "")
    if not decimals:
        return None
    return Separators(decimals, groups, indian=by_locale is None or by_locale.indian)


def _machine_separators(number: NumberFound) -> Separators:
    """Always "." for the fraction; commas group only in front of one: "1,234" may be meant as a fraction."""
    return Separators(".", "," if "." in number.body else "")


def _machine_number(text: str) -> Decimal | str | None:
    """The number of a text that is a number of JSON and nothing else, which may have an exponent."""
    match = _MACHINE_NUMBER.fullmatch(text)
    if match is None:
        return None
    if sum(map(str.isdigit, match["digits"])) + abs(int(match["exponent"] or 0)) > MAX_DIGITS:
        return _("{excerpt} has more than {max_digits} digits", excerpt=excerpt(text), max_digits=MAX_DIGITS)
    return Decimal(text)


def _prices(numbers: list[NumberFound], form: ValueFormat) -> list[NumberFound] | Reading:
    """The numbers that are prices: no percentages, and if any has a currency, only those."""
    numbers = [number for number in numbers if not number.percent]
    with_currency = [number for number in numbers if number.before is not None or number.after is not None]
    if not with_currency or form.currency is None:
        return with_currency or numbers
    fitting = [number for number in with_currency if _may_mean(number, form.currency)]
    if fitting:
        return fitting
    sign = with_currency[0].before or with_currency[0].after
    return Reading(
        problem=_(
            "the currency is {sign}, not {currency}", sign="" if sign is None else sign.sign, currency=form.currency
        )
    )


def _may_mean(number: NumberFound, currency: str) -> bool:
    codes = _codes(number)
    return not codes or currency in codes


def _codes(number: NumberFound) -> frozenset[str]:
    """What the currencies before and behind mean together; empty for any."""
    before, after = (sign.codes if sign is not None else frozenset() for sign in (number.before, number.after))
    return (before & after or before) if before and after else before or after


def _read(
    number: NumberFound,
    form: ValueFormat,
    stated: Separators | None,
    hints: Iterable[Separators],
    finder: CurrencyFinder,
) -> Reading:
    if number.trouble:
        return Reading(problem=number.trouble)
    value = amount(number.body, stated, ())
    if isinstance(value, str) and stated is None:
        value = amount(number.body, None, hints)
    if isinstance(value, str):
        return Reading(problem=value)
    if number.alone_in_parentheses:
        if number.negative:
            return Reading(problem=_("{excerpt} is in parentheses and has a minus", excerpt=excerpt(number.body)))
        if form.kind == "number" and "." not in format(value, "f"):
            return Reading(
                problem=_('"({body})" can be a count, or below 0; keep the digits by find', body=number.body)
            )
    value = -value if number.negative or number.alone_in_parentheses else value
    if form.kind != "price":
        return _reading(value, form, None)
    sign: CurrencySign | None = number.before or number.after
    minor = any(beside is not None and beside.minor for beside in (number.before, number.after))
    value = _EXACT.multiply(value, _HUNDREDTH) if minor else value
    codes = _codes(number)
    if sign is None or (form.currency is not None and (not codes or form.currency in codes)):
        return _reading(value, form, form.currency)
    return _reading(value, form, finder.name(sign.sign, codes))


_THREE_DECIMALS = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
"""Currencies whose prices have three decimals (ISO 4217)."""
_ONLY_GROUPS, _ONLY_DECIMALS = Separators("", cldr.EITHER + "'"), Separators(cldr.EITHER, "")


def _hints(number: NumberFound, language: str | None, price: ValueFormat | None) -> Iterator[Separators]:
    """What decides an ambiguous number: the mark of "1.234,-", of a `price` its currency, the document's language.

    No price has three decimals, but in a few currencies: there the language decides first. None: it is no price, or is
    read as before.
    """
    if number.whole_mark:
        yield Separators(number.whole_mark, _EVERY_GROUP.replace(number.whole_mark, ""))
        return
    of_currency = None
    if price is not None and (number.before or number.after or price.currency):
        codes = _codes(number) or frozenset({price.currency or ""})
        of_currency = _ONLY_DECIMALS if codes <= _THREE_DECIMALS else _ONLY_GROUPS
    if of_currency is _ONLY_GROUPS:
        yield of_currency
    by_language = None if not language else cldr.separators_of(language)
    if by_language is not None:
        yield by_language
    if of_currency is _ONLY_DECIMALS:
        yield of_currency


def _reading(value: Decimal | str, form: ValueFormat, currency: str | None) -> Reading:
    if isinstance(value, str):
        return Reading(problem=value)
    if form.step is not None:
        steps = _EXACT.divide(value, form.step).to_integral_value()
        value = _EXACT.multiply(steps, form.step)
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    text = "0" if text in ("-0", "") else text
    return Reading(number=Decimal(text), text=text, currency=currency if form.kind == "price" else None)
