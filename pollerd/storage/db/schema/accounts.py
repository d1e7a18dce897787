"""Who may use the daemon: users, sessions, tokens."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, Index, LargeBinary, Table, Text, UniqueConstraint

from pollerd.storage.db.schema.base import Id, id_column, metadata

# Who may sign in. `key`: the name in its normal form, so that names that differ in case only are one. `password_hash`:
# argon2; NULL: the proxy in front signs the user in.
user_account = Table(
    "user_account",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("password_hash", Text),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("key"),
    sqlite_autoincrement=True,
)

# Who is signed in. `digest`: SHA-256 of the session's secret. Without a user: whoever signed in with the token of
# `token_digest`, its SHA-256; that token may be one of the settings.
user_session = Table(
    "user_session",
    metadata,
    id_column(),
    Column("digest", LargeBinary, nullable=False),
    Column("user_id", Id, ForeignKey("user_account.id", ondelete="CASCADE")),
    Column("token_digest", LargeBinary),
    Column("created_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("agent", Text, nullable=False),
    Column("address", Text, nullable=False),
    UniqueConstraint("digest"),
    Index(None, "user_id"),
    sqlite_autoincrement=True,
)

# Tokens made while the daemon runs. `digest`: SHA-256.
api_token = Table(
    "api_token",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("used_at", Double),
    UniqueConstraint("key"),
    UniqueConstraint("digest"),
    sqlite_autoincrement=True,
)
