"""Questions to the node that polls a site: asked by NOTIFY, answered as a row, from the memory of that node alone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TypeVar

import msgspec
import numpy as np

from pollerd.daemon.explain import SiteViews
from pollerd.daemon.views import ExplanationView, LiveSite
from pollerd.errors import HolderUnavailableError, NotFoundError
from pollerd.storage.node_questions import NodeQuestionStore
from pollerd.storage.node_values import LivingNode
from pollerd.storage.nodes import ClusterStore
from pollerd.telemetry import ClusterInstruments
from pollerd.texts import N_, _

ANSWER_SECONDS = 4.0
"""How long an answer is waited for."""
MAX_BYTES = 262_144
"""Of an answer."""
_MAX_AT_ONCE = 100
"""Most questions that are answered at once: the newest, for those who asked before wait no more."""

T = TypeVar("T")


class ExplainSite(msgspec.Struct, frozen=True, tag="explain", forbid_unknown_fields=True):
    """Why is this site polled as it is?"""

    site_id: int


class ShowSite(msgspec.Struct, frozen=True, tag="live", forbid_unknown_fields=True):
    """What are the in-memory values of this site?"""

    site_id: int


class NodeAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node says: an answer, or why it has none."""

    body: bytes = b""
    reason: str = ""


NodeQuestion = ExplainSite | ShowSite

# As MessagePack, which keeps every float as it is.
_QUESTIONS: msgspec.msgpack.Decoder[NodeQuestion] = msgspec.msgpack.Decoder(NodeQuestion)


def encoded(message: NodeQuestion | NodeAnswer | ExplanationView | LiveSite) -> bytes:
    """Returns a message as bytes."""
    return msgspec.msgpack.encode(message, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no part of a message")


class HolderClient:
    """Asks the node that holds a site. Who is asked asks nobody else, so no question goes round."""

    def __init__(self, *, cluster: ClusterStore, questions: NodeQuestionStore, instruments: ClusterInstruments) -> None:
        self._cluster, self._questions = cluster, questions
        self.instruments = instruments
        """The metrics of this node."""
        self._waiting: dict[int, asyncio.Event] = {}

    async def explanation(self, site_id: int) -> ExplanationView:
        """Returns why a site is polled as it is. Raises HolderUnavailableError, DatabaseUnavailableError."""
        return await self._ask(site_id, ExplainSite(site_id), ExplanationView)

    async def live(self, site_id: int) -> LiveSite:
        """Returns the in-memory values of a site; raises as `explanation`."""
        return await self._ask(site_id, ShowSite(site_id), LiveSite)

    async def answered(self, numbers: Collection[int] | None) -> None:
        """Wakes who waits for the answers to these questions; None: news was lost.

        An answer of which the news was lost is found when the time is over.
        """
        for number in self._waiting.keys() & (numbers or ()):
            self._waiting[number].set()

    async def _ask(self, site_id: int, question: NodeQuestion, kind: type[T]) -> T:
        self.instruments.requests.inc()
        try:
            return await self._answer(await self._holder(site_id), question, kind)
        except HolderUnavailableError:
            self.instruments.request_failures.inc()
            raise

    async def _holder(self, site_id: int) -> LivingNode:
        holder = await self._cluster.holder(site_id)
        if holder is None:
            raise HolderUnavailableError(_("no node holds site {site_id} at present", site_id=site_id))
        if holder.id == self._cluster.node_id:
            raise HolderUnavailableError(
                _("this node has just taken site {site_id} and does not poll it yet", site_id=site_id)
            )
        if holder.revision is None:
            reason = _(
                "node {holder}, which polls site {site_id}, is of an older version ({version})",
                holder=holder.name,
                site_id=site_id,
                version=holder.version,
            )
            raise HolderUnavailableError(_("{reason} and answers no other node: upgrade it", reason=reason))
        return holder

    async def _answer(self, node: LivingNode, question: NodeQuestion, kind: type[T]) -> T:
        number = await self._questions.ask(node.id, encoded(question))
        arrived = self._waiting[number] = asyncio.Event()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await arrived.wait()
        except TimeoutError:
            pass  # it may be there all the same, if the news of it was lost
        finally:
            del self._waiting[number]
        reply = await self._questions.take(number)
        if reply is None:
            reason = _(
                "node {node}, which polls the site, gave no answer within {answer_seconds:g} s",
                node=node.name,
                answer_seconds=ANSWER_SECONDS,
            )
            raise HolderUnavailableError(reason)
        try:
            answer = msgspec.msgpack.decode(reply, type=NodeAnswer)
            if answer.reason:
                raise HolderUnavailableError(f"node {node.name}: {answer.reason}")
            return msgspec.msgpack.decode(answer.body, type=kind)
        except msgspec.DecodeError as error:
            raise HolderUnavailableError(
                _("node {node} answers in another form, as another version may", node=node.name)
            ) from error


class NodeAnswers:
    """Answers questions of other nodes."""

    def __init__(self, *, cluster: ClusterStore, questions: NodeQuestionStore, views: SiteViews) -> None:
        self._cluster, self._questions, self._views = cluster, questions, views

    async def asked(self, _units: Collection[int] | None) -> None:
        """Answers what is asked of this node. Raises DatabaseUnavailableError."""
        asked = await self._questions.asked_of(self._cluster.node_id, _MAX_AT_ONCE)
        answers = [(number, encoded(await self._answer(question))) for number, question in asked]
        if answers:
            await self._questions.answer(answers)

    async def _answer(self, question: bytes) -> NodeAnswer:
        try:
            asked = _QUESTIONS.decode(question)
        except msgspec.DecodeError:
            return NodeAnswer(reason=_("its version does not know this question"))
        try:
            body = await self._body(asked)
        except NotFoundError:
            return NodeAnswer(reason=_("it does not poll site {site_id} at present", site_id=asked.site_id))
        if len(body) > MAX_BYTES:
            return NodeAnswer(reason=_("its answer has more than {max_bytes} bytes", max_bytes=MAX_BYTES))
        return NodeAnswer(body)

    async def _body(self, asked: NodeQuestion) -> bytes:
        """Returns the answer. Raises NotFoundError if the site is not here, DatabaseUnavailableError."""
        if isinstance(asked, ExplainSite):
            return encoded(await self._views.explain_here(asked.site_id))
        live = self._views.live([asked.site_id]).get(asked.site_id)
        if live is None:
            raise NotFoundError(N_("site"), asked.site_id)
        return encoded(live)
