"""Values of accounts. Times are epoch seconds, durations seconds; secrets are stored as hashes only."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum

from msgspec import Struct

from pollerd.errors import InvalidValueError

SESSION_IDLE_SECONDS = 12 * 3600.0
"""Time without a request after which a session ends."""
SESSION_MOST_SECONDS = 30 * 86_400.0
"""Time after which a session ends, however often it is used."""
_NAME = re.compile(r"[\w.@+-]{1,64}")
_NAME_ALLOWED = "1 to 64 letters, digits or . @ + - _"


class Role(StrEnum):
    """What somebody may do."""

    READ = "read"
    WRITE = "write"
    SIGNALS = "signals"
    """Of tokens only: may report changed pages, and nothing else."""


class User(Struct, frozen=True):
    """A user."""

    id: int
    name: str
    role: Role
    created_at: float
    has_password: bool
    """Without one the user signs in by the proxy in front."""


class UserPassword(Struct, frozen=True):
    """A user with the hash of the password; None: the user has none."""

    user: User
    hash: str | None


class StoredToken(Struct, frozen=True):
    """A token that was made while the daemon ran."""

    id: int
    name: str
    role: Role
    created_at: float
    used_at: float | None


class Session(Struct, frozen=True):
    """A session: of a user, or of somebody who signed in with a token."""

    id: int
    user: User | None
    token_digest: bytes | None
    """SHA-256 of the token, if there is no user."""
    created_at: float
    seen_at: float
    agent: str
    """The browser, as it names itself."""
    address: str

    @property
    def expires_at(self) -> float:
        """When it ends if it is not used again."""
        return min(self.seen_at + SESSION_IDLE_SECONDS, self.created_at + SESSION_MOST_SECONDS)


class NewSession(Struct, frozen=True, kw_only=True):
    """What is stored of a session that begins. Exactly one of `user_id` and `token_digest` is given."""

    digest: bytes
    """SHA-256 of its secret."""
    user_id: int | None = None
    token_digest: bytes | None = None
    agent: str = ""
    address: str = ""


class Existing(Struct, frozen=True):
    """Whether there are accounts at all."""

    users: bool
    tokens: bool


def check_name(name: str, field: str = "name") -> str:
    """Returns a user's or token's name in its normal form. Raises `InvalidValueError`."""
    normal = unicodedata.normalize("NFC", name)
    if not _NAME.fullmatch(normal):
        raise InvalidValueError(field, _NAME_ALLOWED, name)
    return normal


def name_key(name: str) -> str:
    """Returns what names that differ in case or writing only have in common."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
