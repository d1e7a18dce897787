"""Which calls are open to whom: every route is declared here, or beside its room, and a test compares both ways."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pollerd.texts import _

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


class RoutePolicy(StrEnum):
    """Who may make a call."""

    OPEN = "open"
    """Everybody, from everywhere: machines that watch, and links that are signed."""
    VISITOR = "visitor"
    """Everybody, but no page of another site: what is needed to sign in."""
    READ = "read"
    """Who may read."""
    WRITE = "write"
    """Who may write."""
    SIGNALS = "signals"
    """Who may report changed pages and reads: who may write, and tokens that can do nothing else."""


class RoutePolicies:
    """The policy of each route.

    What is not declared is for readers if its method changes nothing, else for writers. A path with parameters cannot
    be laxer than that, unless all below its first part share its policy: whichever route answers, none is let in by
    another's policy.
    """

    def __init__(self, *tables: str) -> None:
        """Declares the routes of `tables`, as `declare` does."""
        self._declared: dict[tuple[str, str], RoutePolicy] = {}
        self._exact: dict[tuple[str, str], RoutePolicy] = {}
        self._below: dict[tuple[str, str], RoutePolicy] = {}
        for table in tables:
            self.declare(table)

    def declare(self, table: str) -> None:
        """Adds routes, a line each: policy, method, path as the router has it.

        A path that ends in `/*` stands for all below it. Raises ValueError for a route that is declared already, and
        for a path with parameters whose policy is laxer than its method's.
        """
        for line in filter(None, map(str.strip, table.splitlines())):
            word, method, path = line.split()
            policy, key = RoutePolicy(word), (method, path)
            if key in self._declared or key in self._below:
                raise ValueError(_("declared twice: {line}", line=line))
            if path.endswith("/*"):
                self._below[method, path.removesuffix("*")] = policy
                continue
            self._declared[key] = policy
            if "{" not in path:
                self._exact[key] = policy
            elif self.of(method, path) is not policy:
                raise ValueError(_("a path with parameters must have the policy of its method: {line}", line=line))

    @property
    def declared(self) -> Mapping[tuple[str, str], RoutePolicy]:
        """(method, path) -> policy, of all single routes."""
        return self._declared

    def of(self, method: str, path: str) -> RoutePolicy:
        """Returns the policy of a call."""
        method = "GET" if method == "HEAD" else method
        exact = self._exact.get((method, path))
        if exact is not None:
            return exact
        for (of, start), policy in self._below.items():
            if of == method and path.startswith(start):
                return policy
        return RoutePolicy.READ if method in READING else RoutePolicy.WRITE


API_ROUTES = """
    open    GET    /healthz
    open    GET    /readyz
    open    GET    /metrics
    open    GET    /indexnow
    open    POST   /indexnow
    open    GET    /unsubscribe/*
    open    POST   /unsubscribe/*
    open    GET    /unsubscribe/{channel_id:id}/{rule_id:id}/{token}
    open    POST   /unsubscribe/{channel_id:id}/{rule_id:id}/{token}
    open    GET    /websub/*
    open    POST   /websub/*
    open    GET    /websub/{callback}
    open    POST   /websub/{callback}
    read    GET    /openapi.json

    visitor POST   /api/v1/sessions
    visitor POST   /api/v1/users/first
    read    GET    /api/v1/sessions/current
    read    DELETE /api/v1/sessions/current
    read    PUT    /api/v1/sessions/current/password
    write   GET    /api/v1/sessions
    write   DELETE /api/v1/sessions
    write   DELETE /api/v1/sessions/{session_id:id}
    write   GET    /api/v1/users
    write   POST   /api/v1/users
    write   PATCH  /api/v1/users/{user_name}
    write   DELETE /api/v1/users/{user_name}
    write   GET    /api/v1/tokens
    write   POST   /api/v1/tokens
    write   DELETE /api/v1/tokens/{token_id:id}

    read    GET    /api/v1/allocation
    write   PUT    /api/v1/allocation
    read    GET    /api/v1/changes
    read    GET    /api/v1/changes.atom
    read    GET    /api/v1/changes/{change_id:id}
    read    GET    /api/v1/changes/{change_id:id}/diff
    read    GET    /api/v1/channels
    write   POST   /api/v1/channels
    write   POST   /api/v1/channels/diff
    read    GET    /api/v1/channels/{channel_id:id}
    write   PATCH  /api/v1/channels/{channel_id:id}
    write   DELETE /api/v1/channels/{channel_id:id}
    write   POST   /api/v1/channels/{channel_id:id}/resend
    write   POST   /api/v1/channels/{channel_id:id}/rotate
    write   POST   /api/v1/channels/{channel_id:id}/test
    read    GET    /api/v1/collection
    read    GET    /api/v1/collection/export
    read    GET    /api/v1/cluster
    write   PATCH  /api/v1/cluster/nodes/{name}
    read    GET    /api/v1/collection/pages
    read    GET    /api/v1/contents/{content_id:id}/screenshot
    read    GET    /api/v1/deliveries
    read    GET    /api/v1/deliveries/attempts
    write   POST   /api/v1/deliveries/resend
    read    GET    /api/v1/events
    read    GET    /api/v1/export
    write   POST   /api/v1/export
    read    GET    /api/v1/hosts
    read    GET    /api/v1/hosts/{name}
    write   PATCH  /api/v1/hosts/{name}
    write   POST   /api/v1/import
    write   POST   /api/v1/preview
    read    GET    /api/v1/jobs
    read    GET    /api/v1/jobs/{job_id:id}
    write   POST   /api/v1/jobs/{job_id:id}/undo
    read    GET    /api/v1/plan
    read    GET    /api/v1/rules
    write   POST   /api/v1/rules
    write   POST   /api/v1/rules/diff
    read    GET    /api/v1/rules/{rule_id:id}
    write   PUT    /api/v1/rules/{rule_id:id}
    write   DELETE /api/v1/rules/{rule_id:id}
    write   POST   /api/v1/rules/{rule_id:id}/mute
    read    GET    /api/v1/signal-sources
    write   POST   /api/v1/signal-sources
    write   POST   /api/v1/signal-sources/diff
    read    GET    /api/v1/signal-sources/{source_id:id}
    write   DELETE /api/v1/signal-sources/{source_id:id}
    signals POST   /api/v1/reads
    signals POST   /api/v1/signals
    read    GET    /api/v1/sites
    write   POST   /api/v1/sites
    write   POST   /api/v1/sites/diff
    write   POST   /api/v1/sites/bulk
    read    GET    /api/v1/sites/export
    write   POST   /api/v1/sites/import
    write   POST   /api/v1/sites/pause
    write   POST   /api/v1/sites/resume
    read    GET    /api/v1/sites/{site_id:id}
    write   PATCH  /api/v1/sites/{site_id:id}
    write   DELETE /api/v1/sites/{site_id:id}
    write   POST   /api/v1/sites/{site_id:id}/accept-redirect
    read    GET    /api/v1/sites/{site_id:id}/changes
    read    GET    /api/v1/sites/{site_id:id}/explain
    read    GET    /api/v1/sites/{site_id:id}/noise
    write   PATCH  /api/v1/sites/{site_id:id}/noise/{rule}
    write   POST   /api/v1/sites/{site_id:id}/pause
    write   POST   /api/v1/sites/{site_id:id}/poll
    read    GET    /api/v1/sites/{site_id:id}/polls
    write   POST   /api/v1/sites/{site_id:id}/resume
    read    GET    /api/v1/sites/{site_id:id}/reads
    write   DELETE /api/v1/sites/{site_id:id}/reads
    read    GET    /api/v1/sites/{site_id:id}/screenshot
    read    GET    /api/v1/sites/{site_id:id}/selections
    read    GET    /api/v1/sites/{site_id:id}/signals
    read    GET    /api/v1/sites/{site_id:id}/values
    read    GET    /api/v1/sites/{site_id:id}/values.svg
    read    GET    /api/v1/sources
    write   POST   /api/v1/sources
    write   POST   /api/v1/sources/diff
    read    GET    /api/v1/sources/{source_id:id}
    write   PATCH  /api/v1/sources/{source_id:id}
    write   DELETE /api/v1/sources/{source_id:id}
    write   POST   /api/v1/sources/{source_id:id}/read
    read    GET    /api/v1/sources/{source_id:id}/sites
    read    GET    /api/v1/tags
    write   POST   /api/v1/tags/diff
    read    GET    /api/v1/tags/{name:path}
    write   PUT    /api/v1/tags/{name:path}
    write   PATCH  /api/v1/tags/{name:path}
    write   DELETE /api/v1/tags/{name:path}
"""
"""All routes of the API."""
