"""What a site is polled by: its own settings, then its tags', then defaults."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from pollerd.inheritance import access_of_tags, effective, inherit, inherit_all, may_leak, of_tags
from pollerd.site_settings import (
    INHERITED,
    NUMERIC_SETTINGS,
    SITE_SETTINGS,
    Access,
    Credentials,
    DayWindow,
    RespectTtl,
    SiteSpec,
    TagSettings,
    Windows,
)

NIGHT = Windows("UTC", (DayWindow(("mon",), "22:00", "06:00"),))
NEWS = TagSettings("news", {"weight": 3.0, "min_interval": 60.0, "windows": NIGHT})
SLOW = TagSettings("slow", {"min_interval": 600.0, "cost": 2.0, "respect_ttl": RespectTtl.OFF})
TAGS = {"news": NEWS, "slow": SLOW}


def test_a_site_goes_before_its_tags_and_they_go_before_defaults() -> None:
    found, origins = effective(SiteSpec("http://h/", weight=1.0, tags=("none", "slow", "news")), TAGS)
    assert (found.weight, found.cost, found.min_interval, found.max_interval) == (1.0, 2.0, 600.0, None)
    assert (found.respect_ttl, found.windows) == (RespectTtl.OFF, NIGHT)
    assert {name: origins[name] for name in ("weight", "cost", "min_interval", "max_interval", "windows")} == {
        "weight": "site",
        "cost": "tag slow",
        "min_interval": "tag slow",
        "max_interval": "default",
        "windows": "tag news",
    }
    other, _ = effective(SiteSpec("http://h/", tags=("news", "slow")), TAGS)
    assert (other.weight, other.min_interval) == (3.0, 60.0), "the first of its tags"
    alone, of_alone = effective(SiteSpec("http://h/"), TAGS)
    assert (alone.weight, alone.cost, set(of_alone.values())) == (1.0, 1.0, {"default"})


def test_headers_are_joined_and_the_nearest_credentials_and_proxy_win() -> None:
    tags = {
        "a": TagSettings("a", access=Access((("X-A", "a"), ("x-own", "a")), Credentials(token="a"), "http://a:1")),
        "b": TagSettings("b", access=Access((("X-A", "b"), ("X-B", "b")), Credentials(token="b"), "http://b:1")),
    }
    spec = SiteSpec("http://h/", tags=("a", "b"), access=Access((("X-Own", "1"),)))
    found, origins = effective(spec, tags)
    assert found.access == Access((("X-Own", "1"), ("X-A", "a"), ("X-B", "b")), Credentials(token="a"), "http://a:1")
    assert origins["headers.X-Own"] == "site"
    assert origins["headers.X-A"] == origins["credentials"] == origins["proxy"] == "tag a"
    assert origins["headers.X-B"] == "tag b"
    assert access_of_tags(spec.access, spec.tags, tags) == found.access
    assert may_leak(("a", "c"), tags) == ["a"]
    assert may_leak(("p",), {"p": TagSettings("p", access=Access(proxy="http://p:1"))}) == []


def test_an_authorization_header_and_credentials_are_never_sent_together() -> None:
    named = TagSettings("named", access=Access((("authorization", "Custom x"),)))
    signed = TagSettings("signed", access=Access(credentials=Credentials(token="t")))
    tags = {"named": named, "signed": signed}
    assert access_of_tags(Access(), ("named", "signed"), tags) == named.access
    assert access_of_tags(Access(), ("signed", "named"), tags) == signed.access


def test_secrets_are_in_no_origin_and_no_representation() -> None:
    secret = Access((("X-Key", "hush"),), Credentials("u", "hush"), "http://u:hush@p:1")
    found, origins = effective(SiteSpec("http://h/", tags=("a",)), {"a": TagSettings("a", access=secret)})
    assert "hush" not in repr(origins) + repr(found) + repr(TagSettings("a", access=secret))


def test_every_setting_of_a_site_is_inherited_but_for_what_makes_it_one() -> None:
    own = {"url", "title", "tags", "access", "paused"}
    assert set(INHERITED) == {field.name for field in fields(SiteSpec)} - own - {"spelling"} == set(SITE_SETTINGS) - own


numbers = {name: st.one_of(st.none(), st.floats(0.5, 9.0)) for name in NUMERIC_SETTINGS if name != "respect_ttl"}
said = st.fixed_dictionaries({**numbers, "respect_ttl": st.one_of(st.none(), st.sampled_from(RespectTtl))})
names = st.lists(st.sampled_from("abcd"), unique=True, max_size=4).map(tuple)
known = st.dictionaries(st.sampled_from("abc"), said)


@given(own=said, tags=names, tagged=known)
def test_whoever_is_nearest_and_says_a_value_is_its_origin(
    own: dict[str, Any], tags: tuple[str, ...], tagged: dict[str, dict[str, Any]]
) -> None:
    settings = {
        name: TagSettings(name, {k: v for k, v in its.items() if v is not None}) for name, its in tagged.items()
    }
    spec = SiteSpec("http://h/", tags=tags, **own)
    found, origins = effective(spec, settings)
    levels = [("site", own), *((f"tag {name}", tagged[name]) for name in tags if name in tagged)]
    for name, default in NUMERIC_SETTINGS.items():
        origin, value = next(((o, s[name]) for o, s in levels if s[name] is not None), ("default", default))
        assert (origins[name], getattr(found, name)) == (origin, value)
    assert inherit(spec, settings) == found
    inherited = of_tags(tags, settings)
    for name in NUMERIC_SETTINGS:
        if own[name] is None:
            assert getattr(found, name) == inherited.get(name, NUMERIC_SETTINGS[name])
    assert (found.url, found.tags, found.paused) == (spec.url, spec.tags, spec.paused)


@given(own=said, tags=names)
def test_what_is_in_force_is_in_force_again(own: dict[str, Any], tags: tuple[str, ...]) -> None:
    once = inherit(SiteSpec("http://h/", tags=tags, **own), TAGS)
    assert inherit(once, TAGS) == once


def test_without_tags_that_have_settings_specs_are_left_alone() -> None:
    specs = [SiteSpec("http://h/", tags=("news",))]
    assert inherit_all(specs, {}) is specs
    assert [spec.weight for spec in inherit_all(specs, TAGS)] == [3.0]
