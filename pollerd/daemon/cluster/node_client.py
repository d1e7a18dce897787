"""Asks other nodes, in requests that are signed with the secret of the cluster."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

from pollerd.cluster.signing import HEADER, PATH, opened_answer, signed_request
from pollerd.daemon.cluster.node_messages import (
    EndLoan,
    ExplainSite,
    LendHost,
    LoanAnswer,
    NodeQuestion,
    ShowAllocation,
    ShowSite,
    WatchedNode,
    WatchPolls,
    answer_of,
    encoded,
)
from pollerd.daemon.state.views import AllocationView, ExplanationView, LiveSite
from pollerd.errors import HolderUnavailableError, InvalidValueError
from pollerd.fetching import Posted
from pollerd.storage import ClusterStore, LivingNode
from pollerd.telemetry.cluster_instruments import ClusterInstruments
from pollerd.urls import normalise_url

ANSWER_SECONDS = 3.0
"""The deadline of a request to another node."""
LOAN_ANSWER_SECONDS = 8.0
"""The same where a host is asked for: its holder may wait for the host."""
_MOST_BYTES = 2_000_000


class PostsRequests(Protocol):
    """Posts to addresses that the operator named; `fetching.Poster`."""

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, now: float, seconds: float, most: int
    ) -> Posted:
        """Posts once; never raises for the receiver's fault."""

    async def close(self) -> None:
        """Closes every connection."""


class NodeClient:
    """Asks the node that holds a site, or a node of which is known that it lives. Who is asked asks nobody else."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        make_poster: Callable[[], PostsRequests],
        clock: Callable[[], float],
        instruments: ClusterInstruments,
    ) -> None:
        """make_poster: called at the first request."""
        self._cluster, self._make_poster, self._clock = cluster, make_poster, clock
        self._poster: PostsRequests | None = None
        self.instruments = instruments
        """The metrics of this node."""

    async def close(self) -> None:
        """Closes every connection."""
        if self._poster is not None:
            await self._poster.close()
            self._poster = None

    async def explanation(self, site_id: int) -> ExplanationView:
        """Returns why a site is polled as it is. Raises HolderUnavailableError, DatabaseUnavailableError."""
        return answer_of(await self._of_holder(site_id, ExplainSite(site_id)), ExplanationView)

    async def live(self, site_id: int) -> LiveSite:
        """Returns the in-memory values of a site; raises as `explanation`."""
        return answer_of(await self._of_holder(site_id, ShowSite(site_id)), LiveSite)

    async def allocation(self, node: LivingNode) -> AllocationView:
        """Returns what a node's part of the budget brings. Raises HolderUnavailableError."""
        return answer_of(await self._ask(node, ShowAllocation()), AllocationView)

    async def watch(self, node: LivingNode, after: int | None) -> WatchedNode:
        """Returns the newest polls of a node, and how it is. Raises HolderUnavailableError."""
        return answer_of(await self._ask(node, WatchPolls(after)), WatchedNode)

    async def lend(self, node: LivingNode, question: LendHost) -> LoanAnswer:
        """Returns whether a node lends a host. Raises HolderUnavailableError; then it may have lent it all the same."""
        return answer_of(await self._ask(node, question, LOAN_ANSWER_SECONDS), LoanAnswer)

    async def end_loan(self, node: LivingNode, question: EndLoan) -> None:
        """Gives hosts back. Raises HolderUnavailableError."""
        await self._ask(node, question)

    async def others(self) -> list[LivingNode]:
        """Returns the other nodes. Raises DatabaseUnavailableError."""
        return await self._cluster.others()

    async def _of_holder(self, site_id: int, question: NodeQuestion) -> bytes:
        holder = await self._cluster.holder(site_id)
        if holder is None:
            raise HolderUnavailableError(f"no node holds site {site_id} at present")
        if holder.id == self._cluster.node_id:
            raise HolderUnavailableError(f"this node has just taken site {site_id} and does not poll it yet")
        return await self._ask(holder, question)

    async def _ask(self, node: LivingNode, question: NodeQuestion, seconds: float = ANSWER_SECONDS) -> bytes:
        """Returns a node's answer. Raises HolderUnavailableError."""
        self.instruments.requests.inc()
        try:
            return await self._answer(node, question, seconds)
        except HolderUnavailableError:
            self.instruments.request_failures.inc()
            raise

    async def _answer(self, node: LivingNode, question: NodeQuestion, seconds: float) -> bytes:
        if not node.address:
            raise HolderUnavailableError(f"node {node.name} has no address (--node-address)")
        try:
            url = normalise_url(node.address.rstrip("/") + PATH)
        except InvalidValueError as error:
            raise HolderUnavailableError(f"node {node.name} has an address that is no URL") from error
        secret, body, now = self._cluster.secret, encoded(question), self._clock()
        nonce = secrets.token_hex(16)
        mine = self._cluster.node_id
        signature = signed_request(secret, body, sender=mine, receiver=node.id, now=now, nonce=nonce)
        headers = {HEADER: signature.header(), "Content-Type": "application/msgpack"}
        if self._poster is None:
            self._poster = self._make_poster()
        posted = await self._poster.post(url, headers, body, now=now, seconds=seconds, most=_MOST_BYTES)
        if posted.status != HTTPStatus.OK:
            why = posted.detail if posted.status is None else f"it answers with {posted.status}"
            raise HolderUnavailableError(f"node {node.name}, which is asked, gives no answer: {why}")
        answer = opened_answer(secret, nonce, posted.beginning)
        if answer is None:
            raise HolderUnavailableError(f"what answers at the address of node {node.name} does not have the secret")
        return answer
