"""Maps database errors to ours. Two short tables name those that are our own faults; all others are retried.

A server or its operator may end a connection, refuse the next one, run out of space, fail over or become read-only. The
daemon waits for these to pass. The errors named here do not pass: our statement is wrong, or its values are, and the
same statement would always be refused.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pollerd.errors import ConfigError, DatabaseUnavailableError, SchemaError

# SQLSTATE, by class or in full; the full code wins. https://www.postgresql.org/docs/current/errcodes-appendix.html
POSTGRES_OURS = frozenset(
    {
        "21",  # cardinality violation: an upsert hits a row twice
        "22",  # data exception: a value that its column does not accept
        "23",  # integrity constraint violation
        "25001",  # a transaction inside a transaction
        "25P01",  # no transaction where one is required
        "25P02",  # a statement after a failed one
        "42",  # syntax error, undefined column, wrong type
        "54",  # program limit exceeded: a row too long for its index
    }
)
POSTGRES_PASSING = frozenset(
    {
        "42501",  # insufficient privilege: CONNECT or more was revoked
        "42P01",  # undefined table: a restore in progress, another search_path
        "42P05",  # prepared statement exists already: a pooler changed the session
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
# The errors of PostgreSQL's driver that are handled; a driver that is not loaded raised none.
_REFUSED = ("PostgresError",)
_CUT = (
    "InterfaceError",
    "InternalClientError",  # the server is not PostgreSQL, or sent an unsolicited message, as when it shuts down
)

_CONNECTION_CLASS = "08"
"""SQLSTATEs of connections that ended: the driver says them itself."""
_OF_POOLER = "unsupported startup parameter"
"""What PgBouncer says of settings that it does not hand on; PostgreSQL itself never does."""
_BEHIND_POOLER = (
    "database: must be reached without a connection pooler, or through one in session mode whose"
    " ignore_startup_parameters names the settings that pollerd gives its sessions; the one between says: {}"
)


@contextmanager
def mapped() -> Iterator[None]:
    """Raises `DatabaseUnavailableError` for recoverable database errors, `SchemaError` for a damaged file.

    Raises `ConfigError` for a connection pooler that refuses what pollerd asks of a session. The cause is kept. Our own
    faults pass unchanged.
    """
    try:
        yield
    except _refusals() as error:
        cause = _cause(error)
        if _OF_POOLER in str(cause):
            raise ConfigError(_BEHIND_POOLER.format(_one_line(cause))) from error
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
    """Returns the errors of a failed connection; TLS errors and timeouts are also `OSError`."""
    return (OSError, *_of_driver(_CUT))


def _refusals() -> tuple[type[Exception], ...]:
    return (DBAPIError, sqlite3.Error, *_of_driver(_REFUSED))


def _failures() -> tuple[type[Exception], ...]:
    return (*_connection(), PoolTimeoutError, PendingRollbackError)


def is_ours(sqlstate: str) -> bool:
    """Returns whether PostgreSQL's error of this code is our own fault, which waiting does not cure."""
    return sqlstate not in POSTGRES_PASSING and not POSTGRES_OURS.isdisjoint({sqlstate, sqlstate[:2]})


def _cause(error: BaseException) -> BaseException:
    """Returns the driver's error behind SQLAlchemy's."""
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
    """Returns what a user is shown: what the server says, or a sentence; not how a driver or a pool words it."""
    code = getattr(error, "sqlstate", None) or ""
    if isinstance(error, _of_driver(_CUT)) or code.startswith(_CONNECTION_CLASS):
        return "the connection to the database was lost"
    if isinstance(error, PoolTimeoutError):
        return "no connection to the database was free in time"
    if isinstance(error, PendingRollbackError):
        return "a transaction was broken off by the database"
    if isinstance(error, OSError):
        return _not_reached(error)
    words = str(error).split("\n", 1)[0].strip() or type(error).__name__
    return f"{words} (SQLSTATE {code})" if code else words


def _not_reached(error: OSError) -> str:
    """Returns why there is no connection, without the address, which `/readyz` would show to strangers."""
    if isinstance(error, TimeoutError):
        return "the database does not answer in time"
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "verify_message", "") or "TLS failed"
    elif isinstance(error, socket.gaierror):
        why = error.strerror or ""
    elif error.errno:
        why = os.strerror(error.errno)
    else:
        why = "the server refuses TLS (SSL)" if "SSL" in str(error) else ""
    return f"the database cannot be reached{': ' if why else ''}{why}"
