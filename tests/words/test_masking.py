"""What was given wrongly is told again without what may be secret in it."""

from __future__ import annotations

import pickle
import time

import pytest

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN, SHOWN, is_secret_name, masked, masked_line
from pollerd.site_settings import SITE
from pollerd.urls import normalise_url

S = "hunter2"

WITH_SECRETS = [
    f"http://user:{S}@example.org/",
    f"http://user:{S}@example.org/@profile",
    f"http://user:{S}@[::1",
    f"http://user:{S}/x@example.org/",
    f"http://user:{S}#x@example.org/",
    f"http://user:{S}?x@example.org/",
    f"http://us er:{S} x@example.org/",
    f"http://user:a@{S}@example.org/",
    f"http://user:{S}%40example.org/",
    f"http://user:{S}＠example.org/",
    f"http://user:{S}",
    f"http://user:{S}/",
    f"http:/user:{S}@example.org/",
    f"http:\\\\user:{S}@example.org/",
    f"//user:{S}@example.org/",
    f"user:{S}@example.org",
    f"ftp://user:{S}@example.org/",
    f"postgresql+asyncpg://user:{S}@db/x",
    f"see http://a.example/ and http://user:{S}@example.org/",
    f"https://example.org/?password={S}",
    f"https://example.org/?a=b&api_key={S}&c=d",
    f"https://example.org/ Authorization: Bearer {S}",
    f"Cookie: session={S}",
    f"TOKEN={S}",
    f'{{"url": "https://example.org/", "password": "{S}"',
    f'{{"url": "https://example.org/", "password" : "{S}"',
    f'{{"password": "a@{S}", "url"',
    f'{{"password": "{S}@b", "url"',
    f'{{"headers": {{"X-Api": "{S}"}}, "url"',
    f'{{"headers": {{\n"X-Api": "{S}"}}, "url"',
    f"{{'credentials': {{'token': '{S}'",
    f'"{{""Authorization"": ""Bearer {S}""}}"',
    f"{'x' * 195} http://user:{S}@example.org",
    f"http://user:{S}{'x' * 5000}@example.org/",
    f"http://user:{'x' * 5000}{S}@example.org/",
    f"u:{S} passwd: x@h",
    f"http://a.example/?password=x@{S}",
    f"http://a.example/ password: x@{S}",
    f"password={S} http://u:p@example.org/",
    f"user: {S} http://u:p q@example.org/",
    f"http://u:p@example.org/?token={S}",
    f"http://u:p@example.org/ password: {S}",
]


@pytest.mark.parametrize("given", WITH_SECRETS)
def test_secrets_are_not_told(given: str) -> None:
    for told in (masked(given), masked_line(given, SITE), str(InvalidValueError("field", "another", given))):
        assert S not in told
        assert len(told) < SHOWN + 60


@pytest.mark.parametrize("given", WITH_SECRETS)
def test_nor_by_the_check_of_urls(given: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        normalise_url(given + " x")
    error = caught.value
    assert S not in f"{error} {error!r} {error.given}"
    assert S not in repr(pickle.loads(pickle.dumps(error)).given)


@pytest.mark.parametrize(
    "line",
    [
        f'{{"url": "https://a.example/", "pw": "{S}"',
        f'{{"p\\u0061ssword": "{S}", "url"',
        f'{{"motdepasse": "{S}"',
        f'{{"weight": 3, "phrase", "{S}"',
        f'{{"url": "https://a.example/?k={S}", ',
        f'{{"url": "https://u:{S}@a.example/", ',
        f'{{"url": "https://a.example/"}} {{"pin": "{S}"}}',
        f'[{{"url": "https://a.example/", "pin": "{S}"}}',
        f'{{"weight": "{S}" ',
        f"https://a.example/ {S}",
        f"https://a.example/?{S}",
        f'"https://a.example/",1,"{S}',
        f"{S} https://a.example/",
        f'"{S}"',
        f"\x00{S}",
    ],
)
def test_of_a_line_that_cannot_be_read_only_what_is_known_is_told(line: str) -> None:
    assert S not in masked_line(line, SITE)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ops@example.org", "ops@example.org"),
        ("http://user:pw@example.org/a", "http://…@example.org/a"),
        ("http://[::zz]/", "http://[::zz]/"),
        ("http://example.org:99999/", "http://example.org:99999/"),
        ("monkey", "monkey"),
        ("https://example.org/passport", "https://example.org/passport"),
        ("x" * 300, "x" * SHOWN + "…"),
        ("", ""),
    ],
)
def test_what_is_not_secret_is_told(given: str, told: str) -> None:
    assert masked(given) == told
    assert masked(told) == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("https://example.org/a", "https://example.org/a"),
        ("https://example.org/a?b", "https://example.org/a…"),
        ('{"weight": 2, "url": "https://a.example/" "cost"', '"weight": 2, "url": "https://a.example/"…'),
        ("not json", NOT_SHOWN),
        ("{", NOT_SHOWN),
        ("", NOT_SHOWN),
    ],
)
def test_a_line_is_told_as_far_as_it_is_known(line: str, told: str) -> None:
    assert masked_line(line, SITE) == told


@pytest.mark.parametrize("name", ["password", "Passwd", "X-Api-Key", "headers", "AUTHORIZATION", "userName", "cookies"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert not is_secret_name("weight")


@pytest.mark.parametrize("piece", ["@", "http://", "pass", "pass ", ":", '"', "a@:", '{"weight":1,', "%40", "\\"])
def test_long_texts_take_no_time(piece: str) -> None:
    """Seconds, where a quadratic look would take hours."""
    text, began = piece * (4_000_000 // len(piece)), time.process_time()
    masked(text)
    masked_line(text, SITE)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("name", SITE)
def test_each_number_of_the_table_is_told(name: str) -> None:
    assert masked_line(f'{{"{name}": 2, "pin": "{S}', SITE) == f'"{name}": 2,…'
