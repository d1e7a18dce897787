"""What nodes ask of one another and what they answer, as MessagePack, which keeps every float as it is."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np

from pollerd.daemon.state.views import AllocationView, ExplanationView, LiveSite, NodeStatus
from pollerd.errors import HolderUnavailableError
from pollerd.model import Poll

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


class LendHost(msgspec.Struct, frozen=True, tag="lend", forbid_unknown_fields=True):
    """May a request of mine be redirected to this URL, whose host you hold?"""

    loan: int
    """Number of the request among those of the node that asks; the same for each host that it borrows."""
    url: str
    seconds: float
    """How long the host is needed at most, from when this was sent."""
    robots: bool = False
    """Whether the host's robots.txt itself is asked for, which no rules forbid."""
    proxied_site: int | None = None
    """Site through whose own proxy the host is asked; None: it has none."""


class EndLoan(msgspec.Struct, frozen=True, tag="end", forbid_unknown_fields=True):
    """The request is over, and its hosts are free."""

    loan: int
    written_ago: dict[str, float] = {}
    """Host -> how long ago its last request was written, s; without those of which none was."""
    answered: str = ""
    """The host that answered last; empty: none of them."""
    status: int | None = None
    """What it answered."""
    retry_after: float | None = None
    """Seconds that it asked to wait."""


NodeQuestion = ExplainSite | ShowSite | ShowAllocation | WatchPolls | LendHost | EndLoan


class LoanAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a host is lent."""

    lent: bool
    put_off: float | None = None
    """Seconds until it may be asked for again; None: it is lent, or its robots.txt denies the URL."""
    interval: float = 0.0
    """Least seconds between two requests to the host."""
    unreachable: bool = False
    """Whether it cannot be asked because its robots.txt was never obtained."""


class WatchedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest polls of a node."""

    position: int
    polls: list[tuple[Poll, str]]
    """Oldest first, each with its site's URL."""
    skipped: int
    """How many older ones were left out."""
    status: NodeStatus


_QUESTIONS: msgspec.msgpack.Decoder[NodeQuestion] = msgspec.msgpack.Decoder(NodeQuestion)


def encoded(message: NodeQuestion | ExplanationView | LiveSite | AllocationView | WatchedNode | LoanAnswer) -> bytes:
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
