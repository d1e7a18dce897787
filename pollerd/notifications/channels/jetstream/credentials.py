"""Keys of NATS users: seeds ("SU…") and credentials files, which hold a JWT and a seed."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SEED_ALLOWED = "the seed of a NATS user: 58 letters and digits that begin with SU"
CREDENTIALS_ALLOWED = "the text of a NATS credentials file, with a user's JWT and seed"
_MOST_CREDENTIALS = 32_768
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
    text = text[: _MOST_CREDENTIALS + 1]
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if len(text) > _MOST_CREDENTIALS or jwt is None or seed is None or signing_key(seed[1]) is None:
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
