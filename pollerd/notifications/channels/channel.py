"""The interface of channels, whatever their kind, and the values that all of them need."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from pollerd.errors import InvalidValueError, refusal, unknown_name, with_nearest
from pollerd.fetching.guard import WITHOUT_FLAG, Guard
from pollerd.fetching.poster import Poster
from pollerd.masking import NOT_SHOWN
from pollerd.model import OutcomeKind
from pollerd.notifications.message import AnswerKind, Message, Receipt
from pollerd.texts import N_, _

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

    async def send(self, message: Message, now: float) -> Receipt:
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
    """Returns one line of at most 500 characters for `Receipt.detail`, in which every secret is replaced."""
    for secret in sorted({value for value in secrets if len(value) >= _SHORTEST_HIDDEN}, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    line = re.sub(r"\s+", " ", text).strip().encode("utf-8", "backslashreplace").decode()
    line = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 1] + "…"


def unanswered(kind: OutcomeKind | None, detail: str) -> Receipt:
    """Returns what it means that a receiver was not reached: the guard refuses again, anything else may pass."""
    if kind is not OutcomeKind.BLOCKED_ADDRESS:
        return Receipt(AnswerKind.RETRY, None, detail)
    return Receipt(
        AnswerKind.DEAD, None, detail.replace(_(WITHOUT_FLAG), _(", not reached without --allow-private-channels"))
    )


def kind_of_answer(status: int) -> AnswerKind:
    """Returns what a receiver's HTTP status means for the message."""
    if 200 <= status < 300:
        return AnswerKind.SENT
    if status in _REFUSED:
        return AnswerKind.REFUSED
    if status in _MOVED_FOR_GOOD or (400 <= status < 500 and status not in _LATER):
        return AnswerKind.DEAD
    return AnswerKind.RETRY


# Fields of a JSON object that a user gave; each error names field, what is allowed and what was given.

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}")


_MEANT = {"to": "recipients", "from": "sender", "server": "host", "user": "username", "pass": "password"}
"""Settings by other names that people try."""


class GivenFields:
    """The fields of one object, taken one by one; the values of `secret` ones are not shown in errors."""

    def __init__(self, fields: Mapping[str, Any], known: Collection[str], secret: Collection[str]) -> None:
        """Raises `InvalidValueError` for a field that is not known."""
        self._given, self._secret = fields, frozenset(secret)
        for name in fields:
            if name not in known:
                meant = _MEANT.get(str(name).lower(), "")
                if meant in known:
                    raise refusal(
                        "settings", _("unknown setting {name!r}; did you mean {meant}?", name=str(name), meant=meant)
                    )
                raise unknown_name("settings", N_("setting"), str(name), sorted(known))

    def refuse(self, name: str, allowed: str) -> NoReturn:
        """Raises `InvalidValueError` for the field."""
        value = self._given.get(name)
        raise InvalidValueError(name, allowed, NOT_SHOWN if name in self._secret and value is not None else value)

    def raw(self, name: str) -> Any:
        """Returns the field as given; None: it is not."""
        return self._given.get(name)

    def text(self, name: str, allowed: str, most: int = 1_000) -> str | None:
        """Returns a text of 1 to `most` printable characters; None: not given. Raises `InvalidValueError`."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            self.refuse(name, allowed)
        return value

    def required(self, name: str, allowed: str, most: int = 1_000) -> str:
        """Returns a text that must be given."""
        value = self.text(name, allowed, most)
        return self.refuse(name, allowed) if value is None else value

    def host(self, name: str) -> str:
        """Returns a host: a name in ASCII or an address without brackets."""
        allowed = _("a host name in ASCII, or an IP address without brackets")
        value = self.required(name, allowed, 253)
        return value.lower() if _HOST.fullmatch(value) else self.refuse(name, allowed)

    def port(self, default: int) -> int:
        """Returns `port`: 1 to 65535."""
        value = self._given.get("port", default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65_536:
            self.refuse("port", _("a whole number from 1 to 65535"))
        return value

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Returns one of a few words."""
        value = self._given.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            near = with_nearest(_("one of {allowed}", allowed=", ".join(allowed)), str(value), list(allowed))
            self.refuse(name, near)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """Returns true or false."""
        value = self._given.get(name, default)
        return value if isinstance(value, bool) else self.refuse(name, _("true or false"))
