"""Assembles the FastAPI application."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry

from pollerd.api import health, openapi, problems
from pollerd.api.auth.middleware import AuthMiddleware
from pollerd.api.auth.policies import API_ROUTES, RoutePolicies
from pollerd.api.auth.recognition import CallerRecognition, Tokens
from pollerd.api.auth.sign_in import FirstUserCode, Passwords, SignIn
from pollerd.api.diff import Comparer
from pollerd.api.events import LiveState, SharedChanges, Streams
from pollerd.api.health import Health, Readiness
from pollerd.api.http import ApiPorts, Application, add_routers, operation_id
from pollerd.api.settings import ApiSettings
from pollerd.daemon.control.control import Control
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.store import Store
from pollerd.texts import _


def create_api(
    control: Control, store: Store, registry: CollectorRegistry, settings: ApiSettings, version: str
) -> Application:
    """Returns the REST API, the metrics of `registry` and the health checks, for any ASGI server.

    control: the running daemon; store: for reading lists. Both must outlive the application. `state.tokens` of the
    result can be given new tokens while it runs; `state.refused_page`, a `ShowRefusal`, shows refusals to people.
    """
    app = Application(
        title="pollerd",
        version=version,
        summary="Polls sites within one budget and reports changes",
        openapi_url=None,  # see `openapi`
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    app.state.ports = ApiPorts(control, store)
    app.state.registry = registry
    app.state.streams = Streams()
    app.state.shared_changes = SharedChanges()
    app.state.live_state = LiveState(control, store, version)
    app.state.tokens = Tokens(settings)
    app.state.recognition = CallerRecognition(app.state.tokens, store)
    app.state.policies = RoutePolicies(API_ROUTES)
    app.state.passwords = Passwords()
    app.state.first_user = FirstUserCode()
    app.state.sign_in = SignIn(app.state.recognition, app.state.passwords, app.state.first_user)
    app.state.refused_page = None
    app.state.comparer = Comparer()
    add_routers(app, health.ROUTERS)
    app.add_later(lambda: _add_routes(app))
    app.add_middleware(AuthMiddleware, recognition=app.state.recognition, policies=app.state.policies)
    if not store.database.is_sqlite:
        app.add_middleware(problems.DatabasePatience, not_ready=control.health.not_ready)
    problems.install(app)
    openapi.install(app)
    return app


def _add_routes(app: Application) -> None:
    from pollerd.api import (
        accounts,
        allocation,
        changes,
        collection,
        diff,
        events,
        hosts,
        jobs,
        list_diff,
        lists,
        notifications,
        reads,
        selections,
        signals,
        sites,
        sources,
        tags,
        unsubscribe,
    )
    from pollerd.api.transfer import routes as transfer

    of_sites = (lists, list_diff, transfer, sites, jobs, selections, tags, sources, signals, reads, hosts)
    rest = (notifications, accounts, changes, diff, events, allocation, collection, unsubscribe)
    add_routers(app, (router for part in (*of_sites, *rest) for router in part.ROUTERS))


# The API while the daemon waits for its database: alive, not ready, and why.

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def create_waiting_api(
    reason: Callable[[], str], registry: CollectorRegistry, settings: ApiSettings, version: str
) -> FastAPI:
    """Returns health, readiness and metrics as of the daemon itself; everything else is 503 for `reason`."""
    app = Application(title="pollerd", version=version, openapi_url=None, redirect_slashes=False)
    app.state.registry = registry
    app.state.streams = Streams()
    app.include_router(_answers(reason))
    app.state.tokens = Tokens(settings)
    app.add_middleware(
        AuthMiddleware, recognition=CallerRecognition(app.state.tokens, None), policies=RoutePolicies(API_ROUTES)
    )
    problems.install(app)
    return app


def _answers(reason: Callable[[], str]) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> Health:
        return Health(status="ok")

    @router.get("/readyz", status_code=HTTPStatus.SERVICE_UNAVAILABLE)
    async def readyz() -> Readiness:
        return Readiness(status="not_ready", reason=reason())

    @router.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        return health.stored_metrics(request)

    @router.api_route("/{path:path}", methods=_METHODS)
    async def others(path: str) -> None:
        raise DatabaseUnavailableError(_("waiting for the database: {reason}", reason=reason()))

    return router
