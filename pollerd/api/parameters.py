"""Parameters that calls have in common, and the refusal of unknown ones."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import HTTPException, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from pollerd.api.lists import media_type
from pollerd.errors import InvalidValueError

_MAX_ID = 2**63 - 1
_MAX_LIMIT = 1000


def _storable(text: str) -> str:
    """Databases hold no NUL, so nothing is found by one either."""
    if "\0" in text:
        raise ValueError("free of NUL")
    return text


SiteId = Annotated[int, Path(ge=1, le=_MAX_ID, description="the site's id")]
ChangeId = Annotated[int, Path(ge=1, le=_MAX_ID, description="the change's id")]
Limit = Annotated[int, Query(ge=1, le=_MAX_LIMIT, description="most items to return")]
Cursor = Annotated[str | None, Query(max_length=100, description="next_cursor of the page before")]
Words = Annotated[str, AfterValidator(_storable)]


async def known_query(request: Request) -> None:
    """Refuses query parameters that the call does not know: a misspelt filter must not pass for none."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = [parameter.alias for parameter in route.dependant.query_params]
    for name, value in request.query_params.items():
        if name not in known:
            allowed = f"left out; known are {', '.join(known)}" if known else "left out"
            raise InvalidValueError(name, allowed, value)


async def json_body(request: Request) -> None:
    """Refuses bodies that do not say that they are JSON."""
    media = media_type(request.headers.get("content-type", ""))
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
