"""Reports in IndexNow's form, as written."""

from __future__ import annotations

from typing import Any

import pytest

from pollerd.errors import InvalidValueError
from pollerd.lists.index_now import holds_key, index_now_report

KEY = "0123abcd-KEY"
A, B = "https://a.invalid/x/1", "https://a.invalid/x/2"


def test_a_report_is_normalised() -> None:
    found = index_now_report([A, "HTTPS://A.invalid:443/x/1", B], KEY, "A.invalid", None)
    assert (found.host, found.urls) == ("a.invalid:443", (A, B))
    assert found.key_location == f"https://a.invalid/{KEY}.txt"
    placed = index_now_report([A], KEY, None, "https://a.invalid/x/key.txt")
    assert placed.key_location == "https://a.invalid/x/key.txt"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"urls": []}, "urlList"),
        ({"urls": [A] * 10_001}, "urlList"),
        ({"urls": [A, "ftp://a.invalid/"]}, "urlList[1]"),
        ({"urls": [A, "https://b.invalid/"]}, "urlList[1]"),
        ({"urls": [A, "http://a.invalid/x/1"]}, "urlList[1]"),
        ({"key": "short"}, "key"),
        ({"key": "../../etc/passwd"}, "key"),
        ({"key": "k" * 129}, "key"),
        ({"host": "b.invalid"}, "host"),
        ({"host": "a.invalid:8080"}, "host"),
        ({"host": "a.invalid/x"}, "host"),
        ({"host": ""}, "host"),
        ({"key_location": "https://b.invalid/key.txt"}, "keyLocation"),
        ({"key_location": "http://a.invalid/key.txt"}, "keyLocation"),
        ({"key_location": "https://a.invalid/x/1?key"}, "keyLocation"),
        ({"key_location": "https://a.invalid/y/key.txt"}, "urlList[0]"),
        ({"key_location": "javascript:1"}, "keyLocation"),
    ],
)
def test_what_is_not_the_hosts_own_is_refused(given: dict[str, Any], field: str) -> None:
    report = {"urls": [A], "key": KEY, "host": None, "key_location": None} | given
    with pytest.raises(InvalidValueError) as caught:
        index_now_report(**report)
    assert caught.value.field == field


def test_a_key_file_holds_the_key_alone() -> None:
    assert holds_key(b"\xef\xbb\xbf " + KEY.encode() + b"\r\n", KEY)
    for body in (b"", KEY[:-1].encode(), KEY.encode() + b"x", b"<p>" + KEY.encode() + b"</p>", KEY.lower().encode()):
        assert not holds_key(body, KEY)
