"""Definitions of values: what is refused, where, and with which way out; and what costs nothing until it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest
from babel import localedata
from babel.core import Locale

from pollerd.detection.selection.values.currencies import CODES, SIGNS
from pollerd.detection.selection.values.definition import compile_value_format
from pollerd.detection.selection.values.read import read_value
from pollerd.errors import InvalidValueError


@pytest.mark.parametrize(
    ("definition", "key", "hint"),
    [
        ({}, "kind", "price, number, date, text"),
        ({"kind": "prise"}, "kind", "nearest: price"),
        ({"kind": "price", "locle": "de"}, "locle", "did you mean locale"),
        ({"kind": "price", "locale": "de_DX"}, "locale", "nearest: de-DE"),
        ({"kind": "price", "locale": 5}, "locale", "a text"),
        ({"kind": "price", "decimal": ",", "group": ","}, "group", "another character"),
        ({"kind": "price", "decimal": "x"}, "decimal", "one of"),
        ({"kind": "price", "currency": "EURO"}, "currency", "nearest: EUR"),
        ({"kind": "number", "currency": "EUR"}, "currency", "a number has no currency"),
        ({"kind": "date", "zone": "Europe/Belin"}, "zone", "nearest: Europe/Berlin"),
        ({"kind": "date", "zone": "Europe"}, "zone", "a time zone"),
        ({"kind": "date", "zone": "../etc"}, "zone", "a time zone"),
        ({"kind": "date", "format": "dd.MM"}, "format", "day, month and year"),
        ({"kind": "date", "format": "dd.MM.yyyy Q"}, "format", "character 12"),
        ({"kind": "date", "format": "dd.MM.yyyy 'x"}, "format", "character 12"),
        ({"kind": "date", "format": "d MMMM yyyy"}, "format", "locale"),
        ({"kind": "date", "format": "dd.MM.yyyy mm"}, "format", "hour"),
        ({"kind": "text", "which": "min"}, "which", "only, first, last"),
        ({"kind": "price", "step": 0}, "step", "above 0"),
        ({"kind": "price", "step": True}, "step", "above 0"),
        ({"kind": "price", "step": float("nan")}, "step", "above 0"),
        ({"kind": "price", "step": 10**5000}, "step", "above 0"),
    ],
)
def test_what_is_refused(definition: dict[str, object], key: str, hint: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        compile_value_format("values.price", definition)
    assert caught.value.field == f"values.price.{key}"
    assert hint in str(caught.value)


def test_texts() -> None:
    form = compile_value_format("values.x", {"kind": "text"})
    assert read_value([" in stock\n", "in stock"], form).text == "in stock"
    assert read_value(["a", "b"], form).problem
    assert read_value(["a\ud800\x00"], form).text == "a\ufffd\ufffd"
    assert read_value([], form).problem


def test_signs_are_those_of_cldr() -> None:
    """What a locale writes for its own currency is in the table, or is left to the locale."""
    assert {code for codes in SIGNS.values() for code in codes.split()} <= CODES
    for tag, code in [("de", "EUR"), ("en_CA", "CAD"), ("sv", "SEK"), ("pt_BR", "BRL"), ("pl", "PLN"), ("hi", "INR")]:
        sign = Locale.parse(tag).currency_symbols[code].replace("\xa0", " ")
        assert code in SIGNS[sign].split()
    assert "de" in localedata.locale_identifiers()


def test_babel_is_not_loaded_before_a_locale_is() -> None:
    code = (
        "import sys\n"
        "from pollerd.detection.selection.values.definition import compile_value_format as form\n"
        "from pollerd.detection.selection.values.read import read_value as read\n"
        "assert read(['12,50'], form('x', {'kind': 'number'})).text == '12.5'\n"
        "assert read(['12,50 €'], form('x', {'kind': 'price', 'currency': 'EUR'})).text == '12.5'\n"
        "assert read(['2026-03-02'], form('x', {'kind': 'date'})).text == '2026-03-02'\n"
        "assert 'babel' not in sys.modules\n"
        "form('x', {'kind': 'price', 'locale': 'de'})\n"
        "assert 'babel' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
