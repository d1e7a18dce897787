"""Routers whose routes are whole when they are declared, so that an application takes them over as they are.

FastAPI's `include_router` makes every route anew for each application, some 0.2 s for all of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from pollerd.api.http.parameters import known_query

PREFIX = "/api/v1"


def api_router(prefix: str = "", *, tag: str | None = None) -> APIRouter:
    """Returns a router of the REST API: its paths begin with `PREFIX` and `prefix`, unknown parameters are refused."""
    return APIRouter(
        prefix=PREFIX + prefix,
        tags=None if tag is None else [tag],
        dependencies=[Depends(known_query)],
        generate_unique_id_function=operation_id,
    )


def operation_id(route: APIRoute) -> str:
    """Returns the name of a route in the OpenAPI document: its function's."""
    return route.name


def add_routers(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Adds the routes of routers to an application, in their order."""
    for router in routers:
        app.router.routes.extend(router.routes)
