"""Watches of changedetection.io: fields, groups, settings, conditions; nothing is dropped silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.moving.changedetection.defaults import DEFAULTS, DISPLAY, INTERNAL, LOST
from pollerd.moving.changedetection.groups import LISTS, RESTOCK
from pollerd.moving.changedetection.instance import Instance, Watch
from pollerd.moving.changedetection.watch import move
from pollerd.moving.moved import Fate, Moved

URL = "https://a.org/x"
DAY = {"enabled": True, "start_time": "22:00", "duration": {"hours": "4", "minutes": "30"}}
CLOSED = {**DAY, "enabled": False}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def moved(fields: dict[str, Any], groups: dict[str, Any] | None = None, settings: Any = None) -> Moved:
    watch = Watch("11111111-2222", {"url": URL, **fields})
    return move(Instance([watch], groups or {}, settings))


def site(fields: dict[str, Any], groups: dict[str, Any] | None = None, settings: Any = None) -> dict[str, Any]:
    (found,) = moved(fields, groups, settings).sites
    return found


def default(fields: dict[str, Any], groups: dict[str, Any] | None = None, settings: Any = None) -> dict[str, Any]:
    selections: dict[str, Any] = site(fields, groups, settings).get("selections", {"default": {}})
    found: dict[str, Any] = selections["default"]
    return found


def lines(found: Moved, key: str) -> list[tuple[Fate, str]]:
    return [(line.fate, line.how) for line in found.report if line.key == key]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"title": "T", "paused": True, "notification_muted": True}, {"title": "T", "paused": True, "muted": True}),
        ({"tag": "old, older"}, {"tags": ["old", "older"]}),
        ({"method": "POST", "body": "a=1"}, {"method": "POST", "body": "a=1"}),
        ({"headers": {"X-A": "b", "User-Agent": "me"}}, {"headers": {"X-A": "b"}}),
        (
            {"time_between_check": {"hours": 1, "minutes": "5"}, "time_between_check_use_default": False},
            {"min_interval": 3900.0, "max_interval": 3900.0},
        ),
        (
            {"fetch_backend": "html_webdriver", "webdriver_delay": 3},
            {"render": "browser", "browser": {"wait_seconds": 3}},
        ),
        (
            {
                "fetch_backend": "html_webdriver",
                "browser_steps": [
                    {"operation": "Goto site", "selector": "", "optional_value": ""},
                    {"operation": "Click element", "selector": "#ok", "optional_value": ""},
                    {"operation": "Click X,Y", "selector": "", "optional_value": "1,2"},
                    {"operation": "Wait for seconds", "selector": "", "optional_value": "2"},
                ],
            },
            {"render": "browser", "browser": {"steps": [{"click": "#ok"}, {"wait": 2.0}]}},
        ),
    ],
)
def test_fields_of_the_site(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert site(fields) == {"url": URL, **expected}


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"include_filters": ["json:a[?price>10].n"]}, [{"as": "json"}, {"keep": {"jsonpath": "$.a[?@.price>10].n"}}]),
        (
            {"include_filters": ["json:$.a[?(@.x>1 & @.y=='z')]"]},
            [{"as": "json"}, {"keep": {"jsonpath": "$.a[?(@.x>1 && @.y=='z')]"}}],
        ),
        (
            {"include_filters": ["json:$[?(@.n =~ 'x.*')]"]},
            [{"as": "json"}, {"keep": {"jsonpath": "$[?(search(@.n, 'x.*'))]"}}],
        ),
        ({"include_filters": ["json:$.a.`len`"]}, None),
        ({"include_filters": ["xpath:matches(//a, 'x')"]}, None),
        ({"include_filters": ["xpath1://a"]}, [{"keep": {"xpath": "//a"}}]),
        ({"include_filters": ["p:-soup-contains('x')"]}, [{"keep": {"css": "p:lexbor-contains('x')"}}]),
        (
            {"ignore_text": ["a"], "include_filters": ["p"], "subtractive_selectors": ["//nav"]},
            [{"remove": {"xpath": "//nav"}}, {"keep": {"css": "p"}}, {"lines": {"drop": [{"text": "a"}]}}],
        ),
        ({"extract_text": ["a.b"]}, [{"find": {"re": r"(?i)a\.b", "with": r"\g<0>"}}]),
        ({"extract_text": ["/a(b)/", "/c(d)/s"]}, [{"find": {"re": "(?i:a(b))|(?s:c(d))", "with": r"\g<1>\g<2>"}}]),
        ({"extract_text": ["/(?=a)/"]}, None),
        ({"remove_duplicate_lines": True, "trim_text_whitespace": True}, [{"space": "trim"}, {"unique": "all"}]),
    ],
)
def test_filters_become_steps(fields: dict[str, Any], steps: object) -> None:
    assert default(fields).get("steps") == steps


ANNOUNCED = {"against": "announced"}


@pytest.mark.parametrize(
    ("fields", "conditions"),
    [
        ({"trigger_text": ["a", "/b/"]}, [{"present": [{"text": "a"}, {"re": "(?i)b"}], **ANNOUNCED}]),
        ({"text_should_not_be_present": ["a"]}, [{"absent": [{"text": "a"}], **ANNOUNCED}]),
        ({"check_unique_lines": True}, [{"new_in": "all"}]),
        ({"filter_text_removed": False}, [{"only": "additions"}]),
        ({"filter_text_added": False, "filter_text_replaced": False}, [{"purely": "removals"}]),
        ({"filter_text_replaced": False}, None),
    ],
)
def test_what_decides_becomes_conditions(fields: dict[str, Any], conditions: object) -> None:
    assert default(fields).get("conditions") == (conditions and {"all": conditions})


def row(field: str, operator: str, value: str) -> dict[str, str]:
    return {"field": field, "operator": operator, "value": value}


NUMBER = {"value": "extracted_number", **ANNOUNCED}


@pytest.mark.parametrize(
    ("field", "operator", "value", "leaf"),
    [
        ("extracted_number", ">", "5", {**NUMBER, "above": 5.0}),
        ("extracted_number", "<=", "5", {"any": [{**NUMBER, "below": 5.0}, {**NUMBER, "equals": 5.0}]}),
        ("extracted_number", "!=", "5", {"not": {**NUMBER, "equals": 5.0}}),
        ("page_filtered_text", "in", "A", {"present": {"text": "A", "case": True}, **ANNOUNCED}),
        ("page_filtered_text", "!in", "A", {"absent": {"text": "A", "case": True}, **ANNOUNCED}),
        ("page_filtered_text", "starts_with", "a.b", {"present": {"re": r"(?i)\A\s*a\.b"}, **ANNOUNCED}),
        ("page_filtered_text", "!contains_regex", "x+", {"absent": {"re": "(?i)x+"}, **ANNOUNCED}),
        ("page_filtered_text", "length_min", "7", {"length": {"min": 7}, **ANNOUNCED}),
        ("levenshtein_ratio", "<", "0.8", {"size": {"share": 0.2}, **ANNOUNCED}),
        ("levenshtein_distance", ">", "5", {"size": {"chars": 6}, **ANNOUNCED}),
        ("extracted_number", "starts_with", "5", None),
        ("extracted_number", ">", "nan", None),
        ("page_filtered_text", "contains_regex", "(?<=a)b", None),
        ("word_count", ">", "5", None),
        ("strange", ">", "5", None),
    ],
)
def test_rows_of_conditions(field: str, operator: str, value: str, leaf: object) -> None:
    found = moved({"conditions": [row(field, operator, value)]})
    selections: Any = found.sites[0].get("selections", {"default": {}})
    assert selections["default"].get("conditions") == (leaf and {"all": [leaf]})
    assert (lines(found, "conditions[0]")[0][0] is Fate.NOT_CARRIED) is (leaf is None)


def test_rows_of_which_any_is_enough() -> None:
    rows = [row("page_filtered_text", "in", "a"), row("page_filtered_text", "in", "b"), row("", "in", "")]
    found = default({"conditions": rows, "conditions_match_logic": "ANY", "trigger_text": ["t"]})["conditions"]
    assert [list(leaf) for leaf in found["all"]] == [["present", "against"], ["any"]]
    assert len(found["all"][1]["any"]) == 2


def test_groups_add_to_lists_whatever_they_override() -> None:
    groups = {
        "g1": {"title": "One", "ignore_text": ["x", "own"], "notification_urls": ["json://secret-path"]},
        "g2": {"title": "Two", "url_match_pattern": "*a.org*", "include_filters": ["h1"]},
        "g3": {"title": "Three", "url_match_pattern": "elsewhere", "include_filters": ["h2"]},
    }
    found = moved({"tags": ["g1", "gone"], "ignore_text": ["own"]}, groups)
    one: Any = found.sites[0]
    assert one["tags"] == ["One", "Two"]
    assert one["selections"]["default"]["steps"] == [
        {"keep": {"css": "h1"}},
        {"lines": {"drop": [{"text": "own"}, {"text": "x"}]}},
    ]
    assert (Fate.NOT_CARRIED, "names a group that is not in what was read") in lines(found, "tags")
    assert "secret-path" not in "\n".join(map(str, found.report))


def test_prices_and_stock() -> None:
    given = {"in_stock_processing": "off", "price_change_threshold_percent": 5}
    found = default({"processor": "restock_diff", RESTOCK: given})
    assert list(found["values"]) == ["price", "availability"]
    assert found["conditions"]["all"][0]["any"] == [
        {"value": "price", "changed_by": {"percent": 5.0}, **ANNOUNCED},
        {"value": "price", "changed_by": {"percent": -5.0}, **ANNOUNCED},
    ]
    old = default({"processor": "restock_diff", "in_stock_only": True, "follow_price_changes": False})
    assert list(old["conditions"]["all"][0]) == ["value", "appears"]
    group = {"g": {"title": "G", "overrides_watch": True, RESTOCK: {**given, "follow_price_changes": False}}}
    assert "conditions" not in default({"processor": "restock_diff", "tags": ["g"], RESTOCK: {}}, group)


def test_hours_over_midnight_go_on_as_they_are_meant() -> None:
    limit = {"enabled": True, "timezone": "Europe/Berlin", "monday": DAY, **dict.fromkeys(DAYS[1:], CLOSED)}
    fields = {"time_schedule_limit": limit, "time_between_check_use_default": False, "time_between_check": {"days": 1}}
    found = moved(fields)
    assert found.sites[0]["windows"] == [{"days": ["mon"], "from": "22:00", "to": "02:30", "zone": "Europe/Berlin"}]
    assert lines(found, "time_schedule_limit.monday")[0][0] is Fate.APPROXIMATED
    without = {**limit, "timezone": ""}
    assert "windows" not in site({**fields, "time_schedule_limit": without})
    settings = {"application": {"scheduler_timezone_default": "Asia/Kolkata"}}
    windows: Any = site({**fields, "time_schedule_limit": without}, settings=settings)["windows"]
    assert windows[0]["zone"] == "Asia/Kolkata"


def test_the_settings_interval_and_hours_count_for_those_that_use_the_default() -> None:
    limit = {"enabled": True, "timezone": "UTC", **{day: {**DAY, "start_time": "00:00"} for day in DAYS}}
    settings = {"requests": {"time_between_check": {"minutes": 10}, "time_schedule_limit": limit}}
    one = site({}, settings=settings)
    assert (one["min_interval"], one["max_interval"]) == (600.0, 600.0)
    assert one["windows"] == [
        {"days": [day[:3] for day in DAYS], "from": "00:00", "to": "04:30", "zone": "UTC"},
    ]
    stock = {"requests": {"time_between_check": {"hours": 3}}}
    assert "min_interval" not in site({}, settings=stock)


def test_settings_reach_every_site() -> None:
    settings = {
        "headers": {"X-All": "v"},
        "application": {
            "global_ignore_text": ["ad"],
            "global_subtractive_selectors": ["nav"],
            "ignore_whitespace": True,
            "password": "hash-kept-secret",
            "api_access_token": "kept-secret",
        },
        "requests": {"extra_proxies": [{"proxy_name": "P", "proxy_url": "http://u:pw-kept-secret@p:1"}]},
    }
    found = moved({"proxy": "ui-0P"}, settings=settings)
    one: Any = found.sites[0]
    assert (one["headers"], one["proxy"]) == ({"X-All": "v"}, "http://u:pw-kept-secret@p:1")
    assert one["selections"]["default"]["steps"] == [
        {"remove": {"css": "nav"}},
        {"lines": {"drop": [{"text": "ad"}]}},
        {"space": "collapse"},
    ]
    assert "kept-secret" not in "\n".join(map(str, found.report))


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"url": "https://a.org/{% now 'utc' %}"}, "url"),
        ({"url": "ftp://a.org/"}, "url"),
        ({"url": None}, "url"),
        ({"method": "DELETE"}, "method"),
        ({"method": "POST", "body": "{{ x }}"}, "body"),
    ],
)
def test_watches_that_are_left_out_are_named(fields: dict[str, Any], key: str) -> None:
    found = moved(fields)
    assert found.sites == []
    assert lines(found, key)[0][0] is Fate.NOT_CARRIED


def test_a_watch_of_a_source_compares_it() -> None:
    assert site({"url": f"source:{URL}"}) == {"url": URL, "selections": {"default": {"steps": [{"as": "source"}]}}}


TEXTS = st.text("ab1:/#.[({\\ é", max_size=8)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), TEXTS, st.floats(0, 9))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
KEYS = sorted(
    {
        *DEFAULTS,
        *DISPLAY,
        *INTERNAL,
        *LOST,
        *LISTS,
        *(RESTOCK, "url", "title", "paused", "tags", "tag", "headers", "body", "proxy", "browser_steps"),
        *("webdriver_delay", "webdriver_js_execute_code", "time_between_check", "time_schedule_limit"),
        *("conditions", "check_unique_lines", "trim_text_whitespace", "track_ldjson_price_data", "unheard"),
    }
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_every_field_of_a_watch_is_in_the_report(fields: dict[str, Any]) -> None:
    found = move(Instance([Watch("u", fields)], {"a": {"title": "G", **fields}}, {"application": fields}))
    told = {line.key for line in found.report if line.source.startswith("watch")}
    missing = [
        key
        for key in fields
        if not any(one == key or one.startswith((f"{key}[", f"{key}.", f"{key} (")) for one in told)
    ]
    assert missing == []
    grouped = {line.key for line in found.report if line.source.startswith("group")}
    assert fields.keys() <= grouped
    json.dumps(found.sites)
