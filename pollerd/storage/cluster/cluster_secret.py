"""The secret of the cluster: made once, at the first start of a node, and read by all."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, select, update

from pollerd.errors import InvalidValueError
from pollerd.storage.db.schema.cluster import cluster_secret
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.encryption import Encryption

_BYTES = 32
_FIELD = "cluster_secret"


def cluster_secret_of(connection: Connection, sql: Statements, encryption: Encryption) -> bytes:
    """Returns the secret; makes it where there is none.

    It is encrypted if `secret_key` is set; one that was stored before it was set is encrypted now. Without a key it is
    stored as it is: it opens no more than the database does. Raises `ConfigError` if another key encrypted it.
    """
    c = cluster_secret.c
    upsert = sql.insert_for(cluster_secret)
    fresh = secrets.token_hex(_BYTES)
    stored, encrypted = _as_stored(fresh, encryption)
    given = {"id": 1, "secret": stored, "encrypted": encrypted}
    connection.execute(upsert.on_conflict_do_nothing(index_elements=["id"]), given)
    row = connection.execute(select(c.secret, c.encrypted)).one()
    if row.encrypted:
        return encryption.open_text(row.secret).encode()
    text = row.secret.decode()
    stored, encrypted = _as_stored(text, encryption)
    if encrypted:
        connection.execute(update(cluster_secret).values(secret=stored, encrypted=True))
    return bytes(row.secret)


def _as_stored(secret: str, encryption: Encryption) -> tuple[bytes, bool]:
    """Returns the secret as it is stored, and whether it is encrypted."""
    try:
        return encryption.close_text(secret, _FIELD), True
    except InvalidValueError:  # there is no key
        return secret.encode(), False
