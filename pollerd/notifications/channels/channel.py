"""What a channel does, whatever its kind, and what all of them need."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pollerd.fetching import WITHOUT_FLAG, Guard, Poster
from pollerd.model import OutcomeKind
from pollerd.notifications.message import Answer, AnswerKind, Message

DEADLINE_SECONDS = 20.0
"""Longest time of one attempt, from its beginning to its answer."""
_REFUSED = frozenset({401, 403, 410})
_LATER = frozenset({408, 425, 429})
_MOVED_FOR_GOOD = frozenset({301, 308})
_LONGEST_DETAIL = 500
_HIDDEN = "…"
_SHORTEST_HIDDEN = 3
"""A shorter secret is found in words that say nothing of it."""


class MessageChannel(Protocol):
    """Sends messages, one at a time."""

    async def send(self, message: Message, now: float) -> Answer:
        """Tries once to send the message; `now`: epoch s, told to receivers as the time of this attempt.

        Ends within `DEADLINE_SECONDS`, a little more where a process must be killed. Never raises for the receiver's
        fault, nor for the network's.
        """
        ...

    def events_carried(self, message: Message) -> int:
        """Returns how many of the message's events, from the first on, one message of this channel lists; 1 at least.

        The others go into further messages.
        """
        ...

    async def close(self) -> None:
        """Ends what is open. Another `send` may open it again."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelEnvironment:
    """What channels use together; they close none of it."""

    guard: Guard
    """Judges every address that a channel dials."""
    poster: Poster
    """For webhooks; with the same guard."""
    host: str
    """Name of this daemon in e-mails (Message-ID, List-Id, EHLO): a host name in ASCII."""
    link: str = ""
    """Where all events are shown; empty: the daemon has no public address."""
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    """How servers are verified that are not reached by HTTP."""
    apprise_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    """How many processes of Apprise send at once, some 60 MB each."""


def detail_of(text: str, secrets: Iterable[str] = ()) -> str:
    """Returns one line of at most 500 characters for `Answer.detail`, in which every secret is replaced."""
    for secret in sorted({one for one in secrets if len(one) >= _SHORTEST_HIDDEN}, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    line = re.sub(r"\s+", " ", text).strip().encode("utf-8", "backslashreplace").decode()
    line = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 1] + "…"


def unanswered(kind: OutcomeKind | None, detail: str) -> Answer:
    """Returns what it means that a receiver was not reached: the guard refuses again, anything else may pass."""
    if kind is not OutcomeKind.BLOCKED_ADDRESS:
        return Answer(AnswerKind.RETRY, None, detail)
    return Answer(AnswerKind.DEAD, None, detail.replace(WITHOUT_FLAG, ", not reached without --allow-private-channels"))


def kind_of_answer(status: int) -> AnswerKind:
    """Returns what a receiver's HTTP status means for the message."""
    if 200 <= status < 300:
        return AnswerKind.SENT
    if status in _REFUSED:
        return AnswerKind.REFUSED
    if status in _MOVED_FOR_GOOD or (400 <= status < 500 and status not in _LATER):
        return AnswerKind.DEAD
    return AnswerKind.RETRY
