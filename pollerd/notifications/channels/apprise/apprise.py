"""Sends messages by Apprise, in a process of the channel's own that stays warm for a minute."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import unquote, unquote_plus

import structlog

from pollerd.model import OutcomeKind
from pollerd.notifications.channels.apprise.process import AppriseProcess, LostProcessError
from pollerd.notifications.channels.apprise.settings import AppriseSettings, check_url
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    detail_of,
    kind_of_answer,
    unanswered,
)
from pollerd.notifications.message import Answer, AnswerKind, Message

_IDLE_SECONDS = 60.0
_STATUS = re.compile(r"\berror[= ](\d{3})\b")
_PARTS = re.compile(r"[:/?&=@,;#]+")
_SHORTEST_PART = 4
"""A shorter part of a URL is found in words that say nothing of it."""


class AppriseChannel:
    """One Apprise URL. Secret: `url`."""

    def __init__(self, settings: AppriseSettings, secrets: Mapping[str, str], environment: ChannelEnvironment) -> None:
        """Raises `InvalidValueError` for a URL that is refused by now."""
        self._settings, self._url, self._environment = settings, secrets["url"], environment
        check_url(settings.service, self._url)
        self._process = AppriseProcess(environment.guard)
        self._ending: asyncio.Task[None] | None = None

    async def send(self, message: Message, now: float) -> Answer:
        """Sends the message in the format that the channel asks for; see `MessageChannel`. `now` is not told."""
        body = {"text": message.text, "markdown": message.markdown, "html": message.html}[self._settings.format]
        given = {"url": self._url, "title": message.subject, "body": body, "format": self._settings.format}
        self._stay()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), self._environment.apprise_slots:
                said = await self._process.send(_clean(given))
        except TimeoutError:
            await self._process.kill()
            return Answer(AnswerKind.RETRY, None, f"not known to be sent within {DEADLINE_SECONDS:g} s")
        except LostProcessError as error:
            await self._process.kill()
            return Answer(AnswerKind.RETRY, None, str(error))
        except BaseException:
            await self._process.kill()
            raise
        self._leave_soon()
        return self._answer(str(said.get("status")), f"{said.get('error', '')} {said.get('log', '')}")

    def events_carried(self, message: Message) -> int:
        """Returns all: a chat is told how many more there are, with a link, rather than in dozens of messages."""
        return len(message.events)

    async def close(self) -> None:
        """Ends the process."""
        self._stay()
        await self._process.kill()

    def _answer(self, status: str, log: str) -> Answer:
        if status == "SUCCESS":
            return Answer(AnswerKind.SENT)
        if self._process.denial:
            return unanswered(OutcomeKind.BLOCKED_ADDRESS, self._process.denial)
        detail = detail_of(log, _secret_parts(self._url)) or "Apprise says nothing more"
        if status == "INVALID":
            return Answer(AnswerKind.REFUSED, None, detail_of(f"Apprise does not understand the URL: {detail}"))
        found = _STATUS.search(log)
        code = int(found[1]) if found else None
        kind = AnswerKind.RETRY if code is None or code < 400 else kind_of_answer(code)
        return Answer(kind, code, detail)

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _leave_soon(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._leave(), name="end-apprise")

    async def _leave(self) -> None:
        await asyncio.sleep(_IDLE_SECONDS)
        await self._process.kill()
        structlog.get_logger("pollerd.channels").debug("apprise_ended", service=self._settings.service)


def _clean(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts without halves of surrogate pairs, which JSON cannot hold."""
    return {name: value.encode("utf-8", "replace").decode() for name, value in given.items()}


def _secret_parts(url: str) -> list[str]:
    """Returns what of a URL must not be shown: all of it behind the service, as written and as meant."""
    rest = url.partition("://")[2]
    parts = [url, rest, *_PARTS.split(rest)]
    parts = [*parts, *(unquote(part) for part in parts), *(unquote_plus(part) for part in parts)]
    return [part for part in parts if len(part) >= _SHORTEST_PART]
