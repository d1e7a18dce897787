"""Checks what a hub signed (W3C WebSub, section 8)."""

from __future__ import annotations

import hmac

METHODS = ("sha1", "sha256", "sha384", "sha512")
"""Hash functions that the protocol names. HMAC with SHA-1 counts: it does not rest on collisions, and hubs use it."""


def is_signed(body: bytes, signature: str, secret: bytes) -> bool:
    """Returns whether `signature`, the header X-Hub-Signature, is that of the body: `method=hexadecimal HMAC`.

    Compared in constant time. False for an unknown method.
    """
    method, _, given = signature.strip().partition("=")
    if method.lower() not in METHODS:
        return False
    right = hmac.new(secret, body, method.lower()).hexdigest()
    return hmac.compare_digest(right.encode(), given.strip().lower().encode("utf-8", "replace"))
