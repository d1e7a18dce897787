"""The API while the daemon waits for its database: alive, not ready, and why."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry

from pollerd.api import health
from pollerd.api.application import Application
from pollerd.api.auth.middleware import AuthMiddleware
from pollerd.api.auth.policies import API_ROUTES, RoutePolicies
from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.auth.tokens import Tokens
from pollerd.api.changes.events import Streams
from pollerd.api.http import problems
from pollerd.api.http.settings import ApiSettings
from pollerd.api.schemas.health import Health, Readiness
from pollerd.errors import DatabaseUnavailableError

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
        raise DatabaseUnavailableError(f"waiting for the database: {reason()}")

    return router
