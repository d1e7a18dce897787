"""Webhooks by the Standard Webhooks specification, version 1.0.0: id, timestamp of the attempt, HMAC signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping

from pollerd.fetching import PostAnswer, Poster
from pollerd.notifications.channels.settings import WebhookSettings, webhook_key
from pollerd.notifications.message import Answer, AnswerKind, Message
from pollerd.notifications.messages.payload import payload_of

DEADLINE_SECONDS = 20.0
_LATER = frozenset({302, 303, 307, 408, 425, 429})
_REFUSED = frozenset({401, 403, 410})


class WebhookChannel:
    """Posts to one URL."""

    def __init__(
        self, settings: WebhookSettings, secrets: Mapping[str, str], poster: Poster, overview_url: str = ""
    ) -> None:
        self._settings, self._poster, self._overview_url = settings, poster, overview_url
        self._key = webhook_key(secrets["secret"])
        previous = secrets.get("previous_secret")
        self._previous_key = None if previous is None else webhook_key(previous)
        authorization = secrets.get("authorization")
        self._headers: dict[str, str] = {"Content-Type": "application/json"}
        if authorization is not None:
            self._headers["Authorization"] = authorization

    async def send(self, message: Message, now: float) -> Answer:
        """Posts once; redirects are not followed. now: epoch s."""
        body = payload_of(message, link=self._overview_url)
        headers = {**self._headers, **signed(message.id, int(now), body, self._keys(now))}
        found = await self._poster.post(self._settings.url, headers, body, seconds=DEADLINE_SECONDS, now=now)
        return _answer(found)

    async def close(self) -> None:
        """Closes the connections."""
        await self._poster.close()

    def _keys(self, now: float) -> tuple[bytes, ...]:
        until = self._settings.previous_until
        if self._previous_key is None or until is None or now >= until:
            return (self._key,)
        return (self._key, self._previous_key)


def signed(message_id: str, timestamp: int, body: bytes, keys: Iterable[bytes]) -> dict[str, str]:
    """Returns the headers of an attempt: one signature a key, so that a secret can be replaced without a gap."""
    base = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    signatures = [base64.b64encode(hmac.digest(key, base, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{one}" for one in signatures),
    }


def _answer(found: PostAnswer) -> Answer:
    status = found.status
    if status is None:
        return Answer(AnswerKind.RETRY, detail=found.detail or "no answer")
    said = f"HTTP status {status}" + (f": {found.detail}" if found.detail else "")
    if 200 <= status < 300:
        return Answer(AnswerKind.SENT, status, said)
    if status in _REFUSED:
        return Answer(AnswerKind.REFUSED, status, said, found.retry_after)
    if status in _LATER or status >= 500:
        return Answer(AnswerKind.RETRY, status, said, found.retry_after)
    return Answer(AnswerKind.DEAD, status, said)
