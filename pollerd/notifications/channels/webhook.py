"""Channels by webhook: messages are sent as Standard Webhooks 1.0."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.fetching.poster import Posted
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    GivenFields,
    detail_of,
    kind_of_answer,
    unanswered,
)
from pollerd.notifications.message import Message, Receipt
from pollerd.notifications.payload import events_carried, payload_of
from pollerd.texts import N_, _
from pollerd.urls import normalise_url

# Secrets and signatures (symmetric, `v1`).

_PREFIX = "whsec_"
_MIN_BYTES, _MAX_BYTES, _NEW_BYTES = 24, 64, 32
SECRET_ALLOWED = N_("whsec_ and base64 of 24 to 64 random bytes, or missing: one is made then")


def new_secret() -> str:
    """Returns a secret of 32 random bytes."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_NEW_BYTES)).decode("ascii")


def is_secret(text: str) -> bool:
    """Returns whether a text is a secret."""
    if not text.startswith(_PREFIX):
        return False
    try:
        return _MIN_BYTES <= len(_key(text)) <= _MAX_BYTES
    except binascii.Error:
        return False


def signatures(keys: Iterable[str], message_id: str, timestamp: int, body: bytes) -> str:
    """Returns the header: the signatures by all these secrets. `message_id` has no "."."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    made = (hmac.digest(_key(key), signed, hashlib.sha256) for key in keys)
    return " ".join("v1," + base64.b64encode(digest).decode("ascii") for digest in made)


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)


WEBHOOK = "webhook"
HEADER = "header."
"""Prefix of the names of secrets that are headers."""
_KNOWN = ("url", "query", "secret", "previous_secret", "previous_until", "headers")
_SECRET = ("query", "secret", "previous_secret", "headers")
_MAX_HEADERS, _MAX_VALUE = 20, 4_096
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_OURS = frozenset(
    (
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    )
)
_HEADERS_ALLOWED = N_(
    "an object of at most {most} header names and values of printable ASCII, without those that belong to "
    "the connection or to the signature"
)


class WebhookSettings(Struct, frozen=True):
    """Where a webhook goes."""

    url: str
    """Without its query, which may hold a token and is a secret."""
    headers: tuple[str, ...] = ()
    """Names of the user's own headers, in lower case; their values are secrets."""
    previous_until: float | None = None
    """Until when `previous_secret` signs, too (epoch s)."""

    def address(self) -> object:
        """Returns what secrets are given for."""
        return self.url

    def uses(self, secret: str, fields: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        if secret.startswith(HEADER):
            return secret.removeprefix(HEADER) in self.headers
        return secret != "previous_secret" or self.previous_until is not None


def webhook_settings(raw: Mapping[str, Any]) -> tuple[WebhookSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`."""
    fields = GivenFields(raw, _KNOWN, _SECRET)
    try:
        url, _mark, query = normalise_url(fields.required("url", _("an absolute http or https URL"), 2_048)).partition(
            "?"
        )
    except InvalidValueError as error:
        raise error.of("url", given=_without_query(raw.get("url"))) from None
    secrets = {name: value for name in ("secret", "previous_secret") if (value := fields.text(name, _(SECRET_ALLOWED)))}
    for name, value in secrets.items():
        if not is_secret(value):
            fields.refuse(name, _(SECRET_ALLOWED))
    if query:
        secrets["query"] = query
    names, values = _headers(fields)
    return WebhookSettings(url, names, _until(fields, secrets)), secrets | values


def _without_query(value: object) -> object:
    return value.partition("?")[0] if isinstance(value, str) else value


def _until(fields: GivenFields, secrets: Mapping[str, str]) -> float | None:
    until = fields.raw("previous_until")
    allowed = _("a time in epoch seconds, given with previous_secret: until then both secrets sign")
    if until is None:
        return fields.refuse("previous_until", allowed) if "previous_secret" in secrets else None
    if isinstance(until, bool) or not isinstance(until, int | float) or not 0 <= until < 1e11:
        fields.refuse("previous_until", allowed)
    return float(until)


def _headers(fields: GivenFields) -> tuple[tuple[str, ...], dict[str, str]]:
    """Returns the names, and the values where they were given; a list of names: as it was stored."""
    headers = fields.raw("headers") or {}
    if not isinstance(headers, Mapping | list | tuple) or len(headers) > _MAX_HEADERS:
        fields.refuse("headers", _(_HEADERS_ALLOWED, most=_MAX_HEADERS))
    names = []
    for name in headers:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _OURS or name.lower() in names:
            raise InvalidValueError("headers", _(_HEADERS_ALLOWED, most=_MAX_HEADERS), name)
        names.append(name.lower())
    values = {}
    if isinstance(headers, Mapping):
        values = {HEADER + name.lower(): value for name, value in headers.items()}
    if not all(_is_value(value) for value in values.values()):
        fields.refuse("headers", _(_HEADERS_ALLOWED, most=_MAX_HEADERS))
    return tuple(names), values


def _is_value(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_VALUE and value.isascii() and value.isprintable()


_MAX_ANSWER_BYTES = 2_048


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

    async def send(self, message: Message, now: float) -> Receipt:
        """Posts the message's payload; see `MessageChannel`."""
        body = payload_of(message, link=self._environment.link)
        posted = await self._environment.poster.post(
            self._url,
            self._headers(message.id, body, now),
            body,
            now=now,
            seconds=DEADLINE_SECONDS,
            most=_MAX_ANSWER_BYTES,
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


def answer_of(posted: Posted, hidden: list[str]) -> Receipt:
    """Returns what an answer means. hidden: secrets that its text may repeat."""
    status = posted.status
    if status is None:
        return unanswered(posted.kind, detail_of(posted.detail, hidden))
    text = detail_of(posted.beginning.decode("utf-8", "replace"), hidden)
    detail = detail_of(
        _("HTTP status {status}: {text}", status=status, text=text)
        if text
        else _("HTTP status {status}", status=status)
    )
    return Receipt(kind_of_answer(status), status, detail, posted.retry_after)
