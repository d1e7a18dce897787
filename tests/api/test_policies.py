"""Every route has a declared policy, and the middleware keeps to it, whoever calls from wherever."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response

from pollerd.api.application import create_api
from pollerd.api.auth.middleware import AuthMiddleware
from pollerd.api.auth.policies import READING, RoutePolicies, RoutePolicy
from pollerd.api.auth.recognition import CallerRecognition, Tokens
from pollerd.api.problems import ProblemResponse
from pollerd.api.settings import ApiSettings, digest_of
from pollerd.model import Role
from pollerd.storage.accounts import NewSession
from pollerd.storage.store import Store
from pollerd.web.application import add_pages

OWN = "127.0.0.1:8080"
HOSTS = {"ours": OWN, "rebound": "attacker.example", "other port": "127.0.0.1:3000"}
ORIGINS = {"none": None, "ours": f"http://{OWN}", "foreign": "https://attacker.example", "null": "null"}
TOKENS = {
    "read token": "reader",
    "write token": "writer",
    "signals token": "reporter",
    "other's token": "of-another-daemon",
}
SESSIONS = {"read session": "s-reader", "write session": "s-writer", "dead session": "s-dead"}
WHO = ("nobody", *TOKENS, *SESSIONS)


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """The API with its pages, over nothing."""
    made = create_api(Mock(), Mock(spec=Store), CollectorRegistry(), ApiSettings(), "1.2.3")
    add_pages(made)
    return made


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path) of all routes, as the router has them."""
    for route in iter_route_contexts(app.routes):
        for method in sorted((getattr(route, "methods", None) or set()) - {"HEAD"}):
            yield method, str(route.path)


def test_each_route_is_declared_and_each_declared_one_is_there(app: FastAPI) -> None:
    there = set(routes(app))
    assert len(there) > 100, "the router's routes are found"
    declared = set(app.state.policies.declared)
    assert there - declared == set(), "routes without a declared policy"
    assert declared - there == set(), "policies of routes that are gone"


def test_what_answers_a_path_has_the_policy_that_was_declared(app: FastAPI) -> None:
    for (method, path), policy in app.state.policies.declared.items():
        assert app.state.policies.of(method, concrete(path)) is policy, (method, path)
        if method == "GET":
            assert app.state.policies.of("HEAD", concrete(path)) is policy


def test_only_what_signs_in_is_open_to_strangers(app: FastAPI) -> None:
    """A list to be thought about before it grows."""
    lax = {
        key for key, policy in app.state.policies.declared.items() if policy in (RoutePolicy.OPEN, RoutePolicy.VISITOR)
    }
    assert lax <= {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/indexnow"),  # off unless a setting allows it; proved by a key
        ("POST", "/indexnow"),
        ("GET", "/websub/{callback}"),  # only hubs that were asked know it
        ("POST", "/websub/{callback}"),  # signed with the subscription's secret
        ("GET", "/unsubscribe/{channel_id:id}/{rule_id:id}/{token}"),
        ("POST", "/unsubscribe/{channel_id:id}/{rule_id:id}/{token}"),
        ("POST", "/api/v1/sessions"),
        ("POST", "/api/v1/users/first"),
        ("GET", "/assets/{build}/{name}"),
        ("GET", "/manifest.webmanifest"),  # asked for without cookies; the same for everybody, as the next two
        ("GET", "/offline"),
        ("GET", "/service-worker.js"),
        ("GET", "/sign-in"),
        ("POST", "/sign-in"),
        ("GET", "/first-user"),
        ("POST", "/first-user"),
    }


def test_what_is_not_declared_is_never_open() -> None:
    policies = RoutePolicies("open GET /healthz", "open GET /signed/*")
    assert policies.of("GET", "/elsewhere") is RoutePolicy.READ
    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"):
        assert policies.of(method, "/healthz") is RoutePolicy.WRITE
    for path in ("/healthz/", "/Healthz", "//healthz", "/signed", "/healthz/../sites", "/x/signed/y"):
        assert policies.of("GET", path) is RoutePolicy.READ, path
    assert policies.of("GET", "/signed/x/y") is RoutePolicy.OPEN


@pytest.mark.parametrize(
    "table",
    ["read GET /a\nwrite GET /a", "open GET /a/{id}", "read POST /a/{id}", "write GET /{id}", "some GET /a"],
)
def test_policies_that_could_be_mistaken_are_refused(table: str) -> None:
    with pytest.raises(ValueError, match=r"declared twice|parameters|not a valid"):
        RoutePolicies(table)


@pytest.fixture
async def recognition(store: Store) -> CallerRecognition:
    """Of a daemon with users and tokens in its database, and some who are signed in."""
    accounts = store.accounts
    await accounts.add_token("token-signals", Role.SIGNALS, digest_of(TOKENS["signals token"]), 1.0)
    for role in (Role.READ, Role.WRITE):
        user = await accounts.add_user(f"user-{role}", role, None, 1.0)
        await accounts.begin_session(NewSession(digest=digest_of(SESSIONS[f"{role} session"]), user_id=user.id), 1.0)
        await accounts.add_token(f"token-{role}", role, digest_of(TOKENS[f"{role} token"]), 1.0)
    return CallerRecognition(Tokens(ApiSettings()), store, clock=lambda: 2.0)


class Door:
    """The middleware before an application that lets everybody in who comes so far."""

    def __init__(self, recognition: CallerRecognition, policies: RoutePolicies, **state: Any) -> None:
        self._app = SimpleNamespace(state=SimpleNamespace(**state))
        self._middleware = AuthMiddleware(Response(status_code=204), recognition, policies)
        self._callers = 0

    async def __call__(self, method: str, path: str, *headers: tuple[str, str | None]) -> int:
        """The status of a call; each comes from an address of its own."""
        self._callers += 1
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in headers if value is not None],
            "client": (f"10.{self._callers >> 16}.{self._callers >> 8 & 255}.{self._callers & 255}", 1),
            "app": self._app,
        }
        status: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])

        await self._middleware(scope, receive, send)
        return status[0]


def concrete(path: str) -> str:
    """A path of a route."""
    for parameter, value in {"{name:path}": "a/b", "{build}": "1", "{token}": "t"}.items():
        path = path.replace(parameter, value)
    while "{" in path:
        start, end = path.index("{"), path.index("}")
        path = f"{path[:start]}7{path[end + 1 :]}"
    return path


def shown(who: str) -> tuple[str, str | None]:
    """The header by which a caller is recognised."""
    if who in TOKENS:
        return "authorization", f"Bearer {TOKENS[who]}"
    return "cookie", f"pollerd={SESSIONS[who]}" if who in SESSIONS else None


def expected(policy: RoutePolicy, method: str, path: str, who: str, host: str, origin: str) -> int:
    """What a daemon with users answers, worked out anew: 204 is let in."""
    # A page that is read under a name of its own (rebinding) has no cookie of ours: there only the tokens matter.
    ours = origin == "none" or (ORIGINS[origin] or "").partition("//")[2] == HOSTS[host]
    writes = method not in READING
    if policy is RoutePolicy.OPEN:
        return 204
    if policy is RoutePolicy.VISITOR:
        return 204 if ours else 403
    if who in ("nobody", "dead session", "other's token"):
        return 401
    if who in SESSIONS and not ours:
        return 403
    if who in SESSIONS and writes and origin == "none" and path.startswith("/api/"):
        return 403
    may = {
        RoutePolicy.READ: ("read", "write"),
        RoutePolicy.WRITE: ("write",),
        RoutePolicy.SIGNALS: ("write", "signals"),
    }
    return 204 if who.startswith(may[policy]) else 403


async def test_who_is_let_in_where_there_are_users(app: FastAPI, recognition: CallerRecognition) -> None:
    door, wrong = Door(recognition, app.state.policies), []
    for ((method, template), policy), who, host, origin in product(
        app.state.policies.declared.items(), WHO, HOSTS, ORIGINS
    ):
        path = concrete(template)
        found = await door(method, path, ("host", HOSTS[host]), ("origin", ORIGINS[origin]), shown(who))
        if found != expected(policy, method, path, who, host, origin):
            wrong.append((method, template, who, host, origin, found))
    assert wrong == []


async def test_who_is_let_in_where_there_is_nobody_to_be(app: FastAPI, store: Store) -> None:
    """Programs, and pages of ours on loopback."""
    door, wrong = Door(CallerRecognition(Tokens(ApiSettings()), store), app.state.policies), []
    for ((method, template), policy), who, host, origin in product(
        app.state.policies.declared.items(), ("nobody", "dead session", "other's token"), HOSTS, ORIGINS
    ):
        found = await door(method, concrete(template), ("host", HOSTS[host]), ("origin", ORIGINS[origin]), shown(who))
        ours = host != "rebound" and (origin == "none" or ORIGINS[origin] == f"http://{HOSTS[host]}")
        if found != (204 if ours or policy is RoutePolicy.OPEN else 403):
            wrong.append((method, template, who, host, origin, found))
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "accept", "as_page"),
    [
        ("/sites", "text/html,application/xhtml+xml", True),
        ("/sites", "application/json", False),
        ("/api/v1/sites", "text/html", False),
        ("/openapi.json", "text/html", False),
    ],
)
async def test_refusals_are_shown_to_people_by_the_pages(
    recognition: CallerRecognition, path: str, accept: str, as_page: bool
) -> None:
    shown: list[tuple[str, int]] = []

    def show(request: Request, refusal: ProblemResponse) -> Response:
        shown.append((request.url.path, refusal.status_code))
        return Response("sign in", refusal.status_code)

    door = Door(recognition, RoutePolicies(), refused_page=show)
    assert await door("GET", path, ("host", OWN), ("accept", accept)) == 401
    assert shown == ([(path, 401)] if as_page else [])
