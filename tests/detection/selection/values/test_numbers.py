"""Numbers and prices as people write them: the test cases of the design, and what must never become a value."""

from __future__ import annotations

from decimal import Decimal

import pytest
from babel.numbers import format_decimal
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.detection.selection.values.definition import compile_value_format
from pollerd.detection.selection.values.form import Reading
from pollerd.detection.selection.values.read import MAX_CHARACTERS, read_value


def read(text: str | list[str], language: str | None = None, machine: bool = False, **definition: object) -> Reading:
    form = compile_value_format("values.x", {"kind": "number", **definition})
    return read_value([text] if isinstance(text, str) else text, form, language=language, machine=machine)


@pytest.mark.parametrize(
    ("text", "locale", "value"),
    [
        ("1.234,56", "de", "1234.56"),
        ("1,234.56", "en", "1234.56"),
        *((f"1{space}234,56", "fr", "1234.56") for space in "\u0020\u00a0\u202f\u2009"),
        ("1’234.50", "de-CH", "1234.5"),
        ("1'234.50", "de-CH", "1234.5"),
        ("1,23,456.78", "en-IN", "123456.78"),
        ("١٬٢٣٤٫٥٦", "ar-EG", "1234.56"),
        ("1.000", "de", "1000"),
        ("1.000", "en", "1"),
        ("１２３４", None, "1234"),
        ("12,-", None, "12"),
        ("1.234,-", None, "1234"),
        (",89", None, "0.89"),
        (".75", None, "0.75"),
        ("−5,00", None, "-5"),
        ("(5.00)", None, "-5"),
        ("34.992001", None, "34.992001"),
        ("0.500", None, "0.5"),
        ("1234,567", None, "1234.567"),
        ("1.234.567", None, "1234567"),
        ("1,23,456.78", None, "123456.78"),
        ("-0.00", None, "0"),
        ("12 m²", None, "12"),
        ("Reviews (12)", None, "12"),
        ("共12件", None, "12"),
    ],
)
def test_numbers(text: str, locale: str | None, value: str) -> None:
    reading = read(text, locale=locale)
    assert (reading.problem, reading.text, reading.number) == ("", value, Decimal(value))


@pytest.mark.parametrize(
    ("text", "locale"),
    [
        *((text, None) for text in ("1.000", "1,000", "3.350", "1'234", "1 234", "12,34,56", "1.2.3", "12.05.2026")),
        *((text, None) for text in ("1_000", "1e5", "NaN", "Infinity", "A4", "2x4", "0x1F", "-,89", "5.00-", "(12)")),
        *((text, None) for text in ("1.5k", "2 Mio", "3億", "79,99¹", "1½", "10⁶", "10:30", "02/03/2026", "10–20")),
        *((text, None) for text in ("", " ", "free", "9" * 31, "1 234.567.890", "12 34")),
        ("1.5", "de"),
        ("12,34,56", "de"),
        ("1,23,456", "en-US"),
        ("1 234", "de"),
    ],
)
def test_what_is_no_number_is_a_problem(text: str, locale: str | None) -> None:
    reading = read(text, locale=locale)
    assert reading.problem
    assert (reading.number, reading.text) == (None, "")


def test_the_problem_says_both_readings_and_the_way_out() -> None:
    assert read("1.000").problem == '"1.000" can be 1 or 1000; set locale, or decimal'


def test_settings_come_before_the_locale_and_the_language_last() -> None:
    assert read("1.000", language="de").text == "1000"
    assert read("1.000", language="de", locale="en").text == "1"
    assert read("1.000", language="en", locale="en", decimal=",").text == "1000"
    assert read("1.000", group=".").text == "1000"
    assert read("1.000", group=" ").text == "1"
    assert read("1 000", group=" ").text == "1000"
    assert read("1.234,5", language="en").text == "1234.5"  # says itself what it is
    assert read("1.000", language="no-such-language").problem


def test_machine_texts_have_points() -> None:
    assert read("12.500", machine=True, locale="de").text == "12.5"
    assert read("1,234.5", machine=True).text == "1234.5"
    assert read("1e-5", machine=True).text == "0.00001"
    assert read("1,234", machine=True).problem
    assert read("1e999", machine=True).problem


@pytest.mark.parametrize(("which", "value"), [("first", "99"), ("last", "79"), ("min", "79"), ("max", "99")])
def test_which_of_several(which: str, value: str) -> None:
    assert read("was 99,00 now 79,00", kind="price", which=which).text == value


def test_only_refuses_different_numbers_but_not_one_written_twice() -> None:
    assert read("was 99,00 now 79,00").problem.startswith("several different values")
    assert read(["2879.2", "2879.20"]).text == "2879.2"
    assert read("1,23 €/kg 12,30 €", kind="price").problem
    assert read("1,23 €/kg 12,30 €", kind="price", which="last").text == "12.3"


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("99 ¢", "0.99", "¢"),
        ("R$ 2.879,20", "2879.2", "BRL"),
        ("iPhone 15 $999", "999", "$"),
        ("2 for $5", "5", "$"),
        ("-$5.00", "-5", "$"),
        ("EUR-5,00", "-5", "EUR"),
        ("($5.00)", "-5", "$"),
        ("-20% 79,99 €", "79.99", "EUR"),
        ("99 €79", "79", "EUR"),
        ("US$ 12.30", "12.3", "USD"),
        ("12.30 zł", "12.3", "PLN"),
        ("79.00", "79", None),
    ],
)
def test_prices(text: str, value: str, currency: str | None) -> None:
    reading = read(text, kind="price")
    assert (reading.problem, reading.text, reading.currency) == ("", value, currency)


@pytest.mark.parametrize("text", ["12€50", "2 $ 5", "$1.5k", "12 € 13 $", "5 %"])
def test_prices_that_are_not_clear(text: str) -> None:
    assert read(text, kind="price").problem


def test_another_currency_is_no_price_change() -> None:
    assert "not EUR" in read("$11", kind="price", currency="EUR").problem
    assert read("€ 10 (≈ $11)", kind="price", currency="EUR").text == "10"
    assert read("$11", kind="price", currency="CAD").currency == "CAD"
    assert read("$11", kind="price", locale="en-CA").currency == "CAD"


def test_step_is_the_smallest_difference() -> None:
    assert read("12.34", step=0.05).text == "12.35"
    assert read("-1234", step=100).text == "-1200"


LOCALES = tuple(
    """
    de de-AT de-CH en en-GB en-IN en-ZA fr fr-CH es es-MX it pt pt-PT nl sv da nb fi pl cs sk hu ro bg
    ru uk el tr he ar-EG fa hi bn ja ko zh th vi id sl
    """.split()  # noqa: SIM905 - a list would be a page long
)


@settings(max_examples=400)
@given(
    locale=st.sampled_from(LOCALES),
    number=st.decimals(-(10**12), 10**12, places=3, allow_nan=False),
    grouped=st.booleans(),
)
def test_what_babel_formats_is_read_back(locale: str, number: Decimal, grouped: bool) -> None:
    written = format_decimal(
        number, locale=locale.replace("-", "_"), group_separator=grouped, numbering_system="default"
    )
    assert read(written, locale=locale).number == number, written


@given(st.integers(1, 999), st.sampled_from(".,' "), st.integers(0, 999), st.sampled_from(["", "+", "about "]))
def test_an_ambiguous_number_is_never_a_value(whole: int, separator: str, rest: int, before: str) -> None:
    for kind in ("number", "price"):
        reading = read(f"{before}{whole}{separator}{rest:03}", kind=kind)
        assert (bool(reading.problem), reading.number) == (True, None)
    assert read(f"€ {whole}{separator}{rest:03}", kind="number").problem


@pytest.mark.parametrize(
    ("text", "language", "value"),
    [
        ("1.299 €", "en", "1299"),
        ("1.299 €", None, "1299"),
        ("$1,299", "de", "1299"),
        ("CHF 1'299", None, "1299"),
        ("¥1,299", "de", "1299"),
        ("Rp 15.000", "en", "15000"),
        ("1.299,00 €", "en", "1299"),
        ("€ 12.99", "de", "12.99"),
        ("0.500 €", "de", "0.5"),
        ("KWD 1.250", "en", "1.25"),
        ("KWD 1,250", "en", "1250"),
        ("KWD 1.250", None, "1.25"),
        ("د.ك. 1,250", None, "1.25"),
    ],
)
def test_the_currency_of_a_price_says_what_three_digits_are(text: str, language: str | None, value: str) -> None:
    assert read(text, language, kind="price").text == value


def test_a_currency_that_is_set_says_so_too_and_settings_say_more() -> None:
    assert read("1.299", "en", kind="price", currency="EUR").text == "1299"
    assert read("1.250", "en", kind="price", currency="OMR").text == "1.25"
    assert read("1.299 €", kind="price", decimal=".").text == "1.299"
    assert read("1.299 €", "de", kind="number").text == "1299"
    assert read("1.299", "en", kind="price").text == "1.299", "without a currency the language decides"


@given(st.lists(st.text(st.characters() | st.sampled_from("0123456789.,-'( )€$%:/\u202f\ud800\x00")), max_size=4))
def test_no_text_raises(texts: list[str]) -> None:
    for kind in ("number", "price", "date", "text"):
        for machine in (False, True):
            form = compile_value_format("values.x", {"kind": kind})
            reading = read_value(texts, form, machine=machine)
            assert bool(reading.problem) == (reading.text == "")
            reading.text.encode()


@pytest.mark.parametrize(
    "piece", ["9", "1,", "1 234 ", "1€", "-", "(", "1.", "é1", "1-1-", "1/1/", "2026-", "1a", "Jan "]
)
def test_long_texts_are_problems(piece: str) -> None:
    """The limit bounds the work; a quadratic step would run into the test's own limit at this size."""
    for text in (piece * (MAX_CHARACTERS // len(piece)), piece * (10**6 // len(piece))):
        for kind in ("number", "price", "date"):
            for machine in (False, True):
                assert read(text, kind=kind, machine=machine).problem
