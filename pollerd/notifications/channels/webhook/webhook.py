"""Sends messages as Standard Webhooks."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.fetching import Posted
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    detail_of,
    kind_of_answer,
    unanswered,
)
from pollerd.notifications.channels.webhook.settings import HEADER, WebhookSettings
from pollerd.notifications.channels.webhook.signing import new_secret, signatures
from pollerd.notifications.message import Answer, Message
from pollerd.notifications.messages.payload import events_carried, payload_of

_MOST_ANSWER_BYTES = 2_048


def complete_webhook(secrets: Mapping[str, str]) -> dict[str, str]:
    """Returns the secrets of a webhook, with a new one to sign by if the user gave none."""
    return dict(secrets) if "secret" in secrets else {**secrets, "secret": new_secret()}


class Webhook:
    """One webhook. Secrets: `secret`, `previous_secret`, `query`, and headers."""

    def __init__(self, settings: WebhookSettings, secrets: Mapping[str, str], environment: ChannelEnvironment) -> None:
        self._settings, self._secrets, self._environment = settings, dict(secrets), environment
        query = secrets.get("query")
        self._url = settings.url if query is None else f"{settings.url}?{query}"
        self._own = {name: secrets.get(HEADER + name, "") for name in settings.headers}

    async def send(self, message: Message, now: float) -> Answer:
        """Posts the message's payload; see `MessageChannel`."""
        body = payload_of(message, link=self._environment.link)
        posted = await self._environment.poster.post(
            self._url,
            self._headers(message.id, body, now),
            body,
            now=now,
            seconds=DEADLINE_SECONDS,
            most=_MOST_ANSWER_BYTES,
        )
        return answer_of(posted, self._hidden())

    def events_carried(self, message: Message) -> int:
        """Returns how many events the payload holds; see `MessageChannel`."""
        return events_carried(message, link=self._environment.link)

    async def close(self) -> None:
        """Does nothing: connections belong to all webhooks together."""

    def _headers(self, message_id: str, body: bytes, now: float) -> dict[str, str]:
        timestamp = int(now)
        keys = [self._secrets["secret"]]
        until = self._settings.previous_until
        if until is not None and now < until and "previous_secret" in self._secrets:
            keys.append(self._secrets["previous_secret"])
        return {
            **self._own,
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(keys, message_id, timestamp, body),
        }

    def _hidden(self) -> list[str]:
        """Returns what a receiver may repeat to us: whole secrets, and the parts of the query and of headers."""
        parts = [part for value in (self._secrets.get("query", ""), *self._own.values()) for part in _parts(value)]
        return [*self._secrets.values(), *parts]


def _parts(value: str) -> list[str]:
    return [piece for part in value.replace("&", " ").split() if len(piece := part.partition("=")[2] or part) > 7]


def answer_of(posted: Posted, hidden: list[str]) -> Answer:
    """Returns what an answer means. hidden: secrets that its text may repeat."""
    status = posted.status
    if status is None:
        return unanswered(posted.kind, detail_of(posted.detail, hidden))
    said = detail_of(posted.beginning.decode("utf-8", "replace"), hidden)
    detail = detail_of(f"HTTP status {status}: {said}" if said else f"HTTP status {status}")
    return Answer(kind_of_answer(status), status, detail, posted.retry_after)
