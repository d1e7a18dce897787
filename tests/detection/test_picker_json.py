"""What a click on a line of a JSON document chooses: an entry by what names it, not by its place."""

from __future__ import annotations

import orjson
import pytest

from pollerd.detection.media import parsed
from pollerd.detection.selection.expressions.jsonpath import compile_jsonpath
from pollerd.detection.selection.picker import Offer, parts_of
from pollerd.detection.selection.picker_json import json_offers, json_parts

SHOP = {
    "updated": "2026-11-28T10:00:00Z",
    "items": [
        {"id": 7, "name": "Lamp", "price": 49.9, "tags": ["new", "light"]},
        {"id": 9, "name": "Desk 'Oslo'", "price": 299, "tags": []},
    ],
    "odd name": {"it's": None},
}
JSON = "application/json"


def offered(document: object, text: str, *earlier: object) -> dict[str, Offer]:
    """Returns what a click on the first line with this text offers, by kind."""
    bodies = [(orjson.dumps(version), JSON) for version in (document, *earlier)]
    line = next(n for n, one in enumerate(json_parts(*bodies[0])[0]) if one.text == text)
    return {offer.what: offer for offer in json_offers(bodies, line)}


def found(path: str, document: object) -> list[object]:
    return compile_jsonpath("path", path).find(document)


def test_a_document_is_shown_line_by_line_in_its_order() -> None:
    lines = [(line.depth, line.text) for line in json_parts(orjson.dumps(SHOP), JSON)[0]]
    assert lines[:6] == [
        (0, "updated: 2026-11-28T10:00:00Z"),
        (0, "items: [2]"),
        (1, "1. {4}"),
        (2, "id: 7"),
        (2, "name: Lamp"),
        (2, "price: 49.9"),
    ]


def test_an_entry_is_found_by_what_names_it_wherever_it_stands() -> None:
    offers = offered(SHOP, "price: 299")
    best = offers["part"].selectors[0]
    assert found(best, {"items": [SHOP["items"][1], {"id": 1, "price": 5}]}) == [299]  # type: ignore[index]
    assert offers["part"].selectors[1] == "$.items[1].price"
    assert offers["all"].selectors == ("$.items[*].price",)
    assert offers["all"].count == 2
    assert found(offers["around"].selectors[0], SHOP) == [SHOP["items"][1]]  # type: ignore[index]
    assert (offers["value"].kind, offers["value"].text) == ("number", "299")


def test_a_field_that_two_entries_share_names_neither() -> None:
    document = [{"name": "a", "n": 1}, {"name": "a", "n": 2}]
    assert offered(document, "n: 2")["part"].selectors == ("$[1].n",)


def test_the_path_that_finds_it_in_all_versions_comes_first() -> None:
    earlier = {"items": [{"id": 1, "name": "Lamp", "price": 3}, {"id": 2, "price": 4}]}
    part = offered(SHOP, "price: 49.9", earlier)["part"]
    assert part.selectors[0] == "$.items[0].price"  # the ids were others
    assert part.versions == 2


@pytest.mark.parametrize("name", ["it's", 'a"b', "a\\b", "ü", "a.b", "*", "", "line\nbreak", "x" * 2_000])
def test_odd_names_are_written_so_that_they_are_found(name: str) -> None:
    document = {name: {"value": 5}}
    offers = offered(document, "value: 5")
    if len(name) > 1_000:
        assert offers == {}  # longer than a path may be
    else:
        assert found(offers["part"].selectors[0], document) == [5]


def test_all_paths_of_a_document_can_be_read() -> None:
    _lines, paths = json_parts(orjson.dumps(SHOP), JSON)
    assert "$.items[*].price" in paths
    assert all(found(path, SHOP) for path in paths if path != "$.items[*].tags[*]")


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"5", b"[]", b"[" * 5_000 + b"]" * 5_000])
def test_what_has_no_parts_has_none_to_click_on(body: bytes) -> None:
    if parsed(body) in (None, 5, []):
        assert json_parts(body, JSON) == ((), [])
    assert json_offers([(body, JSON)], 10_000) == []


def test_the_selectors_of_a_page_begin_with_those_that_last() -> None:
    page = b'<body class="css-1x2y3z"><main><p id="price">5</p><p class="note">x</p></main></body>'
    assert parts_of(page, "text/html")[1] == ["#price", ".note", "main"]
