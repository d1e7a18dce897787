"""Records of the daemon as REST shows and documents them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from pollerd.api.common import shown_json, shown_values
from pollerd.shown import SHOWN, Known, Moment, OldName, OneOf, Share, ShownAs, shown_as
from tests.support.openapi import DOCUMENT


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"
    PLUM = "plum"


@dataclass(frozen=True, slots=True)
class Basket:
    """What is in it."""

    __pydantic_config__ = shown_as(fruit="kind")
    fruit: Annotated[Fruit, OneOf("apple", "pear")]
    """None is rotten,
    as far as is known."""
    share: Share | None = None
    weight: Known = math.nan


@dataclass(frozen=True, slots=True)
class Stored(Basket):
    at: Moment | None = None
    """When it came; None: never."""
    inside: int = 7


@dataclass(frozen=True, slots=True)
class Shelf:
    __pydantic_config__ = SHOWN
    first: Annotated[Stored, ShownAs(Basket)] | None
    baskets: OldName


def test_a_record_is_shown_by_its_names_in_rest() -> None:
    basket = Stored(Fruit.PEAR, at=1.5)
    assert shown_json(basket) == (
        b'{"kind":"pear","share":null,"weight":null,"at":"1970-01-01T00:00:01.500Z","inside":7}'
    )
    assert shown_values(basket)["at"] == 1.5
    assert shown_values(basket, "json")["kind"] == "pear"
    assert shown_json(Shelf(basket, 1)) == b'{"first":{"kind":"pear","share":null,"weight":null},"baskets":1}'


def test_a_record_is_documented_by_the_docstrings_of_its_fields() -> None:
    schema = TypeAdapter(Stored).json_schema(mode="serialization")
    assert schema["required"] == ["kind", "share", "weight", "at", "inside"]
    of = schema["properties"]
    assert (of["kind"]["enum"], of["kind"]["description"]) == (["apple", "pear"], "null is rotten, as far as is known.")
    assert of["at"]["description"] == "When it came; null: never."
    assert of["at"]["anyOf"][0]["format"] == "date-time"
    assert of["weight"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert of["share"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 1}
    assert not any("default" in field for field in of.values())
    assert TypeAdapter(Shelf).json_schema(mode="serialization")["properties"]["baskets"]["deprecated"] is True


@pytest.mark.parametrize("name", sorted(DOCUMENT["components"]["schemas"]))
def test_names_of_components_say_nothing_of_modules_and_layers(name: str) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]*", name)
    assert not re.search(r"(View|Schema)$|^(Stored|Shown)", name)
