"""Secrets and signatures of Standard Webhooks 1.0 (symmetric, `v1`)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

_PREFIX = "whsec_"
_LEAST_BYTES, _MOST_BYTES, _NEW_BYTES = 24, 64, 32
SECRET_ALLOWED = f"{_PREFIX} and base64 of {_LEAST_BYTES} to {_MOST_BYTES} random bytes, or left out: one is made then"


def new_secret() -> str:
    """Returns a secret of 32 random bytes."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_NEW_BYTES)).decode("ascii")


def is_secret(text: str) -> bool:
    """Returns whether a text is a secret."""
    if not text.startswith(_PREFIX):
        return False
    try:
        return _LEAST_BYTES <= len(_key(text)) <= _MOST_BYTES
    except binascii.Error:
        return False


def signatures(keys: Iterable[str], message_id: str, timestamp: int, body: bytes) -> str:
    """Returns the header: the signatures by all these secrets. `message_id` has no "."."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    made = (hmac.digest(_key(key), signed, hashlib.sha256) for key in keys)
    return " ".join("v1," + base64.b64encode(one).decode("ascii") for one in made)


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
