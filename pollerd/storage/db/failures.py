"""Foreign database errors become ours here, by two short tables of what is our own fault. All else may pass by itself.

A server, or who looks after it, can do a great deal to a connection: end it, refuse the next, run full, fail over, go
read-only. None of that is a reason to end: it is waited for. What is named here is not: a statement of ours is wrong,
or the values that it carries, and the same statement would be refused for ever.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pollerd.errors import DatabaseUnavailableError, SchemaError

# SQLSTATE, by class or whole; whole wins. https://www.postgresql.org/docs/current/errcodes-appendix.html
POSTGRES_OURS = frozenset(
    {
        "21",  # cardinality violation: a row is met twice by one upsert
        "22",  # data exception: a value that its column does not take
        "23",  # integrity constraint violation
        "25001",  # a transaction within a transaction
        "25P01",  # none where there should be one
        "25P02",  # a statement after one that failed
        "42",  # syntax error, undefined column, wrong type
        "54",  # program limit exceeded: a row too long for its index
    }
)
POSTGRES_PASSING = frozenset(
    {
        "42501",  # insufficient privilege: CONNECT or more was revoked
        "42P01",  # undefined table: a restore under way, another search_path
        "42P05",  # prepared statement exists already: a pooler changed the session behind us
    }
)
# Primary result codes. https://sqlite.org/rescode.html
SQLITE_OURS = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # syntax error, no such column
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    }
)
SQLITE_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# The errors of PostgreSQL's driver that are looked at; one that is not loaded raised nothing.
_REFUSED = ("PostgresError",)
_CUT = (
    "InterfaceError",
    "InternalClientError",  # what answers is no PostgreSQL, or said something while nobody asked: that it ends
)


@contextmanager
def mapped() -> Iterator[None]:
    """Raise `DatabaseUnavailableError` for whatever a database may recover from, `SchemaError` for a damaged file.

    The cause is kept. What is a fault of ours passes as it is.
    """
    try:
        yield
    except _refusals() as error:
        cause = _cause(error)
        if _is_damage(cause):
            raise SchemaError(_one_line(cause)) from error
        if _is_ours(cause) and not getattr(error, "connection_invalidated", False):
            raise
        raise DatabaseUnavailableError(_one_line(cause)) from error
    except _failures() as error:
        raise DatabaseUnavailableError(_one_line(error)) from error


def _of_driver(names: tuple[str, ...]) -> tuple[type[Exception], ...]:
    driver = sys.modules.get("asyncpg")
    return () if driver is None else tuple(getattr(driver, name) for name in names)


def _connection() -> tuple[type[Exception], ...]:
    """What says that a connection failed; TLS and time that runs out are `OSError`, too."""
    return (OSError, *_of_driver(_CUT))


def _refusals() -> tuple[type[Exception], ...]:
    return (DBAPIError, sqlite3.Error, *_of_driver(_REFUSED))


def _failures() -> tuple[type[Exception], ...]:
    return (*_connection(), PoolTimeoutError, PendingRollbackError)


def is_ours(sqlstate: str) -> bool:
    """Whether PostgreSQL's error of this code is a fault of ours, that no waiting mends."""
    return sqlstate not in POSTGRES_PASSING and not POSTGRES_OURS.isdisjoint({sqlstate, sqlstate[:2]})


def _cause(error: BaseException) -> BaseException:
    """The driver's error behind SQLAlchemy's."""
    found = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    behind = found.__cause__
    return behind if isinstance(behind, _connection() + _of_driver(_REFUSED)) else found


def _is_ours(cause: BaseException) -> bool:
    if isinstance(cause, _of_driver(_REFUSED)):
        return is_ours(getattr(cause, "sqlstate", None) or "")
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return code is None or (code & 0xFF) in SQLITE_OURS
    return not isinstance(cause, _connection())


def _is_damage(cause: BaseException) -> bool:
    code = getattr(cause, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in SQLITE_DAMAGED


def _one_line(error: BaseException) -> str:
    words = str(error).split("\n", 1)[0].strip() or type(error).__name__
    code = getattr(error, "sqlstate", None)
    return f"{words} (SQLSTATE {code})" if code else words
