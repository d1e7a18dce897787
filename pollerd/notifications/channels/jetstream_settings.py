"""Settings of NATS JetStream, with the keys of its users; read without the library that sends."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.channel import (
    GivenFields,
)
from pollerd.texts import N_, _

SEED_ALLOWED = N_("the seed of a NATS user: 58 letters and digits that begin with SU")
CREDENTIALS_ALLOWED = N_("the text of a NATS credentials file, with a user's JWT and seed")
_MAX_CREDENTIALS = 32_768
_JWT = re.compile(r"-----BEGIN NATS USER JWT-----\s+([A-Za-z0-9_.-]+)\s+------END NATS USER JWT------")
_SEED = re.compile(r"-----BEGIN USER NKEY SEED-----\s+([A-Z2-7]+)\s+------END USER NKEY SEED------")
_SEED_PREFIX, _USER_PREFIX = 18 << 3, 20 << 3
_LENGTH = 2 + 32 + 2
"""Two bytes say what it is, then the key, then a checksum."""


class UserCredentials(NamedTuple):
    """What a credentials file holds."""

    jwt: str
    seed: str


def parts_of(text: str) -> UserCredentials | None:
    """Returns what a credentials file holds; None: it is not one."""
    text = text[: _MAX_CREDENTIALS + 1]
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if len(text) > _MAX_CREDENTIALS or jwt is None or seed is None or signing_key(seed[1]) is None:
        return None
    return UserCredentials(jwt[1], seed[1])


def signing_key(seed: str) -> Ed25519PrivateKey | None:
    """Returns the key of a user's seed; None: it is not one."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        return None
    if len(raw) != _LENGTH or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        return None
    if raw[0] & 0xF8 != _SEED_PREFIX or (raw[0] & 7) << 5 | raw[1] >> 3 != _USER_PREFIX:
        return None
    return Ed25519PrivateKey.from_private_bytes(raw[2:-2])


def public_name(key: Ed25519PrivateKey) -> str:
    """Returns the public key as NATS writes it ("U…")."""
    raw = bytes([_USER_PREFIX]) + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode("ascii").rstrip("=")


def signature(key: Ed25519PrivateKey, nonce: str) -> bytes:
    """Returns the answer to a server's nonce."""
    return base64.b64encode(key.sign(nonce.encode()))


JETSTREAM = "nats"
_KNOWN = ("host", "port", "tls", "subject", "stream", "username", "password", "token", "seed", "credentials")
_SECRETS = ("password", "token", "seed", "credentials")
_SUBJECT = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_STREAM = re.compile(r"[^\s.*>/\\]{1,255}")
_SUBJECT_ALLOWED = N_("a NATS subject without wildcards and spaces, at most 255 characters")
_STREAM_ALLOWED = N_("the name of a stream: no spaces, dots, wildcards and slashes")


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

    def uses(self, secret: str, fields: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        return not fields and (secret != "password" or self.username is not None)


def jetstream_settings(raw: Mapping[str, Any]) -> tuple[JetStreamSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`."""
    fields = GivenFields(raw, _KNOWN, _SECRETS)
    subject = fields.required("subject", _(_SUBJECT_ALLOWED), 255)
    stream = fields.text("stream", _STREAM_ALLOWED, 255)
    if not _SUBJECT.fullmatch(subject):
        fields.refuse("subject", _(_SUBJECT_ALLOWED))
    if stream is not None and not _STREAM.fullmatch(stream):
        fields.refuse("stream", _(_STREAM_ALLOWED))
    settings = JetStreamSettings(
        host=fields.host("host"),
        subject=subject,
        port=fields.port(4222),
        tls=fields.flag("tls", False),
        stream=stream,
        username=fields.text("username", _("1 to 320 printable characters"), 320),
    )
    return settings, _secrets(fields, settings)


def _secrets(fields: GivenFields, settings: JetStreamSettings) -> dict[str, str]:
    secrets = {
        name: value
        for name in ("password", "token", "seed")
        if (value := fields.text(name, _("1 to 1,000 printable characters"))) is not None
    }
    credentials = fields.raw("credentials")
    if credentials is not None:
        if not isinstance(credentials, str) or parts_of(credentials) is None:
            fields.refuse("credentials", _(CREDENTIALS_ALLOWED))
        secrets["credentials"] = credentials
    if len(secrets) > 1:
        raise InvalidValueError(sorted(secrets)[1], _("given alone: one way to log in at a time"), NOT_SHOWN)
    if "seed" in secrets and signing_key(secrets["seed"]) is None:
        fields.refuse("seed", _(SEED_ALLOWED))
    if "password" in secrets and settings.username is None:
        fields.refuse("username", _("given with a password"))
    return secrets
