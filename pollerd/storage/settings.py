"""The operator's settings of storage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pollerd.errors import InvalidValueError
from pollerd.storage.keys import keys_of
from pollerd.texts import _

DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class StorageSettings:
    """Retention, timeouts and encryption of storage.

    Raises `InvalidValueError` for a value out of its range.
    """

    keep_contents: int = 10
    """Newest contents of a site that are kept whatever their age; at least 2, since a change lies between two."""
    content_retention_seconds: float = 30 * DAY_SECONDS
    """Time since they were last current after which older contents are dropped; above 0."""
    content_cap_bytes: int = 2 * 1024**3
    """Cap on all stored contents, compressed; at least 0. Above it, contents of the sites that keep most are dropped
    first, down to the level of others. Current contents are always kept."""
    change_retention_seconds: float | None = None
    """Age after which changes are pruned; above 0, None: they are kept."""
    poll_retention_seconds: float = 30 * DAY_SECONDS
    """Age after which polls are pruned; above 0."""
    delivery_retention_seconds: float = 30 * DAY_SECONDS
    """Age after which the delivery log and ended notices are pruned; above 0."""
    zstd_level: int = 1
    """1 to 19."""
    busy_timeout_seconds: float = 5.0
    """Longest wait for a lock held by another process; 0 to 600."""
    connect_timeout_seconds: float = 10.0
    """PostgreSQL: timeout of connecting; above 0, at most 600."""
    statement_timeout_seconds: float = 120.0
    """PostgreSQL: timeout of an answer; above 0."""
    secret_key: str | None = field(default=None, repr=False)
    """Encrypts sites' headers, credentials and proxies: Fernet keys (32 bytes in URL-safe base64) separated by commas.
    The first encrypts, all decrypt. None: SQLite keeps its own key file beside the database."""

    def __post_init__(self) -> None:
        _require("keep_contents", self.keep_contents >= 2, _("at least 2"), self.keep_contents)
        _require("content_cap_bytes", self.content_cap_bytes >= 0, _("at least 0"), self.content_cap_bytes)
        for part in ("poll", "content", "change", "delivery"):
            name = f"{part}_retention_seconds"
            retention = getattr(self, name)
            _require(name, retention is None or retention > 0, "above 0", retention)
        _require("zstd_level", 1 <= self.zstd_level <= 19, "1 to 19", self.zstd_level)
        busy = self.busy_timeout_seconds
        _require("busy_timeout_seconds", 0 <= busy <= 600, "0 to 600", busy)
        connect = self.connect_timeout_seconds
        _require("connect_timeout_seconds", 0 < connect <= 600, _("above 0, at most 600"), connect)
        if self.secret_key is not None:
            keys_of(self.secret_key)
        statement = self.statement_timeout_seconds
        _require("statement_timeout_seconds", statement > 0, "above 0", statement)


class CurrentSettings:
    """The settings in force, shared by all parts that must notice a change."""

    def __init__(self, value: StorageSettings) -> None:
        self.value = value

    def adopt(self, settings: StorageSettings) -> None:
        """Applies new retention settings. All other settings need a restart."""
        self.value = replace(
            self.value,
            keep_contents=settings.keep_contents,
            content_retention_seconds=settings.content_retention_seconds,
            content_cap_bytes=settings.content_cap_bytes,
            change_retention_seconds=settings.change_retention_seconds,
            poll_retention_seconds=settings.poll_retention_seconds,
            delivery_retention_seconds=settings.delivery_retention_seconds,
        )


def _require(field: str, holds: bool, allowed: str, value: object) -> None:
    if not holds:
        raise InvalidValueError(field, allowed, value)
