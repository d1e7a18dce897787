"""The keys that secrets at rest are sealed with: made, and read from text.

`cryptography` takes 6 MB: it is imported once there is a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pollerd.errors import InvalidValueError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_ALLOWED = "Fernet keys (32 bytes in URL-safe base64 each), parted by commas"


def new_key() -> str:
    """A random key, as `StorageSettings.secret_key` takes it."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def keys_of(text: str) -> MultiFernet:
    """The keys that `text` holds, parted by commas. Raises `InvalidValueError` (field `secret_key`) for others."""
    from cryptography.fernet import Fernet, MultiFernet

    try:
        return MultiFernet([Fernet(one.strip()) for one in text.split(",")])
    except ValueError as error:
        raise InvalidValueError("secret_key", _ALLOWED, "(not shown)") from error
