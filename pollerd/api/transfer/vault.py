"""Encrypts exported secrets with a passphrase, bound to the document and to their owner.

The key is derived by scrypt (RFC 7914), the cipher is ChaCha20-Poly1305 (RFC 8439). The additional authenticated data
are the document's header and the owner's name, so that no secret can be moved to another site. The same passphrase also
signs the whole document (HMAC-SHA256). `cryptography` takes 6 MB: it is imported only for encryption.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import unicodedata
from collections.abc import Mapping
from typing import Any

from pollerd.errors import InvalidValueError

MIN_PASSPHRASE = 8
MAX_PASSPHRASE = 1024
_COST = {"kdf": "scrypt", "n": 2**15, "r": 8, "p": 3, "cipher": "chacha20-poly1305"}
"""32 MiB and about a third of a second. Documents with another cost are refused, as it could be arbitrarily high."""
_SALT_BYTES, _NONCE_BYTES, _KEY_BYTES = 16, 12, 32
WRONG = "that of this document, which is unchanged since it was written"


class Vault:
    """Encrypts and decrypts with one passphrase for one document."""

    def __init__(self, passphrase: str, parameters: Mapping[str, Any]) -> None:
        """parameters: from `new_parameters`. Takes a third of a second: run it in a thread.

        Raises `InvalidValueError` for parameters that are not ours.
        """
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        salt = _bytes(parameters.get("salt"))
        if salt is None or len(salt) != _SALT_BYTES or {**_COST, "salt": parameters["salt"]} != dict(parameters):
            raise InvalidValueError(
                "document", f"sealed with {_COST['kdf']} and {_COST['cipher']} as we do", "another way"
            )
        kdf = Scrypt(salt, 2 * _KEY_BYTES, n=2**15, r=8, p=3)
        key = kdf.derive(unicodedata.normalize("NFC", passphrase).encode())
        self._cipher, self._signing = ChaCha20Poly1305(key[:_KEY_BYTES]), key[_KEY_BYTES:]
        self.header = b""
        """The document's first line, to which secrets are bound."""

    def seal(self, owner: str, secret: bytes) -> str:
        """Returns the encrypted secret as text; it can be decrypted only for the same owner in the same document."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, secret, self._bound(owner))).decode()

    def open(self, owner: str, sealed: object) -> bytes:
        """Returns the decrypted secret. Raises `InvalidValueError`."""
        from cryptography.exceptions import InvalidTag

        data = _bytes(sealed)
        try:
            if data is not None and len(data) > _NONCE_BYTES:
                return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], self._bound(owner))
        except InvalidTag:
            pass
        raise InvalidValueError("passphrase", WRONG, "(not shown)")

    def signature(self, digest: bytes) -> str:
        """Returns the signature of a document with this digest."""
        return hmac.new(self._signing, digest, hashlib.sha256).hexdigest()

    def _bound(self, owner: str) -> bytes:
        return self.header + owner.encode()


def new_parameters() -> dict[str, Any]:
    """Returns a document's encryption parameters: the cost and a new salt."""
    return {**_COST, "salt": base64.b64encode(os.urandom(_SALT_BYTES)).decode()}


def passphrase_of(encoded: str | None, *, new: bool = False) -> str | None:
    """Decodes the passphrase of a call: UTF-8 in base64, as headers are ASCII. Raises `InvalidValueError`.

    new: it is used for encryption, and must not be short.
    """
    if encoded is None:
        return None
    try:
        passphrase = base64.b64decode(encoded, validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise InvalidValueError("passphrase", "a text of UTF-8, encoded in base64", "(not shown)") from error
    if not (MIN_PASSPHRASE if new else 1) <= len(passphrase) <= MAX_PASSPHRASE:
        allowed = f"{MIN_PASSPHRASE} to {MAX_PASSPHRASE} characters"
        raise InvalidValueError("passphrase", allowed, f"{len(passphrase)} characters")
    return passphrase


def _bytes(text: object) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None
