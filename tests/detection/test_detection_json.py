import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.media import canonical, parsed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[1,2]}', b'{ "b" : [ 1, 2 ],\n "a" : 1 }'),
        (b'"\\u00e9"', '"é"'.encode()),
        (b'{"a":1.0}', b'{"a":1.00}'),
        (b'{"a":NaN,"b":1}', b'{"b":1,"a":NaN}'),
        (b'{"a":1,"a":2}', b'{"a":2}'),
    ],
)
def test_spelling_does_not_count(one: bytes, other: bytes) -> None:
    assert canonical(one) == canonical(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"[1,2]", b"[2,1]"),
        (b'{"a":null}', b"{}"),
        (b'{"a":"1"}', b'{"a":1}'),
        (b'{"a":NaN}', b'{"a":null}'),
        (b"[123456789012345678901234567890]", b"[123456789012345678901234567891]"),
        (b"[18446744073709551615]", b"[18446744073709551614]"),
        (b"[0.1234567890123456789]", b"[0.1234567890123456788]"),
        (rb'["cut \ud83d"]', rb'["cut \ud83e"]'),
        (rb'["cut \ud83d"]', rb'["cut \\ud83d"]'),
    ],
)
def test_values_and_the_order_of_arrays_count(one: bytes, other: bytes) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"hello", b"[1,]", b"\xff", b"[" * 10_000 + b"]" * 10_000, b"[" * 300 + b"]" * 300],
)
def test_what_cannot_be_read_is_none(body: bytes) -> None:
    assert canonical(body) is None


def test_halves_of_surrogate_pairs_spoil_nothing() -> None:
    """A text was cut within an emoji."""
    whole = rb'{"a": "\ud83d\ude00", "b": "cut \ud83d", "c": "\udc00\\", "d": 1}'
    assert parsed(whole) == {"a": "\U0001f600", "b": "cut \ufffdd83d", "c": "\ufffddc00\\", "d": 1}
    assert canonical(whole) is not None


@pytest.mark.parametrize("guard", [")]}',\n", ")]}'\n\n", ")]}\n", "for(;;);", "while(1);"])
def test_a_guard_in_front_does_not_count(guard: str) -> None:
    assert canonical(f'{guard}{{"a": 1}}'.encode()) == canonical(b'{"a": 1}')


def test_json_lines_have_values() -> None:
    """As a page they are lines of text; a JSONPath finds what is in them."""
    assert parsed(b'{"a": 1}\n\n{"a": 2}\r\n') == [{"a": 1}, {"a": 2}]
    assert canonical(b'{"a": 1}\n{"a": 2}\n') is None
    assert parsed(b'{"a": 1}\nno JSON\n') is None


def test_ten_thousand_deep_objects_are_survived() -> None:
    assert canonical(b'{"a":' * 10_000 + b"NaN" + b"}" * 10_000) is None
    assert parsed(b'{"a":' * 10_000 + b"NaN" + b"}" * 10_000) is None


def test_a_number_of_five_thousand_digits_is_kept() -> None:
    assert b"7" * 5_000 in (canonical(b"[" + b"7" * 5_000 + b"]") or b"")


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(body: bytes) -> None:
    found = canonical(body)
    assert found is None or canonical(found) == found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_the_canonical_form_is_its_own(value: object) -> None:
    once = canonical(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if once is not None:
        again = canonical(once)
        assert again == once
