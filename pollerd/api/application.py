"""The FastAPI application put together."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI
from prometheus_client import CollectorRegistry

from pollerd.api import (
    allocation,
    changes,
    collection,
    collection_export,
    diffs,
    events,
    exports,
    feed,
    health,
    imports,
    openapi,
    problems,
    sites,
)
from pollerd.api.diffs import Comparer
from pollerd.api.events import Streams
from pollerd.api.gatekeeper import Gatekeeper
from pollerd.api.parameters import known_query
from pollerd.api.ports import ControlPort, Ports
from pollerd.api.settings import ApiSettings
from pollerd.storage import Store

PREFIX = "/api/v1"


def create_api(
    control: ControlPort, store: Store, registry: CollectorRegistry, settings: ApiSettings, version: str
) -> FastAPI:
    """The REST API, the metrics of `registry` and the health calls, to be served by any ASGI server.

    control: the running daemon; store: where lists are read from. Both must outlive the application.
    """
    app = FastAPI(
        title="pollerd",
        version=version,
        summary="Polls sites under one budget and tells what changed",
        openapi_url=None,  # see `openapi`
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.ports = Ports(control, store)
    app.state.registry = registry
    app.state.streams = Streams()
    app.state.comparer = Comparer()
    api = APIRouter(prefix=PREFIX, dependencies=[Depends(known_query)])
    parts = (imports, exports, sites, changes, diffs, feed, events, allocation, collection, collection_export)
    for part in parts:
        api.include_router(part.router)
    app.include_router(api)
    app.include_router(health.router)
    app.add_middleware(Gatekeeper, settings=settings)
    problems.install(app)
    openapi.install(app)
    return app
