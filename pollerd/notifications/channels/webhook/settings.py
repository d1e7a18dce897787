"""Settings of a webhook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.notifications.channels.fields import GivenFields
from pollerd.notifications.channels.webhook.signing import SECRET_ALLOWED, is_secret
from pollerd.urls import normalise_url

WEBHOOK = "webhook"
HEADER = "header."
"""Prefix of the names of secrets that are headers."""
_KNOWN = ("url", "query", "secret", "previous_secret", "previous_until", "headers")
_SECRET = ("query", "secret", "previous_secret", "headers")
_MOST_HEADERS, _MOST_VALUE = 20, 4_096
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
_HEADERS_ALLOWED = (
    f"an object of at most {_MOST_HEADERS} header names and values of printable ASCII, without those that belong to "
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

    def uses(self, secret: str, given: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        if secret.startswith(HEADER):
            return secret.removeprefix(HEADER) in self.headers
        return secret != "previous_secret" or self.previous_until is not None


def webhook_settings(given: Mapping[str, Any]) -> tuple[WebhookSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`."""
    fields = GivenFields(given, _KNOWN, _SECRET)
    try:
        url, _, query = normalise_url(fields.required("url", "an absolute http or https URL", 2_048)).partition("?")
    except InvalidValueError as error:
        raise InvalidValueError("url", error.allowed, _without_query(given.get("url"))) from None
    secrets = {name: value for name in ("secret", "previous_secret") if (value := fields.text(name, SECRET_ALLOWED))}
    for name, value in secrets.items():
        if not is_secret(value):
            fields.refuse(name, SECRET_ALLOWED)
    if query:
        secrets["query"] = query
    names, values = _headers(fields)
    return WebhookSettings(url, names, _until(fields, secrets)), secrets | values


def _without_query(given: object) -> object:
    return given.partition("?")[0] if isinstance(given, str) else given


def _until(fields: GivenFields, secrets: Mapping[str, str]) -> float | None:
    until = fields.raw("previous_until")
    allowed = "a time in epoch seconds, given with previous_secret: until then both secrets sign"
    if until is None:
        return fields.refuse("previous_until", allowed) if "previous_secret" in secrets else None
    if isinstance(until, bool) or not isinstance(until, int | float) or not 0 <= until < 1e11:
        fields.refuse("previous_until", allowed)
    return float(until)


def _headers(fields: GivenFields) -> tuple[tuple[str, ...], dict[str, str]]:
    """Returns the names, and the values where they were given; a list of names: as it was stored."""
    given = fields.raw("headers") or {}
    if not isinstance(given, Mapping | list | tuple) or len(given) > _MOST_HEADERS:
        fields.refuse("headers", _HEADERS_ALLOWED)
    names = []
    for name in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _OURS or name.lower() in names:
            raise InvalidValueError("headers", _HEADERS_ALLOWED, name)
        names.append(name.lower())
    values = {}
    if isinstance(given, Mapping):
        values = {HEADER + name.lower(): value for name, value in given.items()}
    if not all(_is_value(value) for value in values.values()):
        fields.refuse("headers", _HEADERS_ALLOWED)
    return tuple(names), values


def _is_value(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_VALUE and value.isascii() and value.isprintable()
