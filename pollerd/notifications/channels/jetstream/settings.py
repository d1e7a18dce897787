"""Settings of NATS JetStream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.fields import GivenFields
from pollerd.notifications.channels.jetstream.credentials import (
    CREDENTIALS_ALLOWED,
    SEED_ALLOWED,
    parts_of,
    signing_key,
)

JETSTREAM = "nats"
_KNOWN = ("host", "port", "tls", "subject", "stream", "username", "password", "token", "seed", "credentials")
_SECRETS = ("password", "token", "seed", "credentials")
_SUBJECT = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_STREAM = re.compile(r"[^\s.*>/\\]{1,255}")
_SUBJECT_ALLOWED = "a NATS subject without wildcards and spaces, at most 255 characters"
_STREAM_ALLOWED = "the name of a stream: no spaces, dots, wildcards and slashes"


class JetStreamSettings(Struct, frozen=True):
    """The server and the subject that messages are published on."""

    host: str
    subject: str
    port: int = 4222
    tls: bool = False
    """Whether the connection must be encrypted; where it is, the certificate is verified."""
    stream: str | None = None
    """The stream that must take the message; None: whichever listens to the subject."""
    username: str | None = None

    def address(self) -> object:
        """Returns what secrets are given for: never for a connection less safe."""
        return (self.host, self.port, self.tls, self.username)

    def uses(self, secret: str, given: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        return not given and (secret != "password" or self.username is not None)


def jetstream_settings(given: Mapping[str, Any]) -> tuple[JetStreamSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`."""
    fields = GivenFields(given, _KNOWN, _SECRETS)
    subject = fields.required("subject", _SUBJECT_ALLOWED, 255)
    stream = fields.text("stream", _STREAM_ALLOWED, 255)
    if not _SUBJECT.fullmatch(subject):
        fields.refuse("subject", _SUBJECT_ALLOWED)
    if stream is not None and not _STREAM.fullmatch(stream):
        fields.refuse("stream", _STREAM_ALLOWED)
    settings = JetStreamSettings(
        host=fields.host("host"),
        subject=subject,
        port=fields.port(4222),
        tls=fields.flag("tls", False),
        stream=stream,
        username=fields.text("username", "1 to 320 printable characters", 320),
    )
    return settings, _secrets(fields, settings)


def _secrets(fields: GivenFields, settings: JetStreamSettings) -> dict[str, str]:
    secrets = {
        name: value
        for name in ("password", "token", "seed")
        if (value := fields.text(name, "1 to 1,000 printable characters")) is not None
    }
    credentials = fields.raw("credentials")
    if credentials is not None:
        if not isinstance(credentials, str) or parts_of(credentials) is None:
            fields.refuse("credentials", CREDENTIALS_ALLOWED)
        secrets["credentials"] = credentials
    if len(secrets) > 1:
        raise InvalidValueError(sorted(secrets)[1], "given alone: one way to log in at a time", NOT_SHOWN)
    if "seed" in secrets and signing_key(secrets["seed"]) is None:
        fields.refuse("seed", SEED_ALLOWED)
    if "password" in secrets and settings.username is None:
        fields.refuse("username", "given with a password")
    return secrets
