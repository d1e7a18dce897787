"""What sites inherit of selections: the nearest counts, with what others remove and drop in front."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pollerd.detection.selection.selection import compile_selection
from pollerd.inheritance import effective, joined_selections, selections_of_tags
from pollerd.site_settings import SiteSpec, TagSettings

CLEAN = {"default": {"steps": [{"remove": {"css": "nav"}}, {"lines": {"drop": [{"text": "updated"}], "keep": ["x"]}}]}}
DROP = {"lines": {"drop": [{"text": "updated"}]}}
REMOVE = {"remove": {"css": "nav"}}


def joined(*said: Any) -> Any:
    return json.loads(joined_selections([json.dumps(one) for one in said]))


@pytest.mark.parametrize(
    ("own", "steps"),
    [
        ([{"keep": {"css": "h1"}}], [REMOVE, {"keep": {"css": "h1"}}, DROP]),
        ([{"as": "html"}, {"keep": {"css": "h1"}}], [{"as": "html"}, REMOVE, {"keep": {"css": "h1"}}, DROP]),
        ([{"keep": {"css": "p"}}, {"sort": "text"}], [REMOVE, {"keep": {"css": "p"}}, DROP, {"sort": "text"}]),
        ([{"keep": {"jsonpath": "$.a"}}], [{"keep": {"jsonpath": "$.a"}}, DROP]),
        ([{"items": {"fields": ["title"]}}], [{"items": {"fields": ["title"]}}, DROP]),
        ([{"as": "pdf"}], [{"as": "pdf"}, DROP]),
    ],
)
def test_what_a_tag_removes_and_drops_goes_in_front(own: list[Any], steps: list[Any]) -> None:
    assert joined({"default": {"steps": own}}, CLEAN) == {"default": {"steps": steps}}


@pytest.mark.parametrize(
    ("own", "removes"),
    [
        ([{"keep": {"jsonpath": "$.a"}}], True),
        ([{"remove": {"jsonpath": "$.a"}}], True),
        ([{"as": "json"}], True),
        ([{"keep": {"css": "h1"}}], False),
        ([{"items": {"fields": ["title"]}}], False),
        ([{"sort": "text"}], False),
    ],
)
def test_what_a_tag_removes_of_json_goes_before_what_is_of_json(own: list[Any], removes: bool) -> None:
    step = {"remove": {"jsonpath": "$..views"}}
    found = joined({"default": {"steps": own}}, {"default": {"steps": [step]}})
    assert (step in found["default"]["steps"]) is removes
    compile_selection("default", "", found["default"])


def test_every_selection_of_the_site_gets_it_unless_it_says_otherwise() -> None:
    alone = {"steps": [{"keep": {"css": "b"}}], "inherit": False}
    found = joined({"default": {"steps": [{"keep": {"css": "a"}}]}, "other": alone}, CLEAN)
    assert found["default"]["steps"][0] == REMOVE
    assert found["other"] == alone


def test_a_site_without_its_own_has_those_of_the_nearest_tag() -> None:
    near, far = ({"default": {"steps": [{"keep": {"css": one}}]}} for one in ("a", "b"))
    tags = {name: TagSettings(name, {"selections": json.dumps(one)}) for name, one in (("near", near), ("far", far))}
    spec, origins = effective(SiteSpec("http://a/", tags=("near", "far")), tags)
    assert json.loads(spec.selections) == near
    assert origins["selections"] == "tag near, tag far"
    assert selections_of_tags("", ("near", "far"), tags) == spec.selections
    assert selections_of_tags("", (), tags) == ""
    plain, origins = effective(SiteSpec("http://a/"), tags)
    assert (plain.selections, origins["selections"]) == ("", "default")
