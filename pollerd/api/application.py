"""Assembles the FastAPI application."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from pollerd.api import allocation, health
from pollerd.api.auth.middleware import AuthMiddleware
from pollerd.api.auth.tokens import Tokens
from pollerd.api.changes import atom as feed
from pollerd.api.changes import diff_routes as diffs
from pollerd.api.changes import events, screenshots
from pollerd.api.changes import routes as changes
from pollerd.api.changes.diff_routes import Comparer
from pollerd.api.changes.events import Streams
from pollerd.api.collection import export as collection_export
from pollerd.api.collection import routes as collection
from pollerd.api.http import problems
from pollerd.api.http.answer_headers import AnswerHeaders
from pollerd.api.http.context import ApiPorts, ControlPort
from pollerd.api.http.openapi import document as openapi
from pollerd.api.http.parameters import known_query
from pollerd.api.http.settings import ApiSettings
from pollerd.api.notifications import channels, deliveries, listed, rules, unsubscribe
from pollerd.api.sites import (
    exports,
    hosts,
    imports,
    preview,
    selections,
    settings_diff,
    site_diff,
    sources,
    value_plots,
)
from pollerd.api.sites import routes as sites
from pollerd.api.tags import routes as tags
from pollerd.api.transfer import routes as transfer
from pollerd.storage import Store

PREFIX = "/api/v1"


class Application(FastAPI):
    """FastAPI with headers for every answer, added outside of all middleware, where answers to faults are sent."""

    def build_middleware_stack(self) -> ASGIApp:
        """Returns FastAPI's stack, wrapped by `AnswerHeaders`."""
        return AnswerHeaders(super().build_middleware_stack())


def create_api(
    control: ControlPort, store: Store, registry: CollectorRegistry, settings: ApiSettings, version: str
) -> FastAPI:
    """Returns the REST API, the metrics of `registry` and the health checks, for any ASGI server.

    control: the running daemon; store: for reading lists. Both must outlive the application. `state.tokens` of the
    result can be given new tokens while it runs.
    """
    app = Application(
        title="pollerd",
        version=version,
        summary="Polls sites under one budget and tells what changed",
        openapi_url=None,  # see `openapi`
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.ports = ApiPorts(control, store)
    app.state.registry = registry
    app.state.streams = Streams()
    app.state.tokens = Tokens(settings)
    app.state.comparer = Comparer()
    api = APIRouter(prefix=PREFIX, dependencies=[Depends(known_query)])
    lists = (imports, site_diff, settings_diff, listed, exports, transfer)
    of_sites = (sites, selections, value_plots, preview, tags, sources, hosts)
    told = (rules, channels, deliveries)
    rest = (changes, diffs, screenshots, feed, events, allocation, collection, collection_export)
    for part in (*lists, *of_sites, *told, *rest):
        api.include_router(part.router)
    app.include_router(api)
    app.include_router(health.router)
    app.include_router(unsubscribe.router)
    app.add_middleware(AuthMiddleware, tokens=app.state.tokens)
    problems.install(app)
    openapi.install(app)
    return app
