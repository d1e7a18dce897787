"""Reads numbers and prices out of plain texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.candidates import NumberFound, numbers_in
from pollerd.detection.selection.values.characters import excerpt
from pollerd.detection.selection.values.currencies import CurrencyFinder, CurrencySign, finder_for
from pollerd.detection.selection.values.form import Reading, ValueFormat
from pollerd.detection.selection.values.separators import EITHER, MOST_DIGITS, SEPARATORS, Separators, amount

MOST_NUMBERS = 1_000
_EXACT = Context(prec=200)
_HUNDREDTH = Decimal("0.01")
_MACHINE_NUMBER = re.compile(
    r"-?(?P<digits>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]{1,3}))?", re.ASCII
)
_EVERY_GROUP = "".join(sign for sign in SEPARATORS if sign not in "·٫")


def number_readings(texts: Sequence[str], form: ValueFormat, language: str | None, machine: bool) -> Iterator[Reading]:
    """Yields a reading for each number that counts: of prices those with a currency, if any has one.

    `texts`: plain; `language`, `machine`: as for `read_value`.
    """
    finder = finder_for(form.locale, form.currency)
    found: list[NumberFound] = []
    stated = None if machine else stated_separators(form)
    ready: list[Reading] = []
    for text in texts:
        exact = _machine_number(text.strip()) if machine else None
        if exact is not None:
            ready.append(_reading(exact, form, form.currency))
            continue
        for number in numbers_in(text, finder):
            if len(found) >= MOST_NUMBERS:
                yield Reading(problem=f"more than {MOST_NUMBERS:,} numbers")
                return
            found.append(number)
    chosen = _prices(found, form) if form.kind == "price" else found
    yield from ready
    if isinstance(chosen, Reading):
        yield chosen
        return
    for number in chosen:
        yield _read(number, form, _machine_separators(number) if machine else stated, language, finder)


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
    if sum(map(str.isdigit, match["digits"])) + abs(int(match["exponent"] or 0)) > MOST_DIGITS:
        return f"{excerpt(text)} has more than {MOST_DIGITS} digits"
    return Decimal(text)


def _prices(found: list[NumberFound], form: ValueFormat) -> list[NumberFound] | Reading:
    """The numbers that are prices: no percentages, and if any has a currency, only those."""
    found = [number for number in found if not number.percent]
    with_currency = [number for number in found if number.before is not None or number.after is not None]
    if not with_currency or form.currency is None:
        return with_currency or found
    wanted = [number for number in with_currency if _may_mean(number, form.currency)]
    if wanted:
        return wanted
    sign = with_currency[0].before or with_currency[0].after
    return Reading(problem=f"the currency is {'' if sign is None else sign.sign}, not {form.currency}")


def _may_mean(number: NumberFound, currency: str) -> bool:
    codes = _codes(number)
    return not codes or currency in codes


def _codes(number: NumberFound) -> frozenset[str]:
    """What the currencies before and behind mean together; empty for any."""
    before, after = (sign.codes if sign is not None else frozenset() for sign in (number.before, number.after))
    return (before & after or before) if before and after else before or after


def _read(
    number: NumberFound, form: ValueFormat, stated: Separators | None, language: str | None, finder: CurrencyFinder
) -> Reading:
    if number.trouble:
        return Reading(problem=number.trouble)
    value = amount(number.body, stated, ())
    if isinstance(value, str) and stated is None:
        value = amount(number.body, None, _hints(number, language))
    if isinstance(value, str):
        return Reading(problem=value)
    if number.alone_in_parentheses:
        if number.negative:
            return Reading(problem=f"{excerpt(number.body)} is in parentheses and has a minus")
        if form.kind == "number" and "." not in format(value, "f"):
            return Reading(problem=f'"({number.body})" can be a count, or below 0; keep the digits by find')
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


def _hints(number: NumberFound, language: str | None) -> tuple[Separators, ...]:
    """What decides an ambiguous number: the mark of "1.234,-", then the document's language."""
    if number.whole_mark:
        return (Separators(number.whole_mark, _EVERY_GROUP.replace(number.whole_mark, "")),)
    by_language = None if not language else cldr.separators_of(language)
    return () if by_language is None else (by_language,)


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
