"""Assembles the FastAPI application."""

from __future__ import annotations

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from pollerd.api import allocation, cluster, health, plan
from pollerd.api.accounts import api_tokens, sessions, users
from pollerd.api.auth.first_user import FirstUserCode
from pollerd.api.auth.middleware import AuthMiddleware
from pollerd.api.auth.passwords import Passwords
from pollerd.api.auth.policies import API_ROUTES, RoutePolicies
from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.auth.sign_in import SignIn
from pollerd.api.auth.tokens import Tokens
from pollerd.api.changes import atom as feed
from pollerd.api.changes import diff_routes as diffs
from pollerd.api.changes import events, screenshots
from pollerd.api.changes import routes as changes
from pollerd.api.changes.diff_routes import Comparer
from pollerd.api.changes.events import Streams
from pollerd.api.changes.live_state import LiveState
from pollerd.api.changes.shared_changes import SharedChanges
from pollerd.api.collection import export as collection_export
from pollerd.api.collection import routes as collection
from pollerd.api.http import problems
from pollerd.api.http.answer_headers import AnswerHeaders
from pollerd.api.http.context import ApiPorts
from pollerd.api.http.openapi import document as openapi
from pollerd.api.http.ports.control import ControlPort
from pollerd.api.http.routing import add_routers, operation_id
from pollerd.api.http.settings import ApiSettings
from pollerd.api.jobs import routes as jobs
from pollerd.api.notifications import channels, deliveries, listed, rules, unsubscribe
from pollerd.api.reads import routes as reads
from pollerd.api.signals import hub_routes, index_now_routes
from pollerd.api.signals import listed as listed_signals
from pollerd.api.signals import routes as signals
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
    result can be given new tokens while it runs; `state.refused_page`, a `ShowRefusal`, shows refusals to people.
    """
    app = Application(
        title="pollerd",
        version=version,
        summary="Polls sites under one budget and tells what changed",
        openapi_url=None,  # see `openapi`
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    app.state.ports = ApiPorts(control, store)
    app.state.registry = registry
    app.state.streams = Streams()
    app.state.shared_changes = SharedChanges()
    app.state.live_state = LiveState(control, version)
    app.state.tokens = Tokens(settings)
    app.state.recognition = CallerRecognition(app.state.tokens, store)
    app.state.policies = RoutePolicies(API_ROUTES)
    app.state.passwords = Passwords()
    app.state.first_user = FirstUserCode()
    app.state.sign_in = SignIn(app.state.recognition, app.state.passwords, app.state.first_user)
    app.state.refused_page = None
    app.state.comparer = Comparer()
    lists = (imports, site_diff, settings_diff, listed, exports, transfer)
    of_sites = (sites, jobs, selections, value_plots, preview, tags, sources, listed_signals, signals, reads, hosts)
    told = (rules, channels, deliveries)
    accounts = (sessions, users, api_tokens)
    rest = (changes, diffs, screenshots, feed, events, allocation, plan, cluster, collection, collection_export)
    parts = (*lists, *of_sites, *told, *accounts, *rest, health, unsubscribe)
    add_routers(app, (*(part.router for part in parts), cluster.internal, hub_routes.router, index_now_routes.router))
    app.add_middleware(AuthMiddleware, recognition=app.state.recognition, policies=app.state.policies)
    if not store.database.is_sqlite:
        app.add_middleware(problems.DatabasePatience, not_ready=control.health.not_ready)
    problems.install(app)
    openapi.install(app)
    return app
