"""One spelling for visitors' URLs, and traps."""

from __future__ import annotations

import pytest

from pollerd.crawler.pages import strip_session_params
from pollerd.crawler.traps import ShapeLimits, is_calendar, shape, trap
from pollerd.errors import InvalidValueError

HOST = "https://example.org"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("/a?utm_source=x&b=2&fbclid=y", "/a?b=2"),
        ("/a?PHPSESSID=0123", "/a"),
        ("/a;jsessionid=ABC.node1/b?c=1", "/a/b?c=1"),
        ("/a?sid=0123456789abcdef0123456789abcdef", "/a"),
        ("/a?sid=7&s=search+words", "/a?sid=7&s=search+words"),
        ("/a?b=2&a=1", "/a?b=2&a=1"),
        ("/a?", "/a"),
        ("/a;v=1/b", "/a;v=1/b"),
    ],
)
def test_sessions_and_tracking_go_and_all_else_stays(given: str, left: str) -> None:
    assert strip_session_params(HOST + given) == HOST + left


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/a/b/c.html?x=1", None),
        ("/2026/11/22/a-story", None),
        ("/a/a/b", None),
        ("/" + "/".join(map(str, range(13))), "too deep"),
        ("/a/b/c/a/d/a", "repeats itself"),
        ("/x/a/b/a/b", "repeats itself"),
        ("/" + "x" * 600, "too long"),
        ("/a?" + "&".join(f"p{i}=1" for i in range(9)), "too many parameters"),
        ("/pictures/a.JPG", "not a page"),
        ("/a?picture=b.jpg", None),
    ],
)
def test_single_urls_show_a_trap(path: str, why: str | None) -> None:
    assert trap(HOST + path) == why


def test_calendars_are_recognised() -> None:
    for path in (
        "/calendar/2026-11",
        "/events?month=11&year=2026",
        "/archive/1999/",
        "/2026/11/",
        "/cal?date=2026-11-22",
    ):
        assert is_calendar(HOST + path), path
    for path in ("/about", "/calendar", "/2026/11/22/a-story", "/a?dates=none"):
        assert not is_calendar(HOST + path), path


def test_a_shape_has_no_numbers_and_no_values_but_keeps_its_host() -> None:
    assert shape("https://h2.example:8080/a1/22?page=3&q=x") == "https://h2.example:8080/a0/0?page=&q="


def test_an_endless_calendar_is_bounded_and_the_rest_of_the_host_is_not() -> None:
    limits = ShapeLimits(pages=1_000, days=20)
    days = [f"{HOST}/calendar/{2000 + i // 12}/{i % 12 + 1}" for i in range(500)]
    assert sum(map(limits.admit, days)) == 20
    assert sum(limits.admit(f"{HOST}/story/{i}") for i in range(500)) == 500
    assert sum(limits.admit(f"https://other.example/calendar/{2000 + i}/1") for i in range(50)) == 20


def test_what_was_admitted_before_counts() -> None:
    limits = ShapeLimits(pages=10, days=5)
    limits.count([*(f"{HOST}/calendar/2026/{i}" for i in range(3)), f"{HOST}/story/1"])
    assert sum(limits.admit(f"{HOST}/calendar/2027/{i}") for i in range(20)) == 2
    assert sum(limits.admit(f"{HOST}/story/{i}") for i in range(2, 30)) == 9
    limits.count(f"{HOST}/list/{i}" for i in range(50))
    assert not limits.admit(f"{HOST}/list/51")


def test_memory_is_bounded_and_values_are_checked() -> None:
    limits = ShapeLimits(pages=1, remembered=2)
    assert [limits.admit(f"{HOST}/{name}") for name in ("a", "b", "a", "c", "b")] == [True, True, False, True, True]
    with pytest.raises(InvalidValueError, match="days"):
        ShapeLimits(days=0)
