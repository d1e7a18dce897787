"""Calls to other nodes: messages, and requests that are signed with the secret of the cluster."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeVar

import msgspec
import numpy as np

from pollerd.daemon.views import AllocationView, ExplanationView, LiveSite, NodeStatus
from pollerd.errors import HolderUnavailableError, InvalidValueError
from pollerd.fetching.poster import Posted
from pollerd.model import Poll
from pollerd.signing import HEADER, PATH, opened_answer, signed_request
from pollerd.storage.node_values import LivingNode
from pollerd.storage.nodes import ClusterStore
from pollerd.telemetry import ClusterInstruments
from pollerd.urls import normalise_url

# Questions and answers, as MessagePack, which keeps every float as it is.

T = TypeVar("T")


class ExplainSite(msgspec.Struct, frozen=True, tag="explain", forbid_unknown_fields=True):
    """Why is this site polled as it is?"""

    site_id: int


class ShowSite(msgspec.Struct, frozen=True, tag="live", forbid_unknown_fields=True):
    """What are the in-memory values of this site?"""

    site_id: int


class ShowAllocation(msgspec.Struct, frozen=True, tag="allocation", forbid_unknown_fields=True):
    """What does your part of the budget bring?"""


class WatchPolls(msgspec.Struct, frozen=True, tag="polls", forbid_unknown_fields=True):
    """Which polls came since, and how is the node? To be asked again within seconds, else nothing is kept for it."""

    after: int | None
    """Position of the last answer; None: only from now on."""


NodeQuestion = ExplainSite | ShowSite | ShowAllocation | WatchPolls


class WatchedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest polls of a node."""

    position: int
    polls: list[tuple[Poll, str]]
    """Oldest first, each with its site's URL."""
    skipped: int
    """How many older ones were left out."""
    status: NodeStatus


_QUESTIONS: msgspec.msgpack.Decoder[NodeQuestion] = msgspec.msgpack.Decoder(NodeQuestion)


def encoded(message: NodeQuestion | ExplanationView | LiveSite | AllocationView | WatchedNode) -> bytes:
    """Returns a message as bytes."""
    return msgspec.msgpack.encode(message, enc_hook=_plain)


def question_of(body: bytes) -> NodeQuestion | None:
    """Returns the question; None: this version knows none of this form."""
    try:
        return _QUESTIONS.decode(body)
    except msgspec.DecodeError:
        return None


def answer_of(body: bytes, kind: type[T]) -> T:
    """Returns an answer. Raises HolderUnavailableError if it has another form, as one of another version may."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise HolderUnavailableError(f"the node that holds the site answers in another form: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no part of a message")


ANSWER_SECONDS = 3.0
"""The deadline of a request to another node."""
_MAX_BYTES = 2_000_000


class RequestPoster(Protocol):
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
        make_poster: Callable[[], RequestPoster],
        clock: Callable[[], float],
        instruments: ClusterInstruments,
    ) -> None:
        """make_poster: called at the first request."""
        self._cluster, self._make_poster, self._clock = cluster, make_poster, clock
        self._poster: RequestPoster | None = None
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
        posted = await self._poster.post(url, headers, body, now=now, seconds=seconds, most=_MAX_BYTES)
        if posted.status != HTTPStatus.OK:
            why = posted.detail if posted.status is None else f"it answers with {posted.status}"
            raise HolderUnavailableError(f"node {node.name}, which is asked, gives no answer: {why}")
        answer = opened_answer(secret, nonce, posted.beginning)
        if answer is None:
            raise HolderUnavailableError(f"what answers at the address of node {node.name} does not have the secret")
        return answer
