"""The table of a site's settings: what is read from it, and that a field more is found."""

from __future__ import annotations

from typing import Annotated

import pytest
from msgspec.structs import fields

from pollerd.errors import InvalidValueError
from pollerd.ranges import PLAIN, Range
from pollerd.site_settings import (
    INHERITED,
    NUMERIC_SETTINGS,
    SITE,
    SITE_SETTINGS,
    USABLE,
    Kind,
    RespectTtl,
    Setting,
    SiteSpec,
    Windows,
    settings_of,
)


class WithPriority(SiteSpec, frozen=True):
    """A copy of the table with one more field."""

    priority: Annotated[float | None, Setting(Kind.NUMBER, default=3.0, range=Range("", 0, 10, PLAIN))] = None


def test_every_field_is_a_setting_in_the_order_of_the_table() -> None:
    assert [*SITE_SETTINGS, "spelling"] == [one.name for one in fields(SiteSpec)]
    assert {name: one.type for name, one in SITE_SETTINGS.items() if name in ("weight", "respect_ttl", "windows")} == {
        "weight": float,
        "respect_ttl": RespectTtl,
        "windows": Windows,
    }


def test_numbers_have_a_range_for_users_and_one_for_the_scheduler() -> None:
    assert set(NUMERIC_SETTINGS) == set(USABLE) == {*SITE, "respect_ttl"}, "respect_ttl is given as a word"
    for name, allowed in SITE.items():
        assert USABLE[name].least <= allowed.least <= allowed.most <= USABLE[name].most


def test_a_default_is_usable() -> None:
    for name, default in NUMERIC_SETTINGS.items():
        assert default is None or (SITE[name].holds(default) and USABLE[name].holds(default))


def test_a_field_more_is_a_setting_more() -> None:
    more = settings_of(WithPriority)
    assert {name: one for name, one in more.items() if name != "priority"} == SITE_SETTINGS
    priority = more["priority"]
    assert (priority.name, priority.type, priority.default, priority.is_number) == ("priority", float, 3.0, True)
    assert priority.inherits
    assert priority.range is not None
    with pytest.raises(InvalidValueError, match="priority: must be 0 to 10; given: 11"):
        priority.range.check(11.0)
    assert "priority" not in INHERITED, "a copy changes nothing of the table"
