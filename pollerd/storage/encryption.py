"""Encryption of secrets at rest: headers, credentials and proxies of sites, secrets of channels.

Stores the JSON of an `Access`, or a text, under Fernet (AES-128-CBC with HMAC-SHA256).
docs/adr/0006-secrets-at-rest.md explains where the key is kept.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from pollerd.errors import ConfigError, DatabaseUnavailableError, InvalidValueError, file_fault, refusal
from pollerd.site_settings import Access, Credentials
from pollerd.storage.keys import keys_of, new_key
from pollerd.storage.schema import channel, site, tag
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


_SHOWN = 5
_HAS_SECRETS = channel.c.secrets.is_not(None)
_NAMES = ("headers", "credentials", "body", "typed", "pdf_password", "proxy")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Encryption:
    """Encrypts and decrypts secrets. Creates a key file with the first secret."""

    def __init__(self, keys: MultiFernet | None, file: Path | None) -> None:
        """`file`: the path of the key; None without keys: nothing can be encrypted."""
        self._keys, self._file = keys, file

    def encrypt(self, access: Access) -> bytes:
        """Returns the encrypted access. Raises `InvalidValueError` if there is no key."""
        named = (name for name in _NAMES if getattr(access, name))
        return self.encrypt_text(json.dumps(asdict(access)), next(named, "body"))  # a body may be empty

    def encrypt_text(self, text: str, field: str) -> bytes:
        """Returns the encrypted text. Raises `InvalidValueError` of this field if there is no key."""
        if self._keys is None and self._file is not None:
            self._keys = keys_of(_made(self._file))
        if self._keys is None:
            raise refusal(field, _("PostgreSQL keeps no secrets without a key: set POLLERD_SECRET_KEY first"))
        return self._keys.encrypt(text.encode())

    def decrypt(self, sealed: bytes) -> Access:
        """Returns the decrypted access. Raises `ConfigError` if the key is missing or wrong."""
        document = json.loads(self.decrypt_text(sealed))
        credentials = None if document["credentials"] is None else Credentials(**document["credentials"])
        headers = tuple((name, value) for name, value in document["headers"])
        more = (document.get("body"), tuple(document.get("typed", ())), document.get("pdf_password"))
        return Access(headers, credentials, document["proxy"], *more)

    def decrypt_text(self, sealed: bytes) -> str:
        """Returns the decrypted text. Raises `ConfigError` if the key is missing or wrong."""
        if self._keys is None:
            raise ConfigError(_("secret_key: the database holds secrets, but no key is set"))
        from cryptography.fernet import InvalidToken

        try:
            return self._keys.decrypt(sealed).decode()
        except InvalidToken as error:
            raise ConfigError(_("secret_key: is not the one that secrets were sealed with")) from error

    def token_of(self, purpose: str) -> str:
        """Returns a token that only a holder of the key can make, for URLs. Raises `InvalidValueError` without key."""
        return self.encrypt_text(purpose, "secret_key").decode().rstrip("=")

    def is_token_of(self, purpose: str, token: str) -> bool:
        """Returns whether the token was made for this purpose, by this key."""
        try:
            return self.decrypt_text(f"{token}{'=' * (-len(token) % 4)}".encode()) == purpose
        except ConfigError:
            return False


def seal_of(key: str | None, database: Path | None, *, is_server: bool) -> Encryption:
    """Returns the encryption of a database: by `key`, else by the key file beside an SQLite file, else none.

    With both, secrets encrypted with the file's key stay readable. A database in memory gets a temporary key. Raises
    `InvalidValueError` for an invalid `key`, and `ConfigError` for a key file that cannot be used.
    """
    if is_server:
        return Encryption(None if key is None else keys_of(key), None)
    if database is None:
        return Encryption(keys_of(key or new_key()), None)
    file = key_file(database)
    kept = _read(file) if file.exists() else None
    known = [text for text in (key, kept) if text is not None]
    return Encryption(keys_of(",".join(known)) if known else None, file)


def key_file(database: Path) -> Path:
    """Returns the default key file of an SQLite file: `pollerd.db.key` beside `pollerd.db`."""
    return database.with_name(f"{database.name}.key")


def check_seals(connection: Connection, seal: Encryption) -> None:
    """Decrypts every secret once. Raises `ConfigError`, naming sites, if one cannot be decrypted."""
    rows = connection.execute(select(site.c.id, site.c.access).where(site.c.access.is_not(None)).order_by(site.c.id))
    closed: list[int] = []
    why = ""
    for site_id, sealed in rows:
        try:
            seal.decrypt(sealed)
        except ConfigError as error:
            closed.append(site_id)
            why = str(error)
    for name, sealed in connection.execute(select(tag.c.name, tag.c.access).where(tag.c.access.is_not(None))):
        try:
            seal.decrypt(sealed)
        except ConfigError as error:
            raise ConfigError(_("tag {name}: {error}", name=name, error=error)) from error
    for name, sealed in connection.execute(select(channel.c.name, channel.c.secrets).where(_HAS_SECRETS)):
        try:
            seal.decrypt_text(sealed)
        except ConfigError as error:
            raise ConfigError(_("channel {name}: {error}", name=name, error=error)) from error
    if closed:
        shown = ", ".join(map(str, closed[:_SHOWN]))
        more = len(closed) - _SHOWN
        text = N_("{why} (sites {shown} and {more} more)") if more > 0 else N_("{why} (sites {shown})")
        raise ConfigError(_(text, why=why, shown=shown, more=more))


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="ascii").strip()
        keys_of(text)
    except InvalidValueError as error:
        raise ConfigError(_("key file {file} cannot be used: {error}", file=file, error=error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(_("key file: {fault}", fault=file_fault(file, error))) from error
    return text


def _made(file: Path) -> str:
    """Returns a new key, written to disk before use and readable by its owner only."""
    key = new_key()
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(partial, _NEW, 0o600), "w", encoding="ascii") as out:
            out.write(f"{key}\n")
            out.flush()
            os.fsync(out.fileno())
        # The daemon's lock is held: no other process creates a key for this database.
        partial.rename(file)
        _sync_folder(file.parent)
    except OSError as error:
        raise DatabaseUnavailableError(
            _("key file {file} cannot be written: {reason}", file=file, reason=error.strerror)
        ) from error
    return key


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
