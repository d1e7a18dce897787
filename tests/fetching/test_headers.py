import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.fetching.headers import clean_content_type, fresh_seconds, http_date, retry_after_seconds, validators_of
from pollerd.model import Validators

NOVEMBER_1994 = 784_111_777.0


@pytest.mark.parametrize(
    ("control", "expires", "age", "seconds"),
    [
        ("max-age=600", None, None, 600.0),
        ("public, Max-Age = 600 , immutable", None, None, 600.0),
        ('max-age="600"', None, None, 600.0),
        ("max-age=600, s-maxage=60", None, None, 600.0),
        ("s-maxage=60", None, None, 60.0),
        ("max-age=600", None, "200", 400.0),
        ("max-age=600", None, "600", None),
        ("max-age=600", "Thu, 01 Jan 1970 02:00:00 GMT", None, 600.0),
        (None, "Thu, 01 Jan 1970 02:00:00 GMT", None, 3_600.0),
        ("public", "Thu, 01 Jan 1970 02:00:00 GMT", "600", 3_000.0),
        (None, "Thu, 01 Jan 1970 00:00:00 GMT", None, None),
        (None, "0", None, None),
        (None, "-1", None, None),
        ("no-cache, max-age=600", None, None, None),
        ("no-store", "Thu, 01 Jan 1970 02:00:00 GMT", None, None),
        ("max-age=0", "Thu, 01 Jan 1970 02:00:00 GMT", None, None),
        ("max-age=-5", None, None, None),
        ("max-age=soon", None, None, None),
        ("max-age", None, None, None),
        ("max-age=" + "9" * 400, None, None, 999_999_999_999.0),
        ("max-age=²", None, None, None),
        ("", None, None, None),
        (None, None, "7", None),
    ],
)
def test_how_long_a_response_says_that_it_stays_fresh(
    control: str | None, expires: str | None, age: str | None, seconds: float | None
) -> None:
    assert fresh_seconds(control, expires, age, date=3_600.0) == seconds


@given(st.text(max_size=80), st.text(max_size=40), st.text(max_size=12))
def test_no_freshness_makes_it_stumble(control: str, expires: str, age: str) -> None:
    assert (fresh_seconds(control, expires, age, 1e9) or 1.0) > 0


@pytest.mark.parametrize(
    "text",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
)
def test_http_date_in_its_three_forms(text: str) -> None:
    assert http_date(text) == NOVEMBER_1994


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "now",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "\udcff" * 29,
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
    ],
)
def test_http_date_unreadable(text: str) -> None:
    assert http_date(text) is None


def test_http_date_far_away() -> None:
    assert http_date("Fri, 31 Dec 9999 23:59:59 GMT") == 253_402_300_799.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("1e9", 1e9),
        ("99999999999999999999", 1e20),
        ("9" * 400, sys.float_info.max),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("+5", None),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
        ("٣", None),
        ("soon", None),
        ("120, 60", None),
    ],
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(text, NOVEMBER_1994) == seconds


@pytest.mark.parametrize("etag", ['"a"', 'W/"a"', "bare", '"with space"', '"é"', '""', "x" * 1024])
def test_validators_stay_as_they_are(etag: str) -> None:
    assert validators_of(f" {etag}\t", "rubbish") == Validators(etag, "rubbish")


@pytest.mark.parametrize("etag", ["", "  ", "a\x00b", "a\x7f", "\udcff", "é\x01", "x" * 1025])
def test_unusable_validators_count_as_absent(etag: str) -> None:
    assert validators_of(etag, None) == Validators()


def test_content_type_can_be_stored() -> None:
    assert clean_content_type("text/html; charset=utf-8") == "text/html; charset=utf-8"
    assert clean_content_type("text/\udcff") == "text/?"
    assert len(clean_content_type("x" * 999) or "") == 256
    assert clean_content_type(None) is None
