"""Common parameters of calls, and the refusal of unknown ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Depends, HTTPException, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, Field
from starlette.convertors import Convertor, register_url_convertor

from pollerd.api.access import shown
from pollerd.api.list_formats import media_type
from pollerd.errors import InvalidValueError
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.timestamps import parse_moment

MAX_ID = 2**63 - 1
_MAX_LIMIT = 1000


class IdConvertor(Convertor[str]):
    """An id in a path: digits only, so that `/sites/import` is not taken for a site."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> str:
        """Returns the text: the range is checked with all other parameters."""
        return value

    def to_string(self, value: str) -> str:
        """Returns the text."""
        return value


register_url_convertor("id", IdConvertor())


def _storable(text: str) -> str:
    """Refuses NUL: databases do not store it, so it matches nothing."""
    if "\0" in text:
        raise ValueError("free of NUL")
    return text


SiteId = Annotated[int, Path(ge=1, le=MAX_ID, description="the site's id")]
ChangeId = Annotated[int, Path(ge=1, le=MAX_ID, description="the change's id")]
ContentId = Annotated[int, Path(ge=1, le=MAX_ID, description="the content's id, as a change names it")]
Limit = Annotated[int, Query(ge=1, le=_MAX_LIMIT, description="most items to return")]
Cursor = Annotated[str | None, Query(max_length=100, description="next_cursor of the page before")]
GivenOrder = Annotated[
    Order | None,
    Query(alias="order", description="by when it was recorded; left out: the cursor's, without a cursor newest first"),
]
_NUMBER = r"^[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2})?$"
_SINCE = {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "string", "pattern": _NUMBER}]}
Since = Annotated[str | None, Query(description="RFC 3339 or epoch seconds", max_length=100, json_schema_extra=_SINCE)]
Words = Annotated[str, AfterValidator(_storable), Field(json_schema_extra={"pattern": "^[^\\u0000]*$"})]


Matters = Literal["true", "false", "all"]
_MATTERS = "whether the conditions of the selection let the change matter; all: either"


async def _filter(
    since: Since = None,
    site: Annotated[int | None, Query(ge=1, le=MAX_ID, description="a site's id")] = None,
    tag: Annotated[Words | None, Query(description="of sites with this tag", max_length=100)] = None,
    selection: Annotated[Words | None, Query(description="found in this selection", max_length=100)] = None,
) -> ChangeFilter:
    moment = None if since is None else parse_moment("since", since)
    return ChangeFilter(moment, site, tag, selection=selection)


_Filter = Annotated[ChangeFilter, Depends(_filter)]


async def _wanted(found: _Filter, matters: Annotated[Matters, Query(description=_MATTERS)] = "all") -> ChangeFilter:
    return _mattering(found, matters)


async def _announced(found: _Filter, matters: Annotated[Matters, Query(description=_MATTERS)] = "true") -> ChangeFilter:
    return _mattering(found, matters)


def _mattering(found: ChangeFilter, matters: Matters) -> ChangeFilter:
    return found if matters == "all" else replace(found, matters=matters == "true")


Wanted = Annotated[ChangeFilter, Depends(_wanted)]
"""Filter on changes: query parameters since, site, tag, selection and matters, all by default."""
Announced = Annotated[ChangeFilter, Depends(_announced)]
"""As `Wanted`; by default only changes that matter."""


async def known_query(request: Request) -> None:
    """Refuses unknown and repeated query parameters: a misspelt filter must not be ignored."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = list(_query_names(route.dependant))
    for name, value in request.query_params.items():
        if name not in known:
            allowed = f"left out; known are {', '.join(known)}" if known else "left out"
            raise InvalidValueError(name, allowed, shown(name, value))
        if len(request.query_params.getlist(name)) > 1:
            raise InvalidValueError(name, "given once", "more than once")


def _query_names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for part in dependant.dependencies:
        yield from _query_names(part)


async def json_body(request: Request) -> None:
    """Refuses bodies whose Content-Type is not JSON."""
    media = media_type(request.headers.get("content-type", ""))
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
