"""Answers to questions of other nodes, from this process alone: no other node is asked, so no question goes round."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from http import HTTPStatus

import structlog

from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.explain import ScheduleExplainer, SiteViews
from pollerd.daemon.nodes.calls import (
    ExplainSite,
    NodeQuestion,
    ShowAllocation,
    ShowSite,
    WatchedNode,
    encoded,
    question_of,
)
from pollerd.daemon.views import NodeStatus, PollFeed
from pollerd.errors import NotFoundError
from pollerd.signing import Signature, SignatureCheck, signed_answer
from pollerd.storage.nodes import ClusterStore

_MAX_POLLS = 10
_LOG_SECONDS = 60.0
_WATCHED_SECONDS = 5.0
"""How long polls are kept after somebody asked for them."""


class NodeAnswers:
    """Answers signed requests."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        views: SiteViews,
        explainer: ScheduleExplainer,
        poll_feed: PollFeed,
        health: DaemonHealth,
        clock: Callable[[], float],
    ) -> None:
        """poll_feed: of this process's own polls."""
        self._cluster, self._views, self._explainer, self._poll_feed = cluster, views, explainer, poll_feed
        self._health, self._clock = health, clock
        self._check = SignatureCheck()
        self._refused, self._logged_at = 0, -math.inf
        self._kept = contextlib.ExitStack()
        self._end: asyncio.TimerHandle | None = None
        self._log = structlog.get_logger("pollerd.cluster")

    async def answer(self, signature: str, body: bytes) -> tuple[int, bytes]:
        """Returns status and body: 200 with a signed answer, else without one.

        403: the signature is not good; 400: this version does not know the question; 421: this node does not hold the
        site. Raises DatabaseUnavailableError.
        """
        shown, secret = Signature.parsed(signature), self._cluster.secret
        if shown is None or not secret:
            return HTTPStatus.FORBIDDEN, b""
        refused = self._check.refusal(secret, shown, body, receiver=self._cluster.node_id, now=self._clock())
        if refused is not None:
            self._note_refusal(refused, shown.sender)
            return HTTPStatus.FORBIDDEN, b""
        question = question_of(body)
        if question is None:
            return HTTPStatus.BAD_REQUEST, b""
        answer = await self._answer(question)
        if answer is None:
            return HTTPStatus.MISDIRECTED_REQUEST, b""
        return HTTPStatus.OK, signed_answer(secret, shown.nonce, answer)

    def _note_refusal(self, reason: str, sender: int) -> None:
        """Logs refusals once a minute at most: anybody can cause them."""
        self._refused += 1
        if self._clock() - self._logged_at >= _LOG_SECONDS:
            self._log.warning("node_requests_refused", reason=reason, said_to_be_of_node=sender, number=self._refused)
            self._logged_at, self._refused = self._clock(), 0

    async def _answer(self, question: NodeQuestion) -> bytes | None:
        """Returns the answer; None: the site is not here."""
        if isinstance(question, ExplainSite):
            try:
                return encoded(await self._views.explain_here(question.site_id))
            except NotFoundError:
                return None
        if isinstance(question, ShowSite):
            live = self._views.live([question.site_id]).get(question.site_id)
            return None if live is None else encoded(live)
        if isinstance(question, ShowAllocation):
            return encoded(await self._explainer.allocation_over_budgets())
        return encoded(self._watched(question.after))

    def _watched(self, after: int | None) -> WatchedNode:
        self._keep_watching()
        feed, status = self._poll_feed, self._health.status()
        # A position of before the last pause in watching says nothing.
        found = feed.since(feed.position if after is None else after, _MAX_POLLS)
        how = NodeStatus(status.sites, status.rate, status.budget, dict(status.by_state))
        return WatchedNode(found.position, list(found.polls), found.skipped, how)

    def _keep_watching(self) -> None:
        """Has polls kept for some seconds more."""
        if self._end is None:
            self._kept.enter_context(self._poll_feed.watching())
        else:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(_WATCHED_SECONDS, self._stop_watching)

    def _stop_watching(self) -> None:
        self._end = None
        self._kept.close()
