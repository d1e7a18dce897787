"""Keys that encrypt secrets at rest. `cryptography` takes 6 MB: it is imported only when there is a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pollerd.errors import InvalidValueError
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


_ALLOWED = N_("Fernet keys (32 bytes in URL-safe base64 each), parted by commas")


def new_key() -> str:
    """Returns a random key for `StorageSettings.secret_key`."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def keys_of(text: str) -> MultiFernet:
    """Parses keys separated by commas. Raises `InvalidValueError` (field `secret_key`) for invalid ones."""
    from cryptography.fernet import Fernet, MultiFernet

    try:
        return MultiFernet([Fernet(key.strip()) for key in text.split(",")])
    except ValueError as error:
        raise InvalidValueError("secret_key", _(_ALLOWED), "(not shown)") from error
